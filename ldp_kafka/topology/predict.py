"""What the errors of a topology's releases will be, from its mechanism's exact law or, for releases
per user, by simulation with fixed words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods import Method
from ldp_kafka.methods.response_curve import ResponseCurve
from ldp_kafka.randomness import seeded

__all__ = [
    "Prediction",
    "crowd_error",
    "predict",
    "release_error",
    "reporting",
    "shrunk",
]

_INPUTS = np.linspace(
    0, 1, 9
)  # where the law is looked at: a mechanism is noisiest at an end or in the middle
_LEVELS, _USERS, _SLOTS = (
    np.linspace(0, 1, 5),
    400,
    64,
)  # of the simulation: its own error is about 1 %
LITTLE = 0.1  # reliability below which a release per user is called a constant
_MOST = 2**18  # reports that a prediction is made with; more are as many times their support


class Prediction(NamedTuple):
    """How far a released statistic will be off."""

    statistic: str
    error: float
    """Standard error of a crowd's statistic, with what the method adds for its bias; root mean
    square error of one release of one user. At the worst input.
    """
    constant: float | None
    """What the domain's midpoint, published without looking at any value, is off by at most; None
    for frequencies.
    """
    reports: int
    """That one release is made of."""
    reliability: float | None = None
    """Where releases per user are shrunk: the share of one that is signal, among users whose values
    are spread evenly over the domain; ``error`` and ``constant`` are those users' too.
    """

    @property
    def useful(self) -> bool:
        """Whether it says more than the constant: a shrunk release, whether a tenth of it is
        signal.
        """
        if self.reliability is not None:
            return self.reliability >= LITTLE
        return self.constant is None or self.error < self.constant

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {**self._asdict(), "useful": self.useful}


def predict(method: Method, statistic: str, users: int, *, shrinkage: bool = True) -> Prediction:
    """The error of one statistic among so many users."""
    constant = None if method.kind == "categorical" else (method.domain[1] - method.domain[0]) / 2
    if statistic == "per_user" and shrinkage and method.shrinks:
        return shrunk(method)
    if statistic == "per_user":
        return Prediction(statistic, release_error(method), constant, 1)
    reports = reporting(method, users)
    return Prediction(statistic, crowd_error(method, reports), constant, reports)


def shrunk(method: Method) -> Prediction:
    """One release of one user after shrinkage, where values are spread evenly over the domain and
    the crowd is large enough to know that.
    """
    lo, hi = method.domain
    read = ResponseCurve.of(method.single)
    slope = float(read.mean[-1] - read.mean[0])
    signal, noise = slope * slope / 12, read.noise(0.5) + read.curve / 12
    reliability = signal / (signal + noise)
    return Prediction(
        "per_user", (hi - lo) * ((1 - reliability) / 12) ** 0.5, (hi - lo) / 12**0.5, 1, reliability
    )


def reporting(method: Method, users: int) -> int:
    """How many of so many users report in one slot, about."""
    return max(1, round(users * min(1.0, method.influence / method.window)))


def crowd_error(method: Method, reports: int) -> float:
    """The standard error that a release of so many reports will carry, at the input where it is
    largest.

    It is what `Method.crowd` says of reports that follow the mechanism's law exactly (its
    quantiles), so whatever a method adds, the bias of feedback for one, is in it.
    """
    method = getattr(method, "each", method)  # of a coordinate
    return max(_error(method, value, reports) for value in _inputs(method))


def release_error(method: Method) -> float:
    """The root mean square error of one release of one user whose value (every coordinate of it)
    stays the same, at the worst of five values of the domain; by simulation, to about 1 %.
    """
    lo, hi = method.domain
    d, slots = method.dimension, min(2 * method.window, _SLOTS)
    values = np.repeat(lo + _LEVELS * (hi - lo), max(1, _USERS // max(1, d)))
    if method.ball:
        values = values / d**0.5
    streams = np.broadcast_to(values[:, None, None], (len(values), slots, max(1, d)))
    released = method.release(streams if d else streams[..., 0], seeded(0)).reshape(streams.shape)
    square = (released - streams) ** 2
    return float(np.sqrt(np.nanmean(square.reshape(len(_LEVELS), -1), axis=1).max()))


def _inputs(method: Method) -> list[Any]:
    return (
        [0] if method.kind == "categorical" else [float(value) for value in _INPUTS]
    )  # categories are alike to their mechanism


def _error(method: Method, value: Any, reports: int) -> float:
    if method.kind == "categorical" and hasattr(method.mechanism, "variance"):
        # exact, however many outputs there are; where all are of one category, sampling adds
        # nothing
        variance = max(float(method.mechanism.variance(share)) for share in (0.0, 1.0))
        return float(np.sqrt(variance / reports))
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
