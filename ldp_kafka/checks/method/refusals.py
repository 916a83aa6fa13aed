"""The checks of what a method refuses: slots that are past, and values that are none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.checks.failure import refused, require
from ldp_kafka.checks.method.trial import Trial
from ldp_kafka.checks.sources import KEY, LOUD, Recorder
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed, seeded

__all__ = ["no_step", "slots_must_increase", "values_are_checked"]


def no_step(
    method: Any, state: State, source: Recorder, rows: Sequence[int], slot: int, values: Any
) -> None:
    """A step at this slot is refused, draws nothing and changes nothing for anyone."""
    before = {name: column.copy() for name, column in state.columns.items()}
    drawn = len(source.draws)
    refused(
        partial(method.step, state, Batch(np.array(rows), slot, values, source)),
        "a slot that a user cannot be stepped at",
    )
    require(len(source.draws) == drawn, "a refused slot must draw nothing")
    require(
        all(np.array_equal(column, before[name]) for name, column in state.columns.items()),
        "a refused slot must change no user's state",
    )


def slots_must_increase(trial: Trial) -> None:
    """A repeated or earlier slot of any user in a batch is refused, and so is one inside a batch of
    slots; nothing is drawn or changed for anyone.
    """
    method, source = trial.real(), Recorder(keyed(KEY))
    hop, state = method.hop, method.state(source.digests(["a", "b", "c", "d"]))
    values, slot, waiting = (
        trial.values(method, 3),
        5 * method.hop,
        getattr(method, "waiting", None),
    )
    users = values.ndim - 1 - bool(method.dimension)  # the axis of users

    def step(rows: list[int], present: NDArray[np.bool_] | None = None) -> None:
        part = np.take(values, rows, axis=users)
        method.step(state, Batch(np.array(rows), slot, part, source, present))

    step([0, 1])
    for _ in range(trial.slots):  # until a slot can be left out
        if waiting is None or not waiting(state, np.arange(1)).any():
            break
        slot += hop
        step([0], np.zeros((hop, 1), np.bool_))
    slot += 2 * hop
    step([0])
    for bad in (slot, slot - hop, 5 * hop, 0, *([slot + hop + 1] if hop > 1 else [])):
        no_step(method, state, source, [2, 0, 3], bad, values)


def values_are_checked(trial: Trial) -> None:
    """Numbers outside the domain count as its ends; what is not finite, or no category, is refused
    without being shown.
    """
    method = trial.real()
    gaps = method.pauses or method.cover
    for call, what, hidden in trial.wrong_steps(method):
        refused(call, what, hidden=hidden)
    if method.kind == "categorical":
        for bad in (-LOUD, *([] if gaps else [-1]), method.categories, LOUD):
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
    for bad in (*([] if gaps else [nan]), inf, -inf):
        refused(
            partial(method.release, np.resize([inside, bad], 2 * many).reshape(shape), seeded(1)),
            "a value that is not finite",
            hidden=[str(inside)[:8]],
        )
    unbound(method, np.resize([inside, nan], 2 * many).reshape(shape))


def unbound(method: Any, values: NDArray[Any]) -> None:
    """What stands for no value is refused where a value must be."""
    refused(partial(method.bound, values), "no value where there must be one")
