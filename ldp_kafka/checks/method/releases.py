"""The checks that a release is the same in any batches, and its noise each user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.sources import KEY, Listener
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods.batch import Batch
from ldp_kafka.randomness import Randomness, keyed

__all__ = ["noise_is_its_own", "noise_is_keyed", "release_is_step", "users_are_apart"]


def release_is_step(trial: MethodTrial) -> None:
    """`release` equals one record at a time, one user at a time, and a shared state whose users
    come in another order, or without a value in some slots.
    """
    method, streams = trial.real(), trial.streams(6, 12)
    ids = [f"user-{i}" for i in range(len(streams))]
    whole = method.release(streams, keyed(KEY), users=ids, first_slot=3)
    require(whole.shape == streams.shape, "release must keep the shape of its streams")
    for i, user in enumerate(ids):
        alone, source = trial.real(), keyed(KEY)
        state = alone.state(source.digests([user]))
        singles = [
            _stepped(alone, state, np.array([0]), 3 + t, streams[i, t : t + 1], source=source)
            for t in range(streams.shape[1])
        ]
        require(
            _same(method, whole[i : i + 1], np.stack(singles, axis=1)),
            "release must equal stepping one record at a time",
        )
    require(
        np.array_equal(
            whole[0],
            method.release(streams[0], keyed(KEY), users=ids[:1], first_slot=3),
            equal_nan=_floats(whole),
        ),
        "one stream must be released as it is among others",
    )
    source = keyed(KEY)
    state, mixed = method.state(source.digests(ids)), np.empty_like(whole)
    for t in range(streams.shape[1]):
        order = np.roll(np.arange(len(ids)), t)[:: 1 if t % 2 else -1]
        mixed[order, t] = _stepped(method, state, order, 3 + t, streams[order, t], source=source)
    require(_same(method, whole, mixed), "the order of users in a batch must not matter")
    none = -1 if method.kind == "categorical" else np.nan
    there = np.random.default_rng(6).random(streams.shape[:2]) < 0.7
    gaps, source = streams.copy(), keyed(KEY)
    gaps[~there] = none
    state, silent = method.state(source.digests(ids)), np.full_like(whole, none)
    for t in range(streams.shape[1]):
        at = np.flatnonzero(there[:, t])
        silent[at, t] = _stepped(method, state, at, 3 + t, streams[at, t], source=source)
    for given in (None, there) if method.pauses else (there,):
        released = method.release(gaps, keyed(KEY), users=ids, first_slot=3, present=given)
        require(
            _same(method, released, silent),
            "a slot without a value must be released as if the user had not been stepped in it",
        )


def users_are_apart(trial: MethodTrial) -> None:
    """What one user publishes does not change when others report other values, or at other times,
    or not at all.
    """
    method, streams = trial.real(), trial.streams(5, 12)
    ids = [f"user-{i}" for i in range(len(streams))]
    whole = method.release(streams, keyed(KEY), users=ids, first_slot=0)
    for i in range(len(ids)):
        other = (
            np.flip(streams, axis=0).copy() if i != len(ids) // 2 else np.roll(streams, 1, axis=0)
        )
        other[i] = streams[i]
        again = method.release(other, keyed(KEY), users=ids, first_slot=0)
        require(
            np.array_equal(whole[i], again[i], equal_nan=_floats(whole)),
            "other users' values must not reach a user's reports",
        )
        source = keyed(KEY)
        state, mine = method.state(source.digests(ids)), np.empty_like(whole[:1])
        for t in range(streams.shape[1]):
            present = np.array([j for j in range(len(ids)) if j == i or (j + t) % 3])
            mixed = _stepped(method, state, present, t, streams[present, t], source=source)
            mine[:, t] = mixed[present == i]
        require(
            _same(method, whole[i : i + 1], mine),
            "which other users report must not reach a user's reports",
        )


def noise_is_keyed(trial: MethodTrial) -> None:
    """The same key, users, slots and values give the same reports; another of any of them gives
    others.
    """
    method, streams = trial.real(), trial.streams(64, 12)
    ids = [f"user-{i}" for i in range(len(streams))]

    def release(
        values: NDArray[Any] = streams,
        key: bytes = KEY,
        users: Sequence[str] = ids,
        first_slot: int = 0,
    ) -> NDArray[Any]:
        return np.asarray(method.release(values, keyed(key), users=users, first_slot=first_slot))

    base = release()
    same = _floats(base)
    require(np.array_equal(base, release(), equal_nan=same), "a replay must give the same reports")
    require(
        np.array_equal(base[::-1], release(streams[::-1], users=ids[::-1]), equal_nan=same),
        "noise must belong to the user, not to the row",
    )
    require(
        not np.array_equal(base, release(key=KEY[::-1]), equal_nan=same),
        "another key must give other reports",
    )
    require(
        not np.array_equal(base, release(users=[f"other-{user}" for user in ids]), equal_nan=same),
        "another user must get other noise",
    )
    require(
        not np.array_equal(base, release(first_slot=100 * trial.window), equal_nan=same),
        "another slot must get other noise",
    )
    constant = np.repeat(streams[:, :1], streams.shape[1], axis=1)
    held = release(constant)
    sent = ~np.isnan(held) if same else held >= 0
    require(
        any(len(np.unique(row[kept])) > 1 for row, kept in zip(held, sent, strict=True)),
        "the same value in another slot must get other noise",
    )


def noise_is_its_own(trial: MethodTrial) -> None:
    """Under one key, for the same users and slots, the method over a mechanism of half the budget
    draws other words, and so does a method of another name.
    """
    streams, heard = trial.streams(16, 6), []
    ids = [f"user-{i}" for i in range(len(streams))]
    mechanism = MECHANISMS[trial.small.default_mechanism]
    renamed = trial.real()
    renamed.name = f"not {renamed.name}"
    for method in (
        trial.real(),
        trial.make(lambda epsilon, what: mechanism(epsilon / 2, what)),
        renamed,
    ):
        ear = Listener(keyed(KEY))
        method.release(streams, ear, users=ids, first_slot=3)
        heard.append(ear.heard)
    require(all(heard), "noise must be made of the words of the source")
    for other, what in zip(heard[1:], ("another budget", "another method"), strict=True):
        require(
            heard[0].isdisjoint(other),
            "noise must be drawn within a use of its own, which name and budget are a part of:"
            f" {what} drew the same words under the same key",
        )


def _stepped(
    method: Any,
    state: Any,
    rows: NDArray[np.intp],
    slot: int,
    values: NDArray[Any],
    *,
    source: Randomness,
) -> NDArray[Any]:
    """One step, published as `release` publishes it."""
    return np.asarray(
        method.published(method.step(state, Batch(rows, slot, method.bound(values), source)))
    )


def _same(method: Any, released: NDArray[Any], stepped: NDArray[Any]) -> bool:
    """Whether what steps published is what `release` made of it: the last report stands where a
    method holds it.
    """
    return np.array_equal(
        released,
        method.held(stepped) if getattr(method, "holds", False) else stepped,
        equal_nan=_floats(released),
    )


def _floats(published: NDArray[Any]) -> bool:
    return published.dtype.kind == "f"
