"""A coordinator's rounds as state: what waits to be decided, what was asked, what was spent."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from ldp_kafka.accounting import MICRO
from ldp_kafka.methods.protocols import Decider

__all__ = ["Round", "Rounds", "Spent"]


class Round(NamedTuple):
    """One slot that was decided."""

    slot: int
    cost: int
    """What was asked of each report of the second phase, micro-epsilon; 0: nothing."""
    reports: int
    """Of the first phase."""
    dissimilarity: float
    error: float


class Spent(NamedTuple):
    """What the reports of one slot have cost."""

    slot: int
    first: int
    """Reports of the first phase."""
    second: int
    cost: int
    """That was asked of the second phase, whoever answered."""


@dataclass
class Rounds:
    """What a coordinator waits for, and what the last window has cost.

    Parameters
    ----------
    window : slots in the privacy window
    """

    window: int
    queue: deque[tuple[int, list[int] | None]] = field(default_factory=deque)
    """(slot, sums of its first phase) of slots that are not decided."""
    asked: Round | None = None
    """The slot whose second phase is waited for."""
    second: dict[int, dict[int, list[int]]] = field(default_factory=dict)
    """Sums of the second phase by slot and cost."""
    settled: int | None = None
    """Last slot whose second phase is closed."""
    last: int | None = None
    """Last slot that was queued."""
    spent: list[Spent] = field(default_factory=list)
    twice: bool = False
    """Whether users were seen to report twice in a slot: nothing is guaranteed from then on."""

    @property
    def waiting(self) -> int:
        """Slots that are to be decided, or wait for their second phase."""
        return len(self.queue) + (self.asked is not None)

    def publications(self, phases: int) -> int:
        """Slots of the last window whose release is their own: reports of the last phase came."""
        return sum((each.second if phases > 1 else each.first) > 0 for each in self.spent)

    @property
    def begun(self) -> bool:
        """Whether anything is known."""
        return not (self.last is None and self.settled is None and not self.second)

    def spend(self, entry: Spent) -> None:
        """Note what a slot has cost; slots that no window reaches are let go."""
        self.spent = [each for each in self.spent if each.slot > entry.slot - self.window]
        self.spent.append(entry)

    def told(self, protocol: Decider, found: Round, second: int) -> dict[str, Any]:
        """What a release says of its round.

        ``population``: users, as the first phases of the window tell. ``reports``: of each phase.
        ``dissimilarity``, ``error``: squared; what was found, and what a publication was expected
        to have. ``epsilon``: what the window has cost a user on average, and at most.
        """
        terms = protocol.terms
        users = sum(each.first for each in self.spent) / max(len(self.spent), 1)
        if terms.population:
            users *= self.window * (2 if protocol.adaptive else 1)
        cost = sum(each.first * terms.first + each.second * each.cost for each in self.spent)
        most = (
            terms.budget
            if terms.population
            else sum(terms.first * (each.first > 0) + each.cost for each in self.spent)
        )
        return {
            "population": round(users),
            "reports": [found.reports, second],
            "dissimilarity": found.dissimilarity,
            "error": found.error,
            "epsilon": {
                "average": min(cost / users, most) / MICRO if users else 0.0,
                "largest": most / MICRO,
            },
        }

    def saved(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "queue": [list(each) for each in self.queue],
            "asked": None if self.asked is None else _finite(self.asked),
            "second": [
                [slot, cost, sums]
                for slot, costs in self.second.items()
                for cost, sums in costs.items()
            ],
            "settled": self.settled,
            "last": self.last,
            "spent": [list(each) for each in self.spent],
            **({"twice": True} if self.twice else {}),
        }

    @classmethod
    def load(cls, window: int, told: Mapping[str, Any]) -> Self:
        """What `saved` wrote."""
        second: dict[int, dict[int, list[int]]] = {}
        for slot, cost, sums in told["second"]:
            second.setdefault(slot, {})[cost] = sums
        return cls(
            window,
            deque((slot, sums) for slot, sums in told["queue"]),
            None if told["asked"] is None else _round(told["asked"]),
            second,
            told["settled"],
            told["last"],
            [Spent(*each) for each in told["spent"]],
            told.get("twice", False),
        )


def _finite(asked: Round) -> list[Any]:
    """JSON has no NaN and no infinity: as their names."""
    return [each if isinstance(each, int) else repr(float(each)) for each in asked]


def _round(told: Sequence[Any]) -> Round:
    slot, cost, reports, dissimilarity, error = told
    return Round(slot, cost, reports, float(dissimilarity), float(error))
