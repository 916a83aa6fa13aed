"""LPU: split the users, not the budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.base import REFUSED, SENT, SILENT, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.cover import Covering

__all__ = ["PopulationUniform"]


class PopulationUniform(Covering):
    """Each user reports in one slot of every window, with the whole budget.

    Parameters
    ----------
    epsilon, window, categories, calibration, mechanism : see `SlotMethod`
    cover : see `Covering`; a report is then a category, or the number behind them for none

    Notes
    -----
    LPU of LDP-IDS, section 5.3.1, with fixed groups: a user whose keyed hash is h reports in the
    slots t with t mod window == h mod window, and is silent in the others. Any run of ``window``
    slots holds exactly one of these, so a change inside it reaches at most one report: influence 1,
    memory 0, loss epsilon. When a user reports depends on its id alone, not on its values. Both
    calibrations are the same.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("lpu", epsilon=1.0, window=4, categories=3)
    >>> reports = m.release(np.ones((2, 8), int), lk.randomness.seeded(7))
    >>> (reports >= 0).sum(axis=1).tolist()
    [2, 2]
    """

    pauses = True

    name = "lpu"
    kind = "categorical"
    statistics = ("frequencies",)
    default_mechanism = "grr"

    @property
    def influence(self) -> float:
        return 1

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """Frequencies among all users: those who report in a slot are a sample of them, so its
        sampling error is in the standard error.
        """
        return self.values.estimate(self.mechanism.estimate_support(support, population=True))

    def _shares(self) -> int:
        return 1

    def report(self, state: State, batch: Batch) -> Step:
        rows, slot, values = batch[:3]
        member = state.users[rows, 0] % np.uint64(self.window) == np.uint64(slot % self.window)
        allowed = self.ledger.charge(state, rows, slot, member * np.int32(self.spend))
        sent = np.flatnonzero(member & allowed)
        answers = self.blank(len(rows))
        answers[sent] = self.draw(state, batch.part(sent), values[sent], (values[sent],))
        return Step(
            answers, np.where(allowed, np.where(member, SENT, SILENT), REFUSED).astype(np.uint8)
        )
