"""Slots and lists of names in words."""

from __future__ import annotations

from collections.abc import Iterable

from ldp_kafka.accounting.words import moment

__all__ = ["slot_name", "some"]

_MINUTE = 60_000  # milliseconds
_SHOWN = 3  # names in a line


def slot_name(slot: int, slot_ms: int) -> str:
    """When a slot begins, as precisely as slots are long.

    Examples
    --------
    >>> slot_name(472_222, 3_600_000), slot_name(3, 1_500)
    ('2023-11-14 22:00 UTC', '1970-01-01T00:00:04.500000Z')
    """
    text = moment(slot * slot_ms)
    if slot_ms % _MINUTE or not text.endswith(":00Z"):
        return text
    return text.removesuffix(":00Z").replace("T", " ") + " UTC"


def some(names: Iterable[str]) -> str:
    """The first of them, and how many more."""
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more
