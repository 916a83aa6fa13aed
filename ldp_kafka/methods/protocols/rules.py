"""How much of what is left a second phase may use: the two rules of the paper, on integers that are
micro-epsilon, or shares of half B.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["Absorption", "Halving", "Offer", "Rule"]


class Offer(NamedTuple):
    """What a slot's publication could use."""

    amount: int
    """In parts of the rule's ``total``; 0: nothing."""
    share: int
    """Of the users who are eligible, share / of are that amount where users are divided."""
    of: int


class Rule(Protocol):
    """Who decides how much a publication uses."""

    total: int
    """All that any run of ``window`` slots can use."""

    def offer(self, slot: int) -> Offer:
        """What may be used in ``slot``, later than all before."""

    def take(self, slot: int, amount: int) -> None:
        """It has been asked for, whether anybody answers or not."""


class _Used:
    """What the last slots have used; a slot's entry is dropped when no run reaches it any more."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.entries: list[tuple[int, int]] = []

    def before(self, slot: int) -> int:
        """What has been used in the ``window`` - 1 slots before this one."""
        self.entries = [entry for entry in self.entries if entry[0] > slot - self.window]
        return sum(amount for _, amount in self.entries)


class Halving:
    """Use half of what the window has left (LBD, LPD: Algorithms 1 and 3 of LDP-IDS).

    Examples
    --------
    >>> rule = Halving(window=3, total=800)
    >>> used = []
    >>> for slot in range(5):
    ...     used.append(rule.offer(slot).amount)
    ...     rule.take(slot, used[-1])
    >>> used
    [400, 200, 100, 250, 225]
    """

    def __init__(self, window: int, total: int) -> None:
        self.total = total
        self._used = _Used(window)

    def offer(self, slot: int) -> Offer:
        return Offer((self.total - self._used.before(slot)) // 2, 1, 2)

    def take(self, slot: int, amount: int) -> None:
        self._used.entries.append((slot, amount))


class Absorption:
    """Use what the slots since the last publication were due, one unit each, and leave out as many
    slots after a publication as it used units more than one (LBA, LPA: Algorithms 2 and 4 of
    LDP-IDS). Before the first publication nothing has to be left out.

    Examples
    --------
    >>> rule = Absorption(window=5)
    >>> [rule.offer(slot).amount for slot in range(4)]
    [1, 2, 3, 4]
    >>> rule.take(3, 4)
    >>> [rule.offer(slot).amount for slot in range(4, 9)]
    [0, 0, 0, 1, 2]
    """

    def __init__(self, window: int) -> None:
        self.total = window
        self._used = _Used(window)
        self._since: int | None = None  # the last slot whose unit is gone

    def offer(self, slot: int) -> Offer:
        if self._since is None:
            self._since = slot - 1
        free = self.total - self._used.before(slot)
        amount = min(max(slot - self._since, 0), self.total, free)
        return Offer(amount, amount, free)

    def take(self, slot: int, amount: int) -> None:
        self._used.entries.append((slot, amount))
        self._since = slot + amount - 1
