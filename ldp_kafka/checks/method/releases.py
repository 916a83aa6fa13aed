"""The checks that a release is the same in any batches, and its noise each user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.trial import FIRST, Trial
from ldp_kafka.checks.sources import KEY, Listener, Recorder
from ldp_kafka.randomness import keyed

__all__ = ["noise_is_its_own", "noise_is_keyed", "release", "release_is_step", "users_are_apart"]


FAR = 2**33 + 3


def release(
    trial: Trial,
    method: Any,
    streams: NDArray[Any],
    *,
    users: Sequence[str] | None = None,
    present: NDArray[np.bool_] | None = None,
    key: bytes = KEY,
    first: int = FIRST,
) -> NDArray[Any]:
    """Under keyed noise."""
    ids = _ids(streams) if users is None else users
    start = trial.first(method, first)
    return np.asarray(
        method.release(streams, keyed(key), users=ids, first_slot=start, present=present)
    )


def _ids(streams: NDArray[Any]) -> list[str]:
    return [f"user-{i}" for i in range(len(streams))]


def release_is_step(trial: Trial) -> None:
    """`release` equals steps, of one user at a time and of all, whose users come in any order, and
    without a value in some slots.
    """
    method, streams = trial.real(), trial.streams(6, trial.slots)
    ids, some = _ids(streams), trial.presence(6, trial.slots)
    for there in (np.ones_like(some), some):
        whole = release(trial, method, streams, present=there)
        require(
            whole.shape[: streams.ndim] == streams.shape,
            "release must keep the shape of its streams",
        )
        for i in range(len(ids)):
            one = slice(i, i + 1)
            alone = release(trial, trial.real(), streams[one], users=ids[one], present=there[one])
            require(_same(whole[one], alone), "one user must be released as it is among others")
            singles = trial.stepped(trial.real(), ids[one], streams[one], there[one])
            require(
                _same(whole[one], singles, _told(method, there[one])),
                "release must equal stepping one record at a time",
            )
        mixed = trial.stepped(method, ids, streams, there)
        require(
            _same(whole, mixed, _told(method, there)),
            "the order of users in a batch, and users without a value, must not matter",
        )
    if method.pauses or method.cover:
        gaps = streams.copy()
        gaps[~some] = -1 if method.kind == "categorical" else np.nan
        require(
            _same(whole, release(trial, method, gaps)),
            "a slot without a value must be released as if the user had not been stepped in it",
        )


def users_are_apart(trial: Trial) -> None:
    """What one user publishes does not change when others have other values, or none."""
    method, streams = trial.real(), trial.streams(5, trial.slots)
    whole = release(trial, method, streams)
    for i in range(len(streams)):
        other, some = np.flip(streams, axis=1).copy(), trial.presence(*streams.shape[:2])
        other[i], some[i] = streams[i], True
        for present in (None, some):
            again = release(trial, method, other, present=present)
            require(
                _same(whole[i], again[i]),
                "other users' values must not reach what a user publishes",
            )


def noise_is_keyed(trial: Trial) -> None:
    """The same key, users, slots and values give the same releases; another of any of them gives
    others.
    """
    method, streams = trial.real(), trial.streams(64, trial.slots)
    ids = _ids(streams)
    base = release(trial, method, streams)
    require(_same(base, release(trial, method, streams)), "a replay must be the same")
    require(
        _same(base[::-1], release(trial, method, streams[::-1], users=ids[::-1])),
        "noise must belong to the user, not to the row",
    )
    others = {
        "key": release(trial, method, streams, key=KEY[::-1]),
        "user": release(trial, method, streams, users=[f"other-{user}" for user in ids]),
        "slot": release(trial, method, streams, first=FIRST + 100 * trial.slots),
    }
    for what, other in others.items():
        equal = base == other
        if _floats(base):
            equal |= np.isnan(base) & np.isnan(other)
        require(float(equal.mean()) < trial.alike, f"another {what} must get other noise")
    start, source = trial.first(method, FAR), Recorder(keyed(KEY))
    method.release(streams[:4], source, users=ids[:4], first_slot=start)
    require(
        all(0 <= slot - start < trial.slots + method.delay for _, slot, _, _ in source.draws),
        "noise must be drawn in the slots that it is for: in others it would come again",
    )
    held = release(trial, method, np.repeat(streams[:, :1], streams.shape[1], axis=1))
    sent = ~np.isnan(held) if _floats(held) else held >= 0
    require(
        any(len(np.unique(row[kept])) > 1 for row, kept in zip(held, sent, strict=True)),
        "the same value in another slot must get other noise",
    )


def noise_is_its_own(trial: Trial) -> None:
    """Under one key, for the same users and slots, the method with another budget draws other
    words, and so does a method of another name.
    """
    streams = trial.streams(16, trial.slots)

    def heard(method: Any) -> set[Any]:
        ear = Listener(keyed(KEY))
        method.release(streams, ear, users=_ids(streams), first_slot=trial.first(method, FIRST))
        require(ear.heard, "noise must be made of the words of the source")
        return ear.heard

    mine = heard(trial.real())
    for what, other in trial.renamed():
        require(
            mine.isdisjoint(heard(other)),
            "noise must be drawn within a use of its own, which name and budget are a part of:"
            f" {what} drew the same words under the same key",
        )


def _told(method: Any, there: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Where steps say what release says: a method that fills gaps does so afterwards."""
    return there if getattr(method, "fills", False) else None


def _same(one: NDArray[Any], other: NDArray[Any], where: NDArray[np.bool_] | None = None) -> bool:
    if where is not None:
        one, other = one[where], other[where]
    return np.array_equal(one, other, equal_nan=_floats(one))


def _floats(published: NDArray[Any]) -> bool:
    return published.dtype.kind == "f"
