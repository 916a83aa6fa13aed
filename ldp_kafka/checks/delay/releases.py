"""The checks of what a method that releases windows releases, and when."""

from __future__ import annotations

import numpy as np

from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.releases import release

__all__ = ["every_slot_is_released_once", "nothing_after_the_window_matters"]


def every_slot_is_released_once(trial: DelayTrial) -> None:
    """In the shape of the streams, inside the domain, and null only where a slot had no value."""
    method = trial.real()
    lo, hi = method.domain
    streams = trial.streams(5, 3 * method.delay + 7)
    released = release(trial, method, streams)
    require(
        released.shape == streams.shape and bool(np.isfinite(released).all()),
        "every slot with a value must be released",
    )
    require(
        bool(((released >= lo) & (released <= hi)).all()), "releases must lie inside the domain"
    )
    present = trial.presence(*streams.shape)
    gaps = release(trial, method, streams, present=present)
    require(
        bool(np.isfinite(gaps[present]).all()), "gaps must not keep other slots from their release"
    )
    require(
        method.fills or bool(np.isnan(gaps[~present]).all()),
        "a slot without a value must not be released",
    )
    nothing = release(trial, method, streams, present=np.zeros_like(present))
    require(bool(np.isnan(nothing).all()), "a stream without values must release nothing")


def nothing_after_the_window_matters(trial: DelayTrial) -> None:
    """What comes after a slot's window does not change its release."""
    method = trial.real()
    slots = 5 * method.delay
    streams = trial.streams(4, slots)
    for known in (2 * method.delay, 3 * method.delay):
        other = streams.copy()
        other[:, known:] = trial.small.domain[0]
        sure = known if method.setting == "batch" else known - method.delay
        require(
            np.array_equal(
                release(trial, method, streams, first=0)[:, :sure],
                release(trial, method, other, first=0)[:, :sure],
            ),
            "a release must not wait for, or look at, anything after its window",
        )
