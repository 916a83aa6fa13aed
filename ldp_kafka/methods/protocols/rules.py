"""How much of what is left a second phase may use: the two rules of the paper, on integers that are
micro-epsilon, or shares of half B.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

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

    def saved(self) -> dict[str, Any]:
        """Its state in plain lists and numbers."""

    def restore(self, saved: dict[str, Any]) -> None:
        """Take the state of one with the same parameters."""


class _Rule:
    """What both rules note: what the slots have used, a slot's entry until no run reaches it any
    more.
    """

    def __init__(self, window: int, total: int) -> None:
        self.window, self.total = window, total
        self._used: list[tuple[int, int]] = []

    def _left(self, slot: int) -> int:
        """What the ``window`` - 1 slots before this one have not used."""
        self._used = [entry for entry in self._used if entry[0] > slot - self.window]
        return self.total - sum(amount for _, amount in self._used)

    def take(self, slot: int, amount: int) -> None:
        self._used.append((slot, amount))

    def saved(self) -> dict[str, Any]:
        return {"used": [list(entry) for entry in self._used]}

    def restore(self, saved: dict[str, Any]) -> None:
        self._used = [(slot, amount) for slot, amount in saved["used"]]


class Halving(_Rule):
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

    def offer(self, slot: int) -> Offer:
        return Offer(self._left(slot) // 2, 1, 2)


class Absorption(_Rule):
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
        super().__init__(window, window)
        self._since: int | None = None  # the last slot whose unit is gone

    def offer(self, slot: int) -> Offer:
        if self._since is None:
            self._since = slot - 1
        free = self._left(slot)
        amount = min(max(slot - self._since, 0), self.total, free)
        return Offer(amount, amount, free)

    def take(self, slot: int, amount: int) -> None:
        super().take(slot, amount)
        self._since = slot + amount - 1

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), "since": self._since}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self._since = saved["since"]
