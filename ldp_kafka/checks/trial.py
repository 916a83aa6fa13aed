"""One mechanism under test: its members, its exact laws, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.failure import require
from ldp_kafka.checks.laws import Tally, mean_support
from ldp_kafka.mechanisms.base import Estimate, Law
from ldp_kafka.randomness import system

__all__ = ["MANY", "MEMBERS", "SAMPLES", "MechanismTrial", "is_a"]

# Reports a probe for the sampler's test. What has probability p and is 3 % off is found with
# probability above 1 - 1e-9 from p = 1/4 on in SAMPLES, from p = 0.016 on in MANY.
SAMPLES = 2**19
MANY = 10**7  # as many as these where they can be drawn and counted in SECONDS
SECONDS = 1.0
BATCH = SAMPLES
# reports, at most, that an exact law stands for when it is put into an estimator: what is rounded
# stays below 1e-9
PRECISE = 2**40
FEW, MOST = 8, 32  # categories that are all probed; inputs whose laws are compared
LARGEST = 2**62  # their sums stay below it

Kind = TypeVar("Kind")

MEMBERS = {
    "epsilon": "the budget that it was built with, in nats",
    "scale": "the step of its reports, a power of two; 1 for categories",
    "index_range": "(least, greatest) report in units of scale",
    "perturb": "perturb(values, randomness) -> reports, one for each value",
    "law": "law(value) -> ldp_kafka.Law, the exact distribution of a report",
    "certificate": "certificate() -> ldp_kafka.Certificate, the exact loss",
    "support": "support(reports) -> int64 sums, the number of reports first",
    "estimate": "estimate(reports, *, population=False) -> ldp_kafka.Estimate",
    "estimate_support": "estimate_support(support, *, population=False) -> ldp_kafka.Estimate",
    "tables": "tables() -> the Python ints that it samples with",
}
"""What the contract calls, beside ``domain`` or ``categories``."""


@dataclass(frozen=True)
class MechanismTrial:
    """One mechanism under test: how it is built and the inputs it is probed with."""

    factory: Callable[[Any], Any]
    epsilon: float
    samples: int | None = None
    given: Sequence[Any] | None = field(default=None, repr=False)

    @cached_property
    def mechanism(self) -> Any:
        """It, built once."""
        return self.factory(self.epsilon)

    @cached_property
    def numeric(self) -> bool:
        """Has a domain; else it has categories."""
        return getattr(self.mechanism, "domain", None) is not None

    @cached_property
    def inputs(self) -> list[Any]:
        """The ends, the middle, and what lies awkwardly on any grid; or all categories where there
        are few, else the first ones, a middle and the last.
        """
        if self.given is not None:
            return list(self.given)
        if not self.numeric:
            d = int(self.mechanism.categories)
            return list(range(d)) if d <= FEW else sorted({0, 1, d // 2, d - 1})
        lo, hi = self.mechanism.domain
        return [
            lo,
            hi,
            (lo + hi) / 2,
            lo + 0.3 * (hi - lo),
            lo + 1e-9 * (hi - lo),
            float(np.nextafter(hi, lo)),
            lo + 0.7310585 * (hi - lo),
        ]

    @cached_property
    def many(self) -> list[Any]:
        """More inputs, for what costs little: all categories, MOST at most, or numbers all over the
        domain.
        """
        if self.given is not None:
            return list(self.given)
        kinds = MOST if self.numeric else int(self.mechanism.categories)
        found: list[Any] = self.spread(min(MOST, kinds)).tolist()
        return found

    @cached_property
    def laws(self) -> list[Law]:
        """The exact law of each probe."""
        return [self.mechanism.law(value) for value in self.inputs]

    @cached_property
    def _singles(self) -> NDArray[np.int64]:
        """(outputs, sums): the support of each possible report alone."""
        outputs = np.asarray(self.laws[0].support)
        return np.array(
            [self.mechanism.support(outputs[i : i + 1]) for i in range(len(outputs))], np.int64
        )

    @cached_property
    def singles(self) -> NDArray[np.float64]:
        """(outputs, numbers): what each possible report alone is an estimate of; equal supports
        are of equal estimates.
        """
        kinds, place = np.unique(self._singles, axis=0, return_inverse=True)
        told = [np.atleast_1d(self.estimate(one).value) for one in kinds]
        return np.array(told, np.float64)[place.reshape(-1)]

    def estimate(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """What the mechanism says of a support."""
        return is_a(
            Estimate,
            self.mechanism.estimate_support(support, population=population),
            "estimate_support",
        )

    @cached_property
    def precise(self) -> int:
        """How many reports an exact law stands for: PRECISE, or so many fewer that their sums stay
        below LARGEST.
        """
        n, most = PRECISE, int(np.abs(self._singles).max())
        while n * most >= LARGEST:
            n //= 2
        require(
            n >= 2**20,
            "one report must add less than 2**42 to a support: the sums of a million would"
            " overflow",
        )
        return n

    def tally(self, value: Any, law: Law) -> NDArray[np.int64]:
        """(outputs,) how often each occurs in reports of one value: as many as told, or MANY; or
        what was drawn when SECONDS had passed, at least one batch of SAMPLES.
        """
        tally, left, start = Tally(law), self.samples or MANY, perf_counter()
        while left > 0:
            n = min(left, BATCH)
            reports = self.mechanism.perturb(self.column([value]).repeat(n), system())
            require(len(reports) == n, "there must be one report for each value")
            tally.add(reports)
            left -= n
            if self.samples is None and perf_counter() - start > SECONDS:
                break
        return tally.seen

    @cached_property
    def mean_supports(self) -> list[NDArray[Any]]:
        """The exact mean of one report's support, for each probe."""
        return [mean_support(law, self._singles) for law in self.laws]

    def column(self, values: Sequence[Any]) -> NDArray[Any]:
        """Values as a mechanism takes them."""
        return np.array(values, np.float64 if self.numeric else np.int64)

    def spread(self, n: int) -> NDArray[Any]:
        """As many inputs, all over the domain, the same in every run."""
        if not self.numeric:
            return np.arange(n, dtype=np.int64) % int(self.mechanism.categories)
        lo, hi = self.mechanism.domain
        return np.asarray(lo + (hi - lo) * (np.arange(n) * 0.6180339887498949 % 1))


def is_a(kind: type[Kind], made: Any, member: str) -> Kind:
    """What a member returned, if it has the fields of that kind."""
    require(
        all(hasattr(made, name) for name in kind.__annotations__),
        f"`{member}` must return an ldp_kafka.{kind.__name__}({', '.join(kind.__annotations__)})",
    )
    checked: Kind = made
    return checked
