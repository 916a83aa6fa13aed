"""The coordinator's side of a protocol: what is asked, and what is released."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from ldp_kafka.accounting import Guarantee
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.protocols.coordinator import Coordinator
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.terms import Terms
from ldp_kafka.methods.values import Categories, Numbers

__all__ = ["Decider"]


class Decider(ABC):
    """Who decides, slot by slot, by public terms, what is asked and what is released."""

    name: ClassVar[str]
    adaptive: ClassVar[bool] = False
    """Whether its coordinator asks for a second phase."""
    distributions: ClassVar[bool] = True
    """Whether it releases distributions over bins."""
    epsilon: float
    """The budget of one window, of each user, in nats."""
    window: int
    """Slots."""
    values: Numbers | Categories
    terms: Terms
    processing: Processing
    """What is made of its publications."""
    bins: int | None

    @classmethod
    def no_distributions(cls) -> str:
        """Why one that does not release `distributions` does not."""
        return (
            f"{cls.name} releases no distributions: its reports have budgets that differ, so they"
            " cannot be compared before what lies behind them is known; lpd or lpa can"
        )

    @property
    def scalar(self) -> bool:
        """Whether what it releases of a slot is one number, a mean: not shares."""
        return self.terms.oracle.numeric and self.bins is None

    def unfit(self, processing: Processing) -> Iterator[tuple[str, str]]:
        """Each switch that is on and has nothing to do here, and why."""
        for switch in processing.on:
            if self.bins is not None:
                yield switch, "is for frequencies and means, not for bins"
            elif switch == "norm_sub" and isinstance(self.values, Numbers):
                yield switch, "is for the frequencies of categories"
            elif switch == "merge" and not self.adaptive:
                yield switch, f"is for two phases: {self.name} has one phase, nothing to merge"

    def coordinator(self, processing: Processing | None = None) -> Coordinator:
        """A fresh one, before its first slot.

        Parameters
        ----------
        processing : what is made of its publications; default: what the protocol was given

        Raises
        ------
        ConfigurationError : `unfit` has something to say of it
        """
        if processing is None:
            return self._coordinator(self.processing)
        for switch, why in self.unfit(processing):
            raise ConfigurationError(f"{switch} {why}")
        return self._coordinator(processing)

    @abstractmethod
    def _coordinator(self, processing: Processing) -> Coordinator:
        """A fresh one that does this to its publications."""

    @property
    def influence(self) -> int:
        """Reports of one user that a window of changed values can alter, at most."""
        if self.terms.population:
            return 1
        return self.window * (2 if self.adaptive else 1)

    @property
    def guarantee(self) -> Guarantee:
        """What each user's ledger keeps, whatever the coordinator asks."""
        return Guarantee(
            "w-event", self.epsilon, 0.0, self.window, self.influence, "values", "sound"
        )
