"""BA-SW: report only what has changed, with the budget of the slots in which nothing did."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf, nan, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate, Law, Z
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, SILENT, SlotMethod, Step, part_of
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.inversion import Inversion, law_ranges
from ldp_kafka.methods.noisy_mean import NoisyMean
from ldp_kafka.methods.spread import error_of_mean
from ldp_kafka.randomness import seeded

__all__ = ["BudgetAbsorption"]

LONGEST = 1024  # slots of a window: each number of absorbed slots has a mechanism of its own
NOT_PUBLISHED, PUBLISHED = 0, 1  # phases of a slot's draws
# of the domain: a bias of a mechanism's grid alone is below the first, and below the second it is
# not in the error
BIASED, SEEN = 2.0**-10, 2.0**-20


class BudgetAbsorption(NoisyMean, SlotMethod):
    """Test each slot for a change, and where there is one report with the budget that was not used
    since the last report.

    Parameters
    ----------
    epsilon, domain, calibration, mechanism : see `SlotMethod`
    window : slots, 1..1024

    Notes
    -----
    BA-SW as compared in CAPP, section VI (budget absorption of Kellaris et al. and LDP-IDS on the
    user's side; the authors call it with the wrong window). One unit is epsilon / (2 window). With
    l the slot of the last report, u the units it had, r what it said (at first: the slot before the
    first event, 0, the midpoint): the next N = max(u - 1, 0) slots are nullified and say nothing.
    After them a = min(t - l - N, window); d is |x - r| perturbed with one unit, and x is reported
    with a units iff d > err(a), the mechanism's root mean square error there (from its law alone,
    averaged over the domain).

    Guarantee: whether to report is a function of outputs, so only the draws lose anything. A
    window's tests have one unit each: epsilon / 2 at most. Of reports t_1 < ... < t_k in a window,
    t_{i+1} - t_i >= a_i + a_{i+1} - 1 (the nullified slots and those absorbed), which sums to
    sum(a) <= window: epsilon / 2 again. A value is tested against r, an output, so it reaches the
    draws of its own slot only: influence ``window`` slots, memory 0. Silence says that a noisy test
    failed; it is paid for. Both calibrations are the same, 2 window units.

    Whether and with how many units x is reported is settled before the noise on it is drawn: with
    an unbiased mechanism the mean of a slot's reports is one of those users' values, whatever
    brought them to report. How much noise each has shows in how far they lie apart (`NoisyMean`).
    The error has the bias that a mechanism's grid leaves, at most.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("ba_sw", epsilon=60.0, window=3, domain=(0.0, 10.0))
    >>> m.release(np.array([1.0, 1.0, 1.0, 9.0, 9.0]), lk.randomness.seeded(7)).round(1).tolist()
    [1.0, 1.0, 1.0, 1.0, 9.0]
    """

    pauses = True

    name = "ba_sw"
    holds = True
    statistics: tuple[str, ...] = ("per_user",)
    untold: ClassVar[dict[str, str]] = {
        "mean": (
            "square_wave draws each towards the middle, and no report tells how far (laplace,"
            " duchi, piecewise and hybrid are unbiased)"
        )
    }
    few = 8  # two-valued noise may be all on one side

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        if not self.window <= LONGEST:
            raise ConfigurationError(f"window must be at most {LONGEST} slots for {self.name}")
        self.spend = part_of(budget, 2 * self.window)
        self._by_units = [
            mechanism(units * self.spend / MICRO, (0.0, 1.0)) for units in range(1, self.window + 1)
        ]
        self.mechanism = self._by_units[0]
        bias = max(map(_bias, self._by_units))
        if bias < BIASED:
            self.statistics = ("per_user", "mean")
        self._bias = bias if bias > SEEN else 0.0
        self._errors = np.array(
            [0, *(round(_error(each) * 2**20) * (FIXED // 2**20) for each in self._by_units)],
            np.int64,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What a window's tests and reports lose together, a unit for each of its slots to either;
        ``published`` no less than ``sound``.
        """
        promised = super().guarantee
        return (
            promised
            if self.calibration == "sound"
            else promised._replace(epsilon=2 * self.window * self.spend / MICRO)
        )

    @cached_property
    def inversion(self) -> Inversion:
        """Ranges that hold for reports of 1, 2, 4, ... and ``window`` units: how many one has is
        not said. Those of numbers between are in them too, for the mechanisms of this package.
        """
        units = {self.window, *(2**at for at in range(self.window.bit_length()))}
        found = [law_ranges(self._by_units[each - 1], self.in_lengths) for each in units]
        low, high, ends = zip(*found, strict=True)
        first, last = zip(*ends, strict=True)
        return Inversion(np.min(low, axis=0), np.max(high, axis=0), (min(first), max(last)))

    @property
    def scale(self) -> float:
        return min(float(each.scale) for each in self._by_units)

    @property
    def index_range(self) -> tuple[int, int]:
        ends = [
            (
                each.index_range[0] * each.scale / self.scale,
                each.index_range[1] * each.scale / self.scale,
            )
            for each in self._by_units
        ]
        return int(min(low for low, _ in ends)), int(max(high for _, high in ends))

    @property
    def fields(self) -> dict[str, Field]:
        """Of the last report: its slot, its units, and what it said in units of 2**-32 of the
        domain.
        """
        return {
            **super().fields,
            "reported": Field("i8", initial=NEVER),
            "units": Field("i4"),
            "held": Field("i8", initial=FIXED // 2),
        }

    def report(self, state: State, batch: Batch) -> Step:
        rows, slot, values = batch[:3]
        reported, units, held = (state.columns[name] for name in ("reported", "units", "held"))
        last = reported[rows]
        last[last == NEVER] = slot - 1
        since = slot - last - np.maximum(units[rows] - 1, 0)
        tested = since > 0
        allowed = self.ledger.charge(state, rows, slot, tested * np.int32(self.spend))
        reported[rows] = last
        status = np.where(allowed, SILENT, REFUSED).astype(np.uint8)
        answers = np.zeros(len(rows))
        at = np.flatnonzero(tested & allowed)
        if not len(at):
            return Step(answers, status)
        r = held[rows[at]]
        distance = np.minimum(np.abs(values[at] - r), FIXED)
        bound = (values[at], r)
        answered = self.draw(state, batch.part(at), distance / FIXED, bound, NOT_PUBLISHED)
        absorbed = np.minimum(since[at], self.window)
        changed = (np.abs(answered) * FIXED).astype(np.int64) > self._errors[absorbed]
        at, absorbed = at[changed], absorbed[changed]
        paid = self.ledger.charge(state, rows[at], slot, (absorbed * self.spend).astype(np.int32))
        status[at[~paid]] = REFUSED
        at, absorbed = at[paid], absorbed[paid]
        for count in np.unique(absorbed):
            of_count = absorbed == count
            group = at[of_count]
            # the units choose the mechanism: one word must not serve two
            bound = (values[group], absorbed[of_count])
            answers[group] = self.draw(
                state,
                batch.part(group),
                values[group] / FIXED,
                bound,
                PUBLISHED,
                mechanism=self._by_units[count - 1],
            )
        status[at] = SENT
        reported[rows[at]], units[rows[at]] = slot, absorbed
        held[rows[at]] = (answers[at] * FIXED).astype(np.int64)
        return Step(answers, status)

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        """Their number, their sum and that of their squares, in units of ``scale``."""
        del phase  # only what is published is reported
        index = np.rint(np.asarray(reports) / self.scale).astype(np.int64)
        return np.array([len(index), index.sum(), (index * index).sum()])

    def _mean(self, support: NDArray[np.int64]) -> Estimate:
        n, total, squares = (int(each) for each in support)
        if not n:
            return Estimate(nan, inf, 0)
        spread = sqrt((squares * n - total * total) / (n * max(n - 1, 1))) * self.scale
        error = error_of_mean(n, spread, *self._noise, few=self.few) + self._bias / Z
        return Estimate(total / n * self.scale, error, n)

    @cached_property
    def _noise(self) -> tuple[float, float]:
        found = [
            Law.of(each.law(x)).variance() for each in self._by_units for x in (0.0, 0.25, 0.5, 1.0)
        ]
        return sqrt(min(found)), sqrt(max(found))

    def course(self, reports: int) -> tuple[tuple[int, float], ...]:
        """At most that of reports of one unit, as all are in the first slot."""
        lo, hi = self.domain
        return ((1, (hi - lo) * (self._noise[1] / sqrt(reports) + self._bias / Z)),)

    @cached_property
    def reporting(self) -> float:
        """Where values stay as they are, by simulation: its own error is about 1 %."""
        levels, slots, source = np.linspace(0, 1, 400), min(4 * self.window, 64), seeded(0)
        rows, values = np.arange(len(levels)), self.bound(self.constant(levels, 1)[:, 0])
        state = self.state(source.digests([str(row) for row in rows]))
        sent = [
            self.step(state, Batch(rows, slot, values, source)).status == SENT
            for slot in range(slots)
        ]
        return float(np.mean(sent))

    def tables(self) -> list[int]:
        return [*super().tables(), *self._by_units[-1].tables(), *self._errors.tolist()]


def _bias(mechanism: Any) -> float:
    """How far the mean report of a value is from it, at most: at the ends and in the middle, since
    it is linear between them or it is not unbiased.
    """
    return max(abs(Law.of(mechanism.law(x)).mean() - x) for x in (0.0, 0.25, 0.5, 1.0))


def _error(mechanism: Any) -> float:
    """Root mean square error of a report, for values spread evenly over the domain (Simpson's rule:
    the squared error is a polynomial of degree 2 in the value).
    """
    low, middle, high = (Law.of(mechanism.law(x)).mean_square(about=x) for x in (0.0, 0.5, 1.0))
    return float(((low + 4 * middle + high) / 6) ** 0.5)
