"""What a collector reads from a method's reports: values on their scale, sums, the crowd's mean or
frequencies, and the errors of all of them. It knows reports and public parameters, no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Estimate, Law, report_width
from ldp_kafka.mechanisms.intervals import quantile
from ldp_kafka.methods.description import Description
from ldp_kafka.methods.inversion import Inversion
from ldp_kafka.methods.step import SENT, Step
from ldp_kafka.methods.values import Values

__all__ = ["Estimates", "Slot"]


class Slot(NamedTuple):
    """Which slot sums are of, and those of slots before it."""

    number: int
    earlier: Mapping[int, NDArray[np.int64]] | None
    """The sums of those of the `Estimates.looks_back` slots before it that had reports; None where
    they are too many to be kept.
    """


class Estimates(Description):
    """The collector's part of a `Method`."""

    mechanism: Any
    """What perturbed the values."""
    values: Values
    """What they are: numbers of a domain, or categories."""
    kurtosis: float = 0.0
    """Of the noise of one report, in excess of the normal law's, at most: where its error is stated
    without its law.
    """

    @property
    def domain(self) -> tuple[float, float]:
        """(lo, hi), the public range of a value; AttributeError for categories."""
        return self.values.domain

    @property
    def categories(self) -> int:
        """How many categories there are; AttributeError for numbers."""
        return self.values.categories

    @property
    def feedback_bias(self) -> float:
        """How far the mean of what was perturbed can be from the mean of the values, for a crowd of
        any size; a share of the domain's length.
        """
        return 0.0

    @property
    def scale(self) -> float:
        """Every report is a whole multiple of it."""
        return float(self.mechanism.scale)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of ``scale``."""
        low, high = self.mechanism.index_range
        return int(low), int(high)

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        """Additive integer sums of reports of one phase, their number first."""
        del phase
        found: NDArray[np.int64] = self.mechanism.support(reports)
        return found

    def form(self, phase: int, cost: int) -> Estimates | None:
        """What reads reports of a phase, which cost so many micro-epsilon each; None where there
        are none such. A cost of 0 stands for `Description.spend`.
        """
        del phase
        return None if cost else self

    @cached_property
    def _report_width(self) -> int:
        return report_width(self.mechanism)

    def blank(self, n: int) -> NDArray[Any]:
        """Answers of ``n`` rows before anything is sent: zeros, as a `Step` has them, in units of
        the mechanism's scale.
        """
        width = self._report_width
        return np.zeros((n, width), np.uint8) if width else np.zeros(n, np.int64)

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        """What is published of the mechanism's answers, on the scale of the values: a public map,
        the same for every user and slot.
        """
        return self.values.released(answers)

    def published(self, step: Step) -> NDArray[Any]:
        """What one slot's reports say, a row each: NaN or -1 where there is none."""
        return self.values.gaps(self.released(step.answers), step.status == SENT)

    def held(
        self, released: NDArray[np.float64], before: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Releases (users, T) or (users, T, dimension) with NaN where none is: the last one stands,
        at first the one ``before``, or the domain's midpoint, which is public.
        """
        latest = np.where(
            np.isnan(released),
            -1,
            np.arange(released.shape[1]).reshape((-1, *(1,) * (released.ndim - 2))),
        )
        np.maximum.accumulate(latest, axis=1, out=latest)
        held = np.take_along_axis(released, np.maximum(latest, 0), axis=1)
        lo, hi = self.domain
        first = lo + (hi - lo) / 2 if before is None else before[:, None]
        return np.where(latest < 0, first, held)

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the values behind reports (or their frequencies), from the mechanism's
        additive support.
        """
        return self.values.estimate(self.mechanism.estimate_support(support))

    @property
    def looks_back(self) -> int:
        """Slots before its own whose sums say something of how far a crowd's estimate is off."""
        return 0

    def crowd_of_slot(self, support: NDArray[np.int64], slot: Slot) -> Estimate:
        """The same, where it is known which slot it is of."""
        del slot
        return self.crowd(support)

    def course(self, reports: int) -> tuple[tuple[int, float], ...]:
        """How the standard error of the mean of so many users, who begin together, goes on: (n, of
        the n-th slot of their life), at the worst input; nothing where all slots have one error.
        """
        del reports
        return ()

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of one released value, on the domain's scale, at the
        worst input.
        """
        unit = self._unit_laws()
        lo, hi = self.domain
        worst: float = max(
            (variance + (mean - x) ** 2) ** 0.5
            for x, (mean, variance) in zip((0.0, 0.5, 1.0), unit, strict=True)
        )
        return (hi - lo) * worst

    @property
    def single_reason(self) -> str | None:
        """Why the error of one released value cannot be said, a word of
        `ldp_kafka.methods.unstated.UNSTATED`; None where it can.
        """
        return None

    @cached_property
    def inversion(self) -> Inversion | None:
        """What one released value says of the value behind it, by the exact law of one answer; None
        where the answer depends on more than that value.
        """
        return None

    def in_lengths(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is published of answers, in lengths of the domain from its lower end."""
        lo, hi = self.domain
        return np.asarray((self.released(answers) - lo) / (hi - lo))

    def single_limits(
        self, released: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The 95 % intervals (low, high) of single values by what was released of each, inside the
        domain; NaN where nothing was.
        """
        lo, hi = self.domain
        if self.inversion is None:
            inside, half = np.clip(released, lo, hi), quantile(self.kurtosis, 1) * self.single_error
            return np.maximum(inside - half, lo), np.minimum(inside + half, hi)
        low, high = self.inversion.limits((released - lo) / (hi - lo))
        return lo + low * (hi - lo), np.minimum(lo + high * (hi - lo), hi)

    @cached_property
    def reliability(self) -> float:
        """Share of one released value that is signal: the variance that values spread evenly over
        the domain would give it, over its whole variance (0..1); from the law alone.
        """
        (low, v0), (_, v1), (high, v2) = self._unit_laws()
        signal = (high - low) ** 2 / 12
        return signal / (signal + (v0 + 4 * v1 + v2) / 6)

    def _unit_laws(self) -> list[tuple[float, float]]:
        """Mean and variance of a release at the ends and the middle of the domain, in lengths of
        it, with no feedback.
        """
        return self._moments(self.mechanism)

    def _moments(self, mechanism: Any) -> list[tuple[float, float]]:
        """The same of any mechanism on the unit domain."""
        return [Law.of(mechanism.law(x)).dot_moments(self.in_lengths) for x in (0.0, 0.5, 1.0)]
