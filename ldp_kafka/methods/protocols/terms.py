"""What both sides of a protocol know, and whoever reads about it: public, and never changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods.protocols.oracle import Oracle
from ldp_kafka.randomness import Digests

__all__ = ["Terms", "Turn"]

Turn = Callable[[Digests, int, int], NDArray[np.bool_]]
"""(digests, slot, window) -> whose turn the first phase is."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one protocol. Costs and budgets are whole micro-epsilon."""

    name: str
    budget: int
    """Of one user in any run of ``window`` slots."""
    window: int
    oracle: Oracle
    turn: Turn
    """Who reports in the first phase of a slot: it needs no request."""
    first: int
    """What a report of the first phase costs."""
    turns: int = 1
    """Groups of users of whom one reports in the first phase of a slot."""
    second: int = 0
    """What the second phase may cost a user in any run of ``window`` slots; 0: there is none."""
    population: bool = False
    """Whether users are divided, and a report has the whole budget; else the budget is."""
    least: tuple[int, int] = (1, 1)
    """The least fraction of the eligible users, (share, of), that a request may ask."""
    use: bytes | None = None
    """What the noise of the one phase is drawn within, bound to values alone, where a method of the
    edge draws the same reports; None: a use of the protocol's own.
    """
