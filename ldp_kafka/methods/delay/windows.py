"""Windows of slots that are released together: batches, and windows that slide.

In Faust's words a batch is a tumbling window of ``delay`` slots, and a window that slides is a
hopping one of ``delay + 1`` slots with a step of one.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MOST_DELAY", "SETTINGS", "Setting", "setting_of"]

SETTINGS = ("batch", "sliding")
MOST_DELAY = 1024
"""Slots: the state of a stream holds as many, and deviations of as many values stay below 2**53."""


class Setting(NamedTuple):
    """How windows lie, in slots.

    Examples
    --------
    >>> setting_of("batch", 10)
    Setting(span=10, hop=10, pairs=9, behind=0)
    >>> setting_of("sliding", 10)
    Setting(span=11, hop=1, pairs=20, behind=10)
    """

    span: int
    """Slots in a window: ``delay`` in a batch; in a sliding one the slot that is due, and the
    ``delay`` after it. Faust's ``size``.
    """
    hop: int
    """Slots from one window to the next: what one step takes, and what it releases. Faust's
    ``step``.
    """
    pairs: int
    """Slots that can be in one window with a given slot: values that its value can be compared
    with.
    """
    behind: int
    """Slots from the first that a step releases to the first that it takes."""


def setting_of(name: str, delay: int) -> Setting:
    """That of ``batch`` or ``sliding``."""
    if name == "batch":
        return Setting(delay, delay, delay - 1, 0)
    return Setting(delay + 1, 1, 2 * delay, delay)
