"""How far a release will be off, before anything runs: from a mechanism's exact law."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods import Method
from ldp_kafka.methods.unstated import UNSTATED

__all__ = [
    "AggregatePrediction",
    "EvenPrediction",
    "Prediction",
    "ProtocolPrediction",
    "ShrunkPrediction",
    "SinglePrediction",
    "StreamPrediction",
    "law_error",
    "reporting",
]

LITTLE = 0.1  # reliability below which a release per user is called a constant
_MOST = 2**18  # reports that a prediction is made with; more are as many times their support


@dataclass(frozen=True)
class Prediction:
    """How far a released statistic will be off; this one is of a crowd."""

    statistic: str
    error: float
    """Standard error of a crowd's statistic, with what the method adds for its bias; root mean
    square error of one release of one user. At the worst input.
    """
    constant: float | None
    """What `guess`, published without looking at any value, is off by at most; None where there is
    no such constant.
    """
    reports: int
    """That one release is made of."""
    reliability: float | None = None
    """Where releases per user are shrunk: the share of one that is signal, among users whose values
    are spread evenly over the domain; ``error`` and ``constant`` are those users' too.
    """
    guess: str = "the domain's midpoint"
    """What is as good as a release where this is not `useful`."""
    error_reason: str | None = None
    """Why a release will state no error: a word of `ldp_kafka.methods.unstated.UNSTATED`."""
    course: tuple[tuple[int, float], ...] = ()
    """How ``error`` goes on over the slots of users who begin together: (n, of the n-th slot);
    ``error`` is the largest. Empty where all slots have one error.
    """
    clipping: str = ""
    """What a release is of where values are clipped, in words."""

    @property
    def useful(self) -> bool:
        """Whether it says more than the constant."""
        return self.constant is None or self.error < self.constant

    def sentence(self) -> str:
        """The same in words."""
        said = (
            f"{self.statistic}: standard error {self.error:.4g} from {self.reports:,}"
            " reports a slot (worst input)"
        )
        if self.course[1:]:
            steps = ", ".join(f"{error:.4g} in slot {slot:,}" for slot, error in self.course)
            said += f"; of users who begin together {steps}"
        return said + self._clipped()

    def _clipped(self) -> str:
        return f"; {self.clipping}" if self.clipping else ""

    def unstated(self) -> str | None:
        """That a release will state no error, and why, in words; None where it will."""
        if self.error_reason is None:
            return None
        return (
            f"{self.statistic}: a release states none ({self.error_reason})."
            f" {UNSTATED[self.error_reason]}"
        )

    def advice(self) -> str:
        """What to say of it where it is not `useful`."""
        return (
            f"{self.statistic}: {self.guess}, off by at most {self.constant:.3g}, beats a release"
            f" of {self.reports:,} reports, off by {self.error:.3g}; a larger epsilon, a shorter"
            " window, or more users would help"
        )

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {**asdict(self), "useful": self.useful}


@dataclass(frozen=True)
class SinglePrediction(Prediction):
    """Of one release of one user, as it was reported."""

    def sentence(self) -> str:
        return (
            f"{self.statistic}: one release is off by {self.error:.4g} (root mean square, worst"
            f" input); the domain's midpoint by at most {self.constant:.4g}{self._clipped()}"
        )

    def advice(self) -> str:
        return (
            f"{self.statistic}: nothing beats a constant here: one release is off by"
            f" {self.error:.3g} (root mean square, worst input), the domain's midpoint by"
            f" at most {self.constant:.3g}; a larger epsilon, a shorter window, or"
            " statistics of the crowd would help"
        )


@dataclass(frozen=True)
class StreamPrediction(Prediction):
    """Of one release of one stream by a curator: root mean square errors, where streams lie
    anywhere in the domain and move slowly.
    """

    drift: float = 0.0
    """How far they move in a slot, a standard deviation."""

    def sentence(self) -> str:
        return (
            f"{self.statistic}: one release is off by {self.error:.4g} (root mean square, streams"
            f" that move by {self.drift:.3g} a slot); the domain's midpoint by {self.constant:.4g}"
        )

    def advice(self) -> str:
        return (
            f"{self.statistic}: nothing beats a constant here: one release is off by"
            f" {self.error:.3g} (root mean square), the domain's midpoint by {self.constant:.3g}; a"
            " larger epsilon, a contribution, or a longer delay would help"
        )


@dataclass(frozen=True)
class AggregatePrediction(Prediction):
    """Of one release of several values of a stream by a curator: standard errors, whatever the
    values are; ``error`` is that of the last of ``course``.
    """

    told: str = ""
    """What a release is, in words."""
    alone: tuple[tuple[int, float], ...] = ()
    """``course`` where noise is on each value by itself."""

    def sentence(self) -> str:
        found, others = (self._steps(course) for course in (self.course, self.alone))
        return (
            f"{self.statistic}: {self.told} has standard error {found}; with noise on each value"
            f" by itself (bands: 1) {others}"
        )

    def _steps(self, course: tuple[tuple[int, float], ...]) -> str:
        if not course[1:]:
            return f"{course[0][1]:.4g}"
        return ", ".join(f"{error:.4g} after {values:,} values" for values, error in course)

    def advice(self) -> str:
        return (
            f"{self.statistic}: {self.guess}, off by at most {self.constant:.3g}, beats a release,"
            f" off by {self.error:.3g}; a larger epsilon, a shorter window, a contribution, or more"
            " values in a release would help"
        )


@dataclass(frozen=True)
class ShrunkPrediction(Prediction):
    """Of one release of one user, shrunk towards the crowd: useful where a tenth of it is
    signal.
    """

    reliability: float = 0.0

    @property
    def useful(self) -> bool:
        return self.reliability >= LITTLE

    def sentence(self) -> str:
        return (
            f"{self.statistic}: one release, shrunk, is off by {self.error:.4g} (root mean square"
            f" over values spread evenly), the domain's midpoint by {self.constant:.4g};"
            f" reliability {self.reliability:.2g}"
        )

    def advice(self) -> str:
        return (
            f"{self.statistic}: nothing beats a constant here: {100 * self.reliability:.2g} % of"
            " a release is the user's own value, the rest the crowd's mean; a larger epsilon,"
            " a shorter window, or statistics of the crowd would help"
        )


@dataclass(frozen=True)
class EvenPrediction(Prediction):
    """Of shares that are published, where values are spread evenly."""

    def sentence(self) -> str:
        return (
            f"{self.statistic}: standard error {self.error:.4g} of a share that is"
            f" published from {self.reports:,} reports (values spread evenly)"
        )


@dataclass(frozen=True)
class ProtocolPrediction(Prediction):
    """Of a crowd whose releases a coordinator decides: root mean square errors, where values are
    spread evenly, by how the statistic moves; ``error`` is the largest.
    """

    moves: tuple[tuple[str, float], ...] = ()
    publications: float = 1.0
    """Of all slots, the share in which something is published where the statistic moves least."""

    def sentence(self) -> str:
        errors = ", ".join(f"{error:.4g} {name}" for name, error in self.moves)
        held = (
            f"; published in {self.publications:.0%} of slots or more, held in the others"
            f"{'' if self.error_reason is None else f', without an error ({self.error_reason})'}"
            if self.publications < 1
            else ""
        )
        return f"{self.statistic}: root mean square error, where it moves: {errors}{held}"

    def unstated(self) -> None:
        """Nothing: only what is held may state none, and `sentence` says so."""


def reporting(method: Method, users: float) -> int:
    """How many of so many users report in one slot, about."""
    return max(1, round(users * method.reporting))


def law_error(method: Method, value: Any, reports: int) -> float:
    """The standard error that `Method.crowd` says of so many reports that follow the mechanism's
    law of one input exactly (its quantiles): so whatever a method adds, the bias of feedback for
    one, is in it.
    """
    some = min(reports, _MOST)
    support = _support(method, value, some) * round(reports / some)  # supports are additive
    return float(np.max(method.crowd(support).standard_error))


def _support(method: Method, value: Any, reports: int) -> NDArray[np.int64]:
    """The support of so many reports spread over the law of one input as evenly as can be."""
    law = Law.of(method.mechanism.law(value))
    steps = np.cumsum(law.probabilities())
    rank = np.searchsorted(steps, (np.arange(reports) + 0.5) / reports)
    support: NDArray[np.int64] = method.mechanism.support(
        law.support[np.minimum(rank, len(steps) - 1)]
    )
    return support
