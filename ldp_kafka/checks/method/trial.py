"""One method under test, over its real mechanism and over tiny ones, all outcomes enumerated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.enumeration import Outcomes, enumerate_outcomes
from ldp_kafka.checks.tiny import narrow, wide
from ldp_kafka.mechanisms import MECHANISMS

__all__ = ["MethodTrial"]


@dataclass(frozen=True)
class MethodTrial:
    """One method under test."""

    make: Callable[[Any], Any]
    window: int
    length: int = 5
    alphabet: Sequence[Any] | None = None
    draws: int | None = None

    def real(self) -> Any:
        """One over the mechanism that its class names, with attributes of its own."""
        return copy(self._real)

    @cached_property
    def _real(self) -> Any:
        return self.make(MECHANISMS[self.small.default_mechanism])

    @cached_property
    def small(self) -> Any:
        """One over the tiny mechanism."""
        return self.make(narrow)

    @cached_property
    def outcomes(self) -> list[Outcomes]:
        """One enumeration for each tiny mechanism and each remainder of the user's hash that may
        matter.
        """
        kinds = (narrow, wide) if self.small.kind == "numeric" else (narrow,)
        # methods for numbers report in every slot, whoever the user is
        return [
            enumerate_outcomes(
                self.make,
                self.length,
                mechanism=kind,
                alphabet=self.alphabet,
                draws=self.draws,
                hashed=hashed,
            )
            for kind in kinds
            for hashed in range(self.window if self.small.kind == "categorical" else 1)
        ]

    @cached_property
    def worst(self) -> float:
        """The largest loss over all of them and all neighbours, in nats."""
        return max(outcomes.loss(self.window) for outcomes in self.outcomes)

    def streams(self, users: int, slots: int) -> NDArray[Any]:
        """Values all over the domain, the same in every run."""
        method = self.real()
        share = np.random.default_rng(5).random(
            (users, slots, *([method.dimension] if method.dimension else []))
        )
        if method.kind == "categorical":
            return np.asarray((share * method.categories).astype(np.int64))
        lo, hi = method.domain
        return np.asarray(lo + (hi - lo) * share)
