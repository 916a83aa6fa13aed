"""ToPL: find a threshold that few values exceed from the first noisy reports. Then clamp later
values to it, so that they need less noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field, State
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.mechanisms.square_wave import SquareWave
from ldp_kafka.mechanisms.window import Window
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, SlotMethod, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.made import checked_factory
from ldp_kafka.methods.unstated import UNKNOWN_THRESHOLD

__all__ = ["ThresholdPerturbation"]

BINS = 32  # of the reconstructed distribution; the threshold is the upper edge of one
ROUNDS = 40  # of expectation maximisation: of so few reports, more only fit their noise
CHUNK = 512  # users whose thresholds are found at a time


class ThresholdPerturbation(SlotMethod):
    """Perturb the first values by Square Wave, find a threshold from those reports, and perturb the
    later values, clamped to it, by the Hybrid Mechanism.

    Parameters
    ----------
    epsilon, window, domain, calibration, mechanism : see `SlotMethod`; ``mechanism`` is that of the
        second phase
    first : reports of the first phase, 1..65536; default: two windows, at most 64
    scout : mechanism of the first phase, a factory; default: Square Wave

    Notes
    -----
    ToPL (Wang et al., CCS 2021, arXiv 2005.11753) on one user's stream, as CAPP compares it; that
    paper's code runs the plain Piecewise Mechanism instead, kept as ``pm_direct``. The threshold
    theta is the edge of one of 32 bins that minimises theta^2 V / window + bias^2: V is the largest
    variance of the second mechanism on the unit domain, bias the mean of what theta cuts off under
    the distribution that expectation maximisation finds behind the user's first reports; the error
    of a window's mean.

    Guarantee: theta is a function of reports, so given the reports before it each report depends on
    the value of its own slot alone, at loss epsilon / window in either phase: influence ``window``,
    memory 0. Both calibrations are the same. What finds theta adds and divides in a fixed order, so
    every CPU finds the same.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("topl", epsilon=30.0, window=3, first=6, domain=(0.0, 10.0))
    >>> m.release(np.full(9, 1.0), lk.randomness.seeded(7)).round(1)[6:].tolist()
    [1.0, 1.0, 1.0]
    """

    name = "topl"
    default_mechanism = "hybrid"
    parameters: ClassVar[dict[str, str]] = {
        "first": "reports from which the threshold is found; default: two windows, at most 64"
    }
    statistics = ("per_user",)
    untold: ClassVar[dict[str, str]] = {
        "mean": (
            "the first are biased by square_wave and later ones are cut off at thresholds, and none"
            " tells which it is"
        )
    }

    def __init__(
        self, *, first: int | None = None, scout: Callable[..., Any] = SquareWave, **parameters: Any
    ) -> None:
        if first is None:
            first = min(2 * check_slots(parameters.get("window"), "window"), 64)
        self.first = check_slots(first, "first")
        self._scout = checked_factory(scout, "scout")
        super().__init__(**parameters)

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        super()._prepare(mechanism, budget)
        self.scout = self._scout(self.spend / MICRO, (0.0, 1.0))
        self._outputs = np.asarray(self.scout.law(0.5).support, np.float64)
        self._likelihood = np.array(
            [_likelihood(self.scout, bin_) for bin_ in range(BINS)]
        ).T.copy()
        noise = _noise(self.mechanism)
        edges, centres = np.arange(1, BINS + 1) / BINS, (np.arange(BINS) + 0.5) / BINS
        self._noise = edges * edges * (noise / self.window)
        self._cut = np.maximum(centres - edges[:, None], 0.0)

    @property
    def single_reason(self) -> str | None:
        return UNKNOWN_THRESHOLD

    @property
    def scale(self) -> float:
        return min(float(self.scout.scale), float(self.mechanism.scale) / BINS)

    @property
    def index_range(self) -> tuple[int, int]:
        low, high = zip(
            *(
                (each.index_range[0] * each.scale, each.index_range[1] * each.scale)
                for each in (self.scout, self.mechanism)
            ),
            strict=True,
        )
        return int(min(low) / self.scale), int(max(high) / self.scale)

    @property
    def fields(self) -> dict[str, Field]:
        """The first reports, as numbers of the scout's outputs, how many there are, and the
        threshold in bins.
        """
        return {
            **super().fields,
            "early": Field("i4", self.first),
            "count": Field("i4"),
            "threshold": Field("i4", initial=BINS),
        }

    def report(self, state: State, batch: Batch) -> Step:
        rows, slot, values = batch[:3]
        allowed = self.ledger.charge(state, rows, slot, self.spend)
        answers = np.zeros(len(rows))
        scouting = state.columns["count"][rows] < self.first
        early, late = np.flatnonzero(allowed & scouting), np.flatnonzero(allowed & ~scouting)
        if len(early):
            answers[early] = self.draw(
                state,
                batch.part(early),
                values[early] / FIXED,
                (values[early],),
                mechanism=self.scout,
            )
            self._note(state, rows[early], answers[early])
        if len(late):
            threshold = state.columns["threshold"][rows[late]].astype(np.int64)
            ceiling = threshold * (FIXED // BINS)
            share = np.minimum(values[late], ceiling) / ceiling
            bound = (values[late], threshold)
            drawn = self.draw(state, batch.part(late), share, bound)
            answers[late] = drawn * (threshold / BINS)
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8))

    def _note(self, state: State, rows: NDArray[np.intp], answers: NDArray[np.float64]) -> None:
        """Keep early reports; find the threshold of those who have all of them."""
        early, count = state.columns["early"], state.columns["count"]
        turn = count[rows]
        early[turn, rows] = np.searchsorted(self._outputs, answers)
        count[rows] = turn + 1
        done = rows[turn + 1 == self.first]
        for start in range(0, len(done), CHUNK):
            part = done[start : start + CHUNK]
            state.columns["threshold"][part] = self._thresholds(early[:, part])

    def _thresholds(self, early: NDArray[np.int32]) -> NDArray[np.int32]:
        """Thresholds (n,) in bins, 1..32, from reports (first, n). Sums are cumulative ones: they
        add in the order of their terms on every CPU.
        """
        likelihood = self._likelihood[early]
        guess = np.full((early.shape[1], BINS), 1 / BINS)
        for _ in range(ROUNDS):
            joint = likelihood * guess
            joint /= np.cumsum(joint, axis=2)[:, :, -1:]
            guess = np.cumsum(joint, axis=0)[-1] / self.first
        bias = np.cumsum(guess[:, None, :] * self._cut, axis=2)[:, :, -1]
        return np.asarray(1 + np.argmin(bias * bias + self._noise, axis=1), np.int32)

    def tables(self) -> list[int]:
        return [*super().tables(), self.first, *self.scout.tables()]


def _noise(mechanism: Any) -> float:
    """The largest variance of a report, at the ends and the middle of the domain."""
    return max(Law.of(mechanism.law(x)).variance() for x in (0.0, 0.5, 1.0))


def _likelihood(mechanism: Any, bin_: int) -> NDArray[np.float64]:
    """Probabilities (outputs,) of reports of values spread evenly over a bin."""
    if isinstance(mechanism, Window):
        points = np.arange(mechanism.steps + 1) * BINS // mechanism.steps == bin_
        return mechanism.push(points / points.sum())
    laws = [mechanism.law((bin_ + part) / BINS) for part in (0.125, 0.375, 0.625, 0.875)]
    return np.array(
        [
            sum(weights) / sum(law.denominator for law in laws)
            for weights in zip(*(law.weights for law in laws), strict=True)
        ]
    )
