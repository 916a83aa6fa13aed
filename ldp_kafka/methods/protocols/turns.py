"""Whose turn the first phase of a slot is, and who may be selected for the second: functions of the
users' digests, which are keyed, and of the slot; never of a value, nor of whether there is one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.randomness import Digests

__all__ = ["everybody", "first_half_by_turns", "in_sampled_slots", "in_second_half", "one_by_turns"]

_ONE = np.uint64(1)


def everybody(users: Digests, slot: int, window: int) -> NDArray[np.bool_]:
    """All users, in every slot."""
    del slot, window
    return np.ones(len(users), np.bool_)


def in_sampled_slots(users: Digests, slot: int, window: int) -> NDArray[np.bool_]:
    """All users, in the slots that ``window`` divides."""
    return np.full(len(users), slot % window == 0)


def one_by_turns(users: Digests, slot: int, window: int) -> NDArray[np.bool_]:
    """Each user in one slot of every run of ``window``: as the method ``lpu`` has it."""
    return np.asarray(users[:, 0] % np.uint64(window) == np.uint64(slot % window))


def first_half_by_turns(users: Digests, slot: int, window: int) -> NDArray[np.bool_]:
    """Each user of half A in one slot of every run of ``window``; nobody of half B."""
    turn = (users[:, 0] >> _ONE) % np.uint64(window) == np.uint64(slot % window)
    return np.asarray(turn & ~in_second_half(users))


def in_second_half(users: Digests) -> NDArray[np.bool_]:
    """Whether users are in half B, for good."""
    return np.asarray(users[:, 0] & _ONE == _ONE)
