"""Budget-Split: all coordinates of a vector in every slot, each with a share of the budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.methods.base import REFUSED, SENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.split import Split

__all__ = ["BudgetSplit"]


class BudgetSplit(Split):
    """Perturb all coordinates in every slot, each by itself with an equal share of the budget.

    Parameters
    ----------
    epsilon, window, calibration, mechanism : see `SlotMethod`
    dimension : d, coordinates of a vector, 1..1024
    domain : (lo, hi) of every coordinate; values outside are clamped to it
    inner : the method of one coordinate: sw_direct, ipp, app, capp, or one that reports segments:
        sampling, ipp_s, app_s, capp_s
    block : of app and capp in slots, of app_s and capp_s in segments; default: their own choice for
        a budget of epsilon / d
    segment : slots in a segment; see `Sampling`

    Notes
    -----
    Budget-Split of CAPP, section IV ("Extension to high-dimensional time series data"). Guarantee:
    given the earlier reports, coordinate k's report depends on its own values alone, of its slot
    and of the ``lasting`` slots before it (0; 1 for ipp; block - 1 for app and capp; see there). So
    vectors that change wholly inside one window reach d reports in each of window + lasting slots:
    influence d (window + lasting), each at loss epsilon / influence. Of segments, all coordinates'
    end in the same slots, and a window reaches as many reports of each as of ``inner`` by itself, n
    (s + lasting; see `Sampling`): influence d n. All d of a slot are paid for together, or refused.
    ``published`` spends epsilon / (d window) on each, of segments epsilon / (d n_w). Streams are
    (T, d) or (users, T, d), and so are releases.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("budget_split", epsilon=60.0, window=3, dimension=2, domain=(0.0, 10.0))
    >>> m.guarantee.influence
    6
    >>> m.release(np.array([[1.0, 9.0], [5.0, 5.0]]), lk.randomness.seeded(7)).round(1).tolist()
    [[1.0, 9.0], [5.0, 5.0]]
    """

    name = "budget_split"

    @property
    def _turns(self) -> int:
        return self.window

    @property
    def _per_slot(self) -> int:
        return self.dimension

    @property
    def _apart(self) -> int:
        return 1

    @property
    def influence(self) -> float:
        reached: float = self.dimension * self.each.influence
        return reached

    def _shares(self) -> int:
        if self.calibration == "published":
            return int(self.dimension * self.each.shares)
        return int(self.influence)

    @property
    def run(self) -> int:
        """As `Segmented.run`."""
        return (self._shares() // self.dimension - 1) * self.stride + 1

    def blank(self, n: int) -> NDArray[Any]:
        return np.zeros((n, self.dimension), np.int64)

    def report(self, state: State, batch: Batch) -> Step:
        due, turn = self.each.due(batch.slot), batch.slot // self.stride
        allowed = self.ledger.charge(state, batch.rows, batch.slot, self.cost if due else 0)
        answers = np.zeros((len(batch.rows), self.dimension))
        batch = self._gathered(state, batch, batch.slot, range(self.dimension))
        if not due:
            return Step.silent(answers)
        paid = batch.part(allowed)
        for at in range(self.dimension):
            answers[allowed, at] = self._coordinate(state, paid, turn, at)
        return Step(answers, np.where(allowed, SENT, REFUSED).astype(np.uint8))

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        """The number of reports, and then the support of each coordinate."""
        del phase
        return np.concatenate(
            [[len(reports)], *(self.each.support(reports[:, at]) for at in range(self.dimension))]
        ).astype(np.int64)
