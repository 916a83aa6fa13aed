"""The checks that a release is the same however its streams are stepped, and its noise each
stream's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.sources import KEY, Listener
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import keyed

__all__ = [
    "every_slot_is_released_once",
    "noise_is_its_own",
    "noise_is_keyed",
    "nothing_after_the_window_matters",
    "release_is_step",
    "streams_are_apart",
]

FIRST = 3  # in the middle of a batch, where one noise is not for all of it


def _opening(method: Any, slot: int = FIRST) -> int:
    """The first slot from this one on that keyed noise may begin with."""
    return next(at for at in count(slot) if method.drawn_from(at) == at)


def every_slot_is_released_once(trial: DelayTrial) -> None:
    """In the shape of the streams, inside the domain, and null only where a slot had no value."""
    method = trial.make()
    lo, hi = method.domain
    streams = trial.streams(5, 3 * method.delay + 7)
    released = _release(method, streams)
    require(
        released.shape == streams.shape and bool(np.isfinite(released).all()),
        "every slot with a value must be released",
    )
    require(
        bool(((released >= lo) & (released <= hi)).all()), "releases must lie inside the domain"
    )
    present = trial.presence(*streams.shape)
    gaps = _release(method, streams, present=present)
    require(
        bool(np.isfinite(gaps[present]).all()), "gaps must not keep other slots from their release"
    )
    require(
        method.fills or bool(np.isnan(gaps[~present]).all()),
        "a slot without a value must not be released",
    )
    nothing = _release(method, streams, present=np.zeros_like(present))
    require(bool(np.isnan(nothing).all()), "a stream without values must release nothing")


def nothing_after_the_window_matters(trial: DelayTrial) -> None:
    """What comes after a slot's window does not change its release."""
    method = trial.make()
    slots = 5 * method.delay
    streams = trial.streams(4, slots)
    for known in (2 * method.delay, 3 * method.delay):
        other = streams.copy()
        other[:, known:] = trial.method.domain[0]
        sure = known if method.setting == "batch" else known - method.delay
        require(
            np.array_equal(
                _release(method, streams, first=0)[:, :sure],
                _release(method, other, first=0)[:, :sure],
            ),
            "a release must not wait for, or look at, anything after its window",
        )


def release_is_step(trial: DelayTrial) -> None:
    """`release` equals steps of one stream at a time, in a state of many, whose streams come in
    any order, and are left out where nothing of them waits.
    """
    method = trial.make()
    many, slots, first = 6, 6 * method.delay + 5, _opening(method)
    streams, present = trial.streams(many, slots), trial.presence(many, slots)
    ids = [f"stream-{i}" for i in range(many)]
    whole = _release(method, streams, users=ids, present=present)
    for i in range(many):
        alone = _release(method, streams[i], users=ids[i : i + 1], present=present[i])
        require(
            np.array_equal(whole[i], alone, equal_nan=True),
            "one stream must be released as it is among others",
        )
    bound, hop = method.bound(streams), method.windows.hop
    width = method.domain[1] - method.domain[0]
    source, behind = keyed(KEY), method.windows.behind
    state, twin = (method.state(source.digests(["another", *ids])) for _ in range(2))
    start = first - first % hop
    stepped = np.full(streams.shape, np.nan)
    for turn, slot in enumerate(range(start, first + slots + behind + hop, hop)):
        places = range(slot - first, slot - first + hop)
        inside = [0 <= at < slots for at in places]
        values, there = np.zeros((hop, many), np.int64), np.zeros((hop, many), np.bool_)
        for row, (at, is_inside) in enumerate(zip(places, inside, strict=True)):
            if is_inside:
                values[row], there[row] = bound[:, at], present[:, at]
        needed = there.any(0) | method.waiting(state, np.arange(1, many + 1))
        order = np.roll(np.flatnonzero(needed), turn)[:: 1 if turn % 2 else -1]
        batch = Batch(order + 1, slot, values[:, order], source, there[:, order])
        closed, step = method.close(state, batch), method.step(twin, batch)
        known = ~np.isnan(closed.values.T)
        reported = method.released(step.answers)
        require(
            bool(np.array_equal(step.slots != NEVER, known))
            and bool((np.abs(reported - closed.values.T)[known] <= method.scale * width).all()),
            "what a step reports must be what it releases",
        )
        require(closed.first == slot - behind, "a step must say which slots it releases")
        for row in range(hop):
            at = closed.first + row - first
            if 0 <= at < slots:
                stepped[order, at] = closed.values[row]
    wanted = np.where(present, whole, np.nan)
    require(
        np.array_equal(wanted, np.where(present, stepped, np.nan), equal_nan=True),
        "release must equal stepping, whatever the order, without streams that wait for nothing",
    )


