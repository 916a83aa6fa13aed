"""The contexts of a whole release: who its rows are, and at which slot they begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import whole
from ldp_kafka.normal_form import nfc
from ldp_kafka.randomness import Digests, Randomness, check_source

__all__ = ["carried_on", "contexts_of", "distinct_ids"]


def contexts_of(
    users: Iterable[Any] | None, first_slot: int | None, rows: int, randomness: Randomness
) -> tuple[list[str], int]:
    """The ids of so many rows and the slot of the first column; row numbers and 0 where they are
    not given, and the randomness never repeats private words.

    Raises
    ------
    TypeError : an id is neither text nor a whole number; the slot is no whole number
    ValueError : ids are not distinct, or not one a row; a slot below 0; keyed noise without
        ids or first slot

    Examples
    --------
    >>> from ldp_kafka.randomness import system
    >>> contexts_of([7, "m-1"], 3, 2, system())
    (['7', 'm-1'], 3)
    """
    if check_source(randomness).repeats and (users is None or first_slot is None):
        raise ValueError(
            "keyed noise is bound to users and slots: give users= and first_slot=. With the row"
            " numbers and slot 0 of a second release it would be drawn again, and equal reports"
            " would tell which values are equal"
        )
    ids = [*map(str, range(rows))] if users is None else distinct_ids(users, rows)
    return ids, 0 if first_slot is None else _slot(first_slot)


def distinct_ids(users: Iterable[Any], rows: int) -> list[str]:
    """The ids of so many rows as texts. One person has one id, as where messages are read: a whole
    number is the text of its digits, and text is in NFC.

    Raises
    ------
    TypeError : an id is neither text nor a whole number
    ConfigurationError : ids are not distinct, or not one a row; none is shown

    Examples
    --------
    >>> distinct_ids([7, "7"], 2)
    Traceback (most recent call last):
    ldp_kafka.errors.ConfigurationError: users must be distinct ids, one a row: 7 and "7" are one id
    """
    ids = [_text(user) for user in users]
    if len(ids) != rows or len(set(ids)) != len(ids):
        raise ConfigurationError('users must be distinct ids, one a row: 7 and "7" are one id')
    return ids


def _slot(given: Any) -> int:
    slot = whole(given, "first_slot")
    if not slot >= 0:
        raise ConfigurationError("first_slot must be at least 0")
    return slot


def _text(user: Any) -> str:
    if isinstance(user, str):
        return nfc(str.__str__(user))  # a class of its own may show itself as another
    try:
        return str(whole(user, "a user"))
    except TypeError:
        raise TypeError("users must be ids: text, or whole numbers") from None


def carried_on(state: State, digests: Digests) -> NDArray[np.intp]:
    """The rows of a state that an earlier release left; ValueError unless it is of these users, in
    their order.
    """
    rows = np.arange(len(state))
    if not np.array_equal(state.digests(rows), digests):
        raise ValueError(
            "state must be that of the same users, in the same order, and of the same randomness"
        )
    return rows
