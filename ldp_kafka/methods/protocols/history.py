"""What the requests so far have asked of the users: public, and all that a user who is met late
needs to know of them.
"""

from __future__ import annotations

from typing import NamedTuple

from ldp_kafka.accounting import NEVER
from ldp_kafka.methods.protocols.request import Request

__all__ = ["WHOLE", "Asked", "History"]

WHOLE = 2**62
"""Parts of half B that amounts are counted in."""


class Asked(NamedTuple):
    """What one request asks of those who have been there for ever."""

    slot: int
    amount: int
    """In parts of `WHOLE`: the probability that a user of half B is selected in this slot."""


class History:
    """The valid requests of the last ``window`` slots: one history a protocol and raw partition.

    Parameters
    ----------
    window : slots in the privacy window

    Notes
    -----
    A user of half B who has been there for ever is selected in a slot with the probability share /
    of, if it was selected in none of the ``window`` - 1 slots before. That it was selected in one
    of them excludes the others, so it is free with the probability that their amounts leave, and

        amount = share (WHOLE - sum of the amounts of the ``window`` - 1 slots before) // of.

    Slots are dropped when a later one is added. A request needs the ``window`` - 1 slots before its
    own, and so does a user who is met after the last request; neither reaches further back than
    that request's own window, however late it comes.

    Examples
    --------
    >>> history = History(window=3)
    >>> [history.add(Request(slot, 1000000, 1, 2)) for slot in (0, 1, 1, 3)]
    [True, True, False, True]
    >>> [asked.amount / WHOLE for asked in history.within(4)]
    [0.375]
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._asked: list[Asked] = []

    @property
    def last(self) -> int:
        """The slot of the last request, NEVER before there is one."""
        return self._asked[-1].slot if self._asked else NEVER

    def add(self, request: Request) -> bool:
        """Note a valid request, once for all users. False, and nothing is noted, where it is of no
        later slot than the last one: everybody refuses it too.
        """
        if not request.slot > self.last:
            return False
        amount = self.amount(request)
        reach = request.slot - self.window
        self._asked = [asked for asked in self._asked if asked.slot > reach]
        self._asked.append(Asked(request.slot, amount))
        return True

    def amount(self, request: Request) -> int:
        """The amount of a request, noted already or not, in parts of `WHOLE`."""
        return request.share * (WHOLE - self.start(request.slot, request.slot)) // request.of

    def within(self, slot: int) -> list[Asked]:
        """What was asked of the ``window`` - 1 slots before this one, in their order."""
        return [asked for asked in self._asked if slot - self.window < asked.slot < slot]

    def start(self, slot: int, end: int) -> int:
        """The amounts before ``slot`` of the ``window`` - 1 slots before ``end``, together."""
        return sum(asked.amount for asked in self.within(end) if asked.slot < slot)

    def saved(self) -> list[list[int]]:
        """Its state in plain lists of integers, which JSON keeps: [slot, amount], in order."""
        return [list(asked) for asked in self._asked]

    def restore(self, saved: list[list[int]]) -> None:
        """Take the state of one of the same window."""
        self._asked = [Asked(slot, amount) for slot, amount in saved]