def streams_are_apart(trial: DelayTrial) -> None:
    """What one stream releases does not change when others have other values, or none."""
    method = trial.make()
    streams = trial.streams(5, 3 * method.delay + 5)
    ids = [f"stream-{i}" for i in range(len(streams))]
    whole = _release(method, streams, users=ids)
    for i in range(len(ids)):
        other = np.flip(streams, axis=1).copy()
        other[i] = streams[i]
        present = trial.presence(*streams.shape)
        present[i] = True
        again = _release(method, other, users=ids, present=present)
        require(
            np.array_equal(whole[i], again[i]), "other streams must not reach a stream's releases"
        )


def noise_is_keyed(trial: DelayTrial) -> None:
    """The same key, streams, slots and values give the same releases; another of any of them gives
    others.
    """
    method = trial.make()
    streams = trial.streams(48, 3 * method.delay + 5)
    ids = [f"stream-{i}" for i in range(len(streams))]
    base = _release(method, streams, users=ids)
    require(np.array_equal(base, _release(method, streams, users=ids)), "a replay must be the same")
    require(
        np.array_equal(base[::-1], _release(method, streams[::-1], users=ids[::-1])),
        "noise must belong to the stream, not to the row",
    )
    others = {
        "key": _release(method, streams, users=ids, key=KEY[::-1]),
        "stream": _release(method, streams, users=[f"not {each}" for each in ids]),
        "slot": _release(
            method, streams, users=ids, first=_opening(method, FIRST + 100 * method.delay)
        ),
    }
    for what, other in others.items():
        # a group's or a bucket's end can be hit twice
        require(float((base == other).mean()) < 0.5, f"another {what} must get other noise")


def noise_is_its_own(trial: DelayTrial) -> None:
    """Under one key, for the same streams and slots, the method with another budget, or under
    another name, draws other words.
    """
    method, renamed, richer = trial.make(), trial.make(), trial.make()
    renamed.name = f"not {renamed.name}"
    richer.epsilon = 2 * richer.epsilon
    streams, heard = trial.streams(16, 2 * method.delay + 5), []
    ids = [f"stream-{i}" for i in range(len(streams))]
    for each in (method, renamed, richer):
        ear = Listener(keyed(KEY))
        each.release(streams, ear, users=ids, first_slot=_opening(each))
        heard.append(ear.heard)
    require(all(heard), "noise must be made of the words of the source")
    require(
        heard[0].isdisjoint(heard[1]) and heard[0].isdisjoint(heard[2]),
        "noise must be drawn within a use of its own, which name and budget are a part of",
    )


def _release(
    method: Any,
    streams: NDArray[np.float64],
    *,
    users: Sequence[str] | None = None,
    present: NDArray[np.bool_] | None = None,
    key: bytes = KEY,
    first: int | None = None,
) -> NDArray[np.float64]:
    ids = [f"stream-{i}" for i in range(len(np.atleast_2d(streams)))] if users is None else users
    first = _opening(method) if first is None else first
    found = method.release(streams, keyed(key), users=ids, first_slot=first, present=present)
    return np.asarray(found)
