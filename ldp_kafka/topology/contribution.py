"""``privacy.contribution`` beside ``input.per_slot``: how far one event moves a slot's value, what
the noise has to hide, and what is promised in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ldp_kafka.accounting.words import at_most
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.grid import grid_of
from ldp_kafka.topology.sections import COUNT

__all__ = ["Contribution"]


class Contribution(NamedTuple):
    """The most that one event is worth, in a topology that gives it.

    Of a ``sum`` the fold sees to it: each event is clamped (`Grid`). An event of a ``count`` is
    worth 1. Of ``first``, ``last``, ``min`` and ``max`` a slot's value is one event's whole value:
    how far somebody's part moves it only the source can know, and promises.

    Notes
    -----
    Neighbours are two logs that differ in one event of a slot that has others, or is 0 without them
    (`input.streams`): it is replaced, or there in one log only. Without a low end below 0 a sum
    moves by at most ``most`` in either case, and so does a count if ``most`` is 1 or more. With one
    an event is worth -``most`` to ``most``: it moves a sum by ``most`` if it comes or goes, and by
    twice as much if another takes its place.
    """

    most: float
    per_slot: str
    domain: tuple[float, float]

    @property
    def signed(self) -> bool:
        """Whether an event may take away as well as add."""
        return self.per_slot == "sum" and self.domain[0] < 0

    @property
    def moves(self) -> float:
        """How far a slot's value moves at most: what noise is made for."""
        low, high = self.domain
        return min(2 * self.most, high - low) if self.signed else self.most

    def within(self, slot: str) -> str:
        """Whose change is hidden, in words; empty where that is the source's promise."""
        if self.per_slot not in ("sum", COUNT):
            return ""
        size = at_most(self.most)
        size = f"from -{size} to {size}" if self.signed else f"at most {size}"
        return (
            f"one event's part of {slot}'s value, {size} (events of one person, and one that is"
            " written twice, add up)"
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Why it bounds nothing: keys and what is wrong with each."""
        if self.per_slot == "mean":
            yield (
                "input.per_slot",
                (
                    "must not be mean where privacy.contribution is given: how far one event moves"
                    " a mean depends on how many there are; take sum or count, or leave"
                    " contribution out, which hides any change of a slot's value"
                ),
            )
        elif self.per_slot == COUNT and not self.most >= 1:
            yield (
                "privacy.contribution",
                f"must be at least 1 where input.per_slot is {COUNT}: an event counts 1",
            )
        elif self.per_slot == "sum":
            try:
                grid_of(self.domain, contribution=self.most)
            except ConfigurationError as error:
                yield "privacy.contribution", str(error).removeprefix("contribution ")
