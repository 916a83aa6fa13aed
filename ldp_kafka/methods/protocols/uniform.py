"""LBU, LSP, LPU: the protocols that ask for nothing. Their coordinator only releases."""

from __future__ import annotations

from ldp_kafka.methods import population
from ldp_kafka.methods.protocols.base import Protocol
from ldp_kafka.methods.protocols.coordinator import Coordinator, Fixed
from ldp_kafka.methods.protocols.oracle import Oracle
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.terms import Terms
from ldp_kafka.methods.protocols.turns import everybody, in_sampled_slots, one_by_turns

__all__ = ["BudgetUniform", "PopulationUniform", "SamplingPublication"]


class _Uniform(Protocol):
    """One phase, whose estimate is what is released."""

    def _coordinator(self, processing: Processing) -> Coordinator:
        return Fixed(self.terms, processing)


class BudgetUniform(_Uniform):
    """Everybody reports in every slot, with an equal part of the budget.

    Notes
    -----
    LBU of LDP-IDS, section 5.1: floor(budget / window) micro-epsilon a report.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> protocol = lk.protocol("lbu", epsilon=1.0, window=4, categories=2)
    >>> trace = protocol.run(np.ones((3, 2), int), lk.randomness.seeded(7))
    >>> trace, trace.spent[0].tolist()
    (Trace(2 slots, 2 published), [250000, 250000])
    """

    name = "lbu"

    def _terms(self, budget: int, oracle: Oracle) -> Terms:
        return Terms(self.name, budget, self.window, oracle, everybody, budget // self.window)


class SamplingPublication(_Uniform):
    """Everybody reports in one slot of every window, with the whole budget; what was released last
    stands in the others.

    Notes
    -----
    LSP of LDP-IDS, section 5.1; the slots are those that ``window`` divides. It does not look
    between them, and a jump there cannot be seen: what is held states no error.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> protocol = lk.protocol("lsp", epsilon=1.0, window=4, categories=2)
    >>> trace = protocol.run(np.ones((3, 8), int), lk.randomness.seeded(7))
    >>> trace, trace.spent[0].tolist()
    (Trace(8 slots, 2 published), [1000000, 0, 0, 0, 1000000, 0, 0, 0])
    """

    name = "lsp"

    def _terms(self, budget: int, oracle: Oracle) -> Terms:
        return Terms(self.name, budget, self.window, oracle, in_sampled_slots, budget)

    @property
    def influence(self) -> int:
        return 1


class PopulationUniform(_Uniform):
    """Each user reports in one slot of every window, with the whole budget.

    Notes
    -----
    LPU of LDP-IDS, section 5.3.1, with the groups of the method ``lpu``: who reports in a slot is a
    sample of all, and its sampling error is in the standard error. For categories its reports are
    those of that method over the same mechanism, byte for byte.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> protocol = lk.protocol("lpu", epsilon=1.0, window=4, categories=2)
    >>> trace = protocol.run(np.ones((300, 8), int), lk.randomness.seeded(7))
    >>> set(trace.spent.sum(axis=1).tolist())
    {2000000}
    """

    name = "lpu"

    def _terms(self, budget: int, oracle: Oracle) -> Terms:
        use = None
        if not oracle.numeric:
            use = population.PopulationUniform(
                epsilon=self.epsilon,
                window=self.window,
                categories=self.values.categories,
                mechanism=lambda *_: oracle.at(budget),
            ).use
        return Terms(
            self.name,
            budget,
            self.window,
            oracle,
            one_by_turns,
            budget,
            self.window,
            population=True,
            use=use,
        )
