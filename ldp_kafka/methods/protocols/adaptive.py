"""LBD, LBA, LPD, LPA: the protocols that look first, and publish where it is worth its budget."""

from __future__ import annotations

from ldp_kafka.methods.protocols.base import Protocol
from ldp_kafka.methods.protocols.coordinator import Adaptive, Coordinator
from ldp_kafka.methods.protocols.oracle import Oracle
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.rules import Absorption, Halving
from ldp_kafka.methods.protocols.terms import Terms
from ldp_kafka.methods.protocols.turns import everybody, first_half_by_turns

__all__ = [
    "BudgetAbsorption",
    "BudgetDistribution",
    "PopulationAbsorption",
    "PopulationDistribution",
]

SHARES = 2**62
"""Parts of half B that `Halving` counts in: no halving of a window ends at nothing."""


class _Budget(Protocol):
    """The budget is divided: half of it for the first phases, reserved, half for the second."""

    adaptive = True
    distributions = False

    def _terms(self, budget: int, oracle: Oracle) -> Terms:
        return Terms(
            self.name,
            budget,
            self.window,
            oracle,
            everybody,
            budget // (2 * self.window),
            second=budget // 2,
        )


class _Population(Protocol):
    """Users are divided: half A for the first phases, half B for the second."""

    adaptive = True

    def _least(self) -> tuple[int, int]:
        """The least fraction, (share, of), that its rule ever asks."""
        raise NotImplementedError

    def _terms(self, budget: int, oracle: Oracle) -> Terms:
        return Terms(
            self.name,
            budget,
            self.window,
            oracle,
            first_half_by_turns,
            budget,
            2 * self.window,
            budget,
            population=True,
            least=self._least(),
        )


class BudgetDistribution(_Budget):
    """Publications use half of what the window has left of their half of the budget.

    Notes
    -----
    LBD of LDP-IDS, Algorithm 1. Below one micro-epsilon, or where the oracle has no mechanism of so
    little, what was released last stands.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> protocol = lk.protocol("lbd", epsilon=8.0, window=2, categories=2)
    >>> trace = protocol.run(np.ones((500, 3), int), lk.randomness.seeded(7))
    >>> trace.spent[0].tolist(), trace.strategy[0].item()
    ([4000000, 3000000, 2000000], 'publish')
    """

    name = "lbd"

    def _coordinator(self, processing: Processing) -> Coordinator:
        return Adaptive(self.terms, processing, Halving(self.window, self.terms.second))


class BudgetAbsorption(_Budget):
    """Publications use what the slots before them were due and have not used.

    Notes
    -----
    LBA of LDP-IDS, Algorithm 2, in units of floor(floor(budget / 2) / window) micro-epsilon.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> protocol = lk.protocol("lba", epsilon=8.0, window=2, categories=2)
    >>> trace = protocol.run(np.ones((500, 3), int), lk.randomness.seeded(7))
    >>> trace.spent[0].tolist(), trace.strategy[0].item()
    ([4000000, 4000000, 4000000], 'publish')
    """

    name = "lba"

    def _coordinator(self, processing: Processing) -> Coordinator:
        return Adaptive(self.terms, processing, Absorption(self.window))


class PopulationDistribution(_Population):
    """Publications use half of those users of half B whom the window has left.

    Notes
    -----
    LPD of LDP-IDS, Algorithm 3.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> protocol = lk.protocol("lpd", epsilon=2.0, window=2, categories=2)
    >>> trace = protocol.run(np.ones((4000, 4), int), lk.randomness.seeded(7))
    >>> set(trace.spent.ravel().tolist()), trace.strategy[0].item()
    ({0, 2000000}, 'publish')
    """

    name = "lpd"

    def _least(self) -> tuple[int, int]:
        return 1, 2

    def _coordinator(self, processing: Processing) -> Coordinator:
        return Adaptive(self.terms, processing, Halving(self.window, SHARES))


class PopulationAbsorption(_Population):
    """Publications use as many users of half B as the slots before them were due and have not used.

    Notes
    -----
    LPA of LDP-IDS, Algorithm 4, in units of one ``window``-th of half B: k of them are k / (window
    - units asked in the last window - 1 slots) of those who are eligible.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> protocol = lk.protocol("lpa", epsilon=2.0, window=2, categories=2)
    >>> trace = protocol.run(np.ones((4000, 4), int), lk.randomness.seeded(7))
    >>> set(trace.spent.ravel().tolist()), trace.strategy[0].item()
    ({0, 2000000}, 'publish')
    """

    name = "lpa"

    def _least(self) -> tuple[int, int]:
        return 1, self.window

    def _coordinator(self, processing: Processing) -> Coordinator:
        return Adaptive(self.terms, processing, Absorption(self.window))
