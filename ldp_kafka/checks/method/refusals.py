"""The checks of what a method refuses: slots that are past, and values that are none."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import refused, require
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.sources import KEY, LOUD, Recorder
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed, seeded

__all__ = ["slots_must_increase", "values_are_checked"]


def slots_must_increase(trial: MethodTrial) -> None:
    """A repeated or earlier slot of any user in a batch is refused, and nothing is drawn or changed
    for anyone.
    """
    method, source, streams = trial.real(), Recorder(keyed(KEY)), trial.streams(4, 3)
    state = method.state(source.digests([str(i) for i in range(4)]))
    bound = method.bound(streams[:, 0])
    method.step(state, Batch(np.arange(2), 5, bound[:2], source))
    method.step(state, Batch(np.arange(1), 7, bound[:1], source))
    before, drawn = (
        {name: column.copy() for name, column in state.columns.items()},
        len(source.draws),
    )
    for slot in (7, 6, 5, 0):
        refused(
            partial(method.step, state, Batch(np.array([2, 0, 3]), slot, bound[:3], source)),
            "a slot that is not later than a user's last",
        )
        require(len(source.draws) == drawn, "a refused slot must draw nothing")
        require(
            all(np.array_equal(column, before[name]) for name, column in state.columns.items()),
            "a refused slot must change no user's state",
        )


def values_are_checked(trial: MethodTrial) -> None:
    """Numbers outside the domain count as its ends; what is not finite, or no category, is refused
    without being shown.
    """
    method = trial.real()
    if method.kind == "categorical":
        for bad in (-LOUD, *([] if method.pauses else [-1]), method.categories, LOUD):
            refused(
                partial(method.release, np.array([0, bad]), seeded(1)),
                "a number that is no category",
                hidden=[str(LOUD)],
            )
        unbound(method, np.array([0, -1]))
        refused(
            lambda: method.release(np.array([0.0, 1.0]), seeded(1)),
            "categories that are not whole numbers",
        )
        return
    lo, hi = method.domain
    wide, inside = hi - lo, lo + 0.3141592653 * (hi - lo)
    shape = (-1, method.dimension) if method.dimension else -1
    many = max(1, method.dimension)
    outside, ends = (
        np.repeat(each, many).reshape(shape)
        for each in ([hi + 4 * wide, lo - 5 * wide, inside, hi + wide], [hi, lo, inside, hi])
    )
    require(
        np.array_equal(
            method.release(outside, seeded(3)), method.release(ends, seeded(3)), equal_nan=True
        ),
        "values outside the domain must be clamped to it",
    )
    for bad in (*([] if method.pauses else [nan]), inf, -inf):
        refused(
            partial(method.release, np.resize([inside, bad], 2 * many).reshape(shape), seeded(1)),
            "a value that is not finite",
            hidden=[str(inside)[:8]],
        )
    unbound(method, np.resize([inside, nan], 2 * many).reshape(shape))


def unbound(method: Any, values: NDArray[Any]) -> None:
    """What stands for no value is refused where a value must be."""
    refused(partial(method.bound, values), "no value where there must be one")
