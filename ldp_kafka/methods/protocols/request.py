"""What a coordinator may ask of the users: one request for one slot's second phase."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FIRST", "MEETING", "SECOND", "SELECTION", "Request"]

# phases of a slot, as a noise context has them; the last two draw no report: one draws who is
# selected, the other what a user who is met in the slot was selected for before
FIRST, SECOND, SELECTION, MEETING = (0, 1, 2, 3)


class Request(NamedTuple):
    """Users are asked for a report of ``slot`` in its second phase, by a fraction that needs no
    number of users.
    """

    slot: int
    cost: int
    """Whole micro-epsilon of one report."""
    share: int = 1
    """Each user who is eligible is selected with probability share / of: all of them at 1 / 1."""
    of: int = 1
