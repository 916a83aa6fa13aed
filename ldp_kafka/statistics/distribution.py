"""The distribution of a crowd's numbers over public bins."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods import Method
from ldp_kafka.methods.protocols import PROTOCOLS, Responder
from ldp_kafka.methods.protocols.distributions import Binned
from ldp_kafka.statistics.base import CrowdStatistic

__all__ = ["Distribution"]


class Distribution(CrowdStatistic):
    """The share of the numbers in each of some equal bins of the domain, a list that sums to 1:
    most likely behind the reports (EM).

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> lbu = lk.protocol("lbu", epsilon=8.0, window=1, domain=(0.0, 10.0), bins=4)
    >>> method = lbu.responder()
    >>> shares = Distribution(method)
    >>> values = np.linspace(0.0, 0.5, 2000)
    >>> reports = method.mechanism.perturb(values, lk.randomness.seeded(7))
    >>> shares.estimate(shares.sums(reports, 0)).value.round(1).tolist()
    [0.5, 0.5, 0.0, 0.0]
    >>> shares.edges
    (0.0, 2.5, 5.0, 7.5, 10.0)
    """

    name = "distribution"
    kind = "numeric"
    needs = "distribution"
    binned = True
    normal = False

    @classmethod
    def unfit(cls, method: Method) -> str | None:
        wrong = super().unfit(method)
        if wrong is not None and method.kind == cls.kind:
            return f"{wrong}; {_why(method)}"
        if wrong is None and not isinstance(_oracle(method), Binned):
            return f"{cls.name} needs output.bins: how many equal bins the domain has"
        return wrong

    def sums(self, reports: NDArray[np.generic], phase: int) -> NDArray[np.int64]:
        return self.method.support(reports, phase)

    def estimate(self, sums: NDArray[np.int64]) -> Estimate:
        oracle = _oracle(self.method)
        assert isinstance(oracle, Binned), "what is unfit is not made"
        return oracle.told(self.method.spend, sums, population=False).stated

    def error(self, reports: int) -> float:
        """The standard error where values are spread evenly: a mean over the bins."""
        oracle = _oracle(self.method)
        assert isinstance(oracle, Binned), "what is unfit is not made"
        found = self.estimate(oracle.even(self.method.spend, reports))
        return sqrt(float(np.mean(found.standard_error**2)))

    @property
    def edges(self) -> tuple[float, ...]:
        oracle = _oracle(self.method)
        assert isinstance(oracle, Binned), "what is unfit is not made"
        return tuple(np.linspace(*self.method.domain, oracle.bins + 1).tolist())

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0


def _oracle(method: Method) -> Any:
    """What the users of a protocol report with; None of what is none."""
    return method.terms.oracle if isinstance(method, Responder) else None


def _why(method: Method) -> str:
    """Why reports that are of numbers tell no distribution."""
    if isinstance(method, Responder):
        return method.protocol.no_distributions()
    known = ", ".join(name for name, each in PROTOCOLS.items() if each.distributions)
    return f"of methods without a coordinator it comes later, it is not built yet; {known} have it"
