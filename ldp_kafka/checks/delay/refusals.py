"""The checks of what a delay method refuses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import refused, require
from ldp_kafka.checks.sources import KEY, LOUD, Recorder
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed, seeded

__all__ = ["no_stream_is_left_waiting", "slots_must_increase", "values_are_checked"]


def slots_must_increase(trial: DelayTrial) -> None:
    """A repeated or earlier slot of any stream is refused, and so is one inside a batch; nothing
    is drawn or changed for anyone.
    """
    method, source = trial.make(), Recorder(keyed(KEY))
    hop = method.windows.hop
    values = method.bound(trial.streams(hop, 3))
    state = method.state(source.digests(["a", "b", "c"]))
    method.step(state, Batch(np.arange(2), 6 * hop, values[:, :2], source))
    bad = [6 * hop, 5 * hop] + [7 * hop + 1] * (hop > 1)
    _refuses(method, state, source, [(np.array([2, 0]), slot, values[:, :2]) for slot in bad])


def no_stream_is_left_waiting(trial: DelayTrial) -> None:
    """A stream that has values waiting must be stepped in the next slot: a later one is refused,
    and nothing is drawn or changed for anyone. Where nothing waits, any later slot is taken.
    """
    method, source = trial.make(), Recorder(keyed(KEY))
    hop, rows = method.windows.hop, np.arange(2)
    values = method.bound(trial.streams(hop, 2))
    there, nobody = np.ones((hop, 2), np.bool_), np.zeros((hop, 2), np.bool_)
    state = method.state(source.digests(["a", "b"]))
    require(not method.waiting(state, rows).any(), "a new stream must not wait")
    slot = 5 * hop
    there[:, 1] = False
    method.step(state, Batch(rows, slot, values, source, there))
    require(
        method.waiting(state, rows).tolist() == [method.windows.behind > 0, False],
        "a stream must wait as long as it has values that are not released",
    )
    while method.waiting(state, rows).any():
        _refuses(method, state, source, [(rows, slot + 2 * hop, values)])
        slot += hop
        method.step(state, Batch(rows, slot, values, source, nobody))
        require(slot <= (5 + 3 * method.delay) * hop, "a stream must not wait for ever")
    method.step(state, Batch(rows, slot + 7 * hop, values, source, there))


def values_are_checked(trial: DelayTrial) -> None:
    """Numbers outside the domain count as its ends; what is not finite is refused without being
    shown, and so is what `bound` never gives.
    """
    method = trial.make()
    lo, hi = method.domain
    wide, inside = hi - lo, lo + 0.3141592653 * (hi - lo)
    outside = np.array([hi + 4 * wide, lo - 5 * wide, inside, hi + wide])
    ends = np.array([hi, lo, inside, hi])
    require(
        np.array_equal(method.release(outside, seeded(3)), method.release(ends, seeded(3))),
        "values outside the domain must be clamped to it",
    )
    for bad in (nan, inf, -inf):
        refused(
            partial(method.release, np.array([inside, bad]), seeded(1)),
            "a number that is not finite",
            hidden=[str(inside)],
        )
    state = method.state(seeded(1).digests(["a"]))
    values = np.zeros((method.windows.hop, 1), np.int64)
    for wrong in (-LOUD, 2**32 + LOUD):
        refused(
            partial(method.step, state, Batch(np.arange(1), 0, values + wrong, seeded(1))),
            "a number that is not bound to the domain",
            hidden=[str(wrong)],
        )
    for shape in ((method.windows.hop + 1, 1), (method.windows.hop,)):
        refused(
            partial(
                method.step,
                state,
                Batch(np.arange(1), 0, np.zeros(shape, np.int64), seeded(1)),
            ),
            "values of another shape",
        )


def _refuses(
    method: Any,
    state: State,
    source: Recorder,
    calls: Sequence[tuple[NDArray[np.intp], int, NDArray[np.int64]]],
) -> None:
    """Each call of step is refused, draws nothing and changes nothing."""
    before = {name: column.copy() for name, column in state.columns.items()}
    drawn = len(source.draws)
    for rows, slot, values in calls:
        step = partial(method.step, state, Batch(rows, slot, values, source))
        refused(step, "a slot that a stream cannot be stepped at")
        require(len(source.draws) == drawn, "a refused slot must draw nothing")
        require(
            all(np.array_equal(column, before[name]) for name, column in state.columns.items()),
            "a refused slot must change no stream's state",
        )
