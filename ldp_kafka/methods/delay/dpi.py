"""A choice among public synopses, whose chances earlier choices have boosted."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field
from ldp_kafka.mechanisms.additive import CAP
from ldp_kafka.mechanisms.base import check_whole
from ldp_kafka.mechanisms.exponential import MOST_CANDIDATES, ExponentialMechanism
from ldp_kafka.methods.delay.base import ONCE
from ldp_kafka.methods.delay.blocks import Blocks
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.values import FIXED

__all__ = ["Dpi"]

SYNOPSES = 32


class Dpi(Blocks):
    """Release for each block of slots the public synopsis that a private choice says is near its
    values; synopses near what was chosen before are likelier to be chosen again. After the idea of
    DPI, not after its algorithm.

    Parameters
    ----------
    epsilon, delay, domain, setting, smooth, contribution, window, calibration : see `DelayMethod`
    noise : ``point``: it has no other, and draws none
    synopses : levels of the pool, in the middle of as many equal parts of the domain, 2..1024;
        default: 32

    Notes
    -----
    DPI (Feng et al., IEEE S&P 2024, arXiv 2312.04738) is a baseline of the delay-allowed paper (its
    Table III). This has of it a pool of synopses that do not depend on data, a sampler over the
    pool whose chances are boosted near the truth, and the release of what it draws.

    It differs from DPI in all else: it guarantees epsilon for one value, where DPI does for a
    user's endless stream, by budgets that fall with time; a synopsis is one of evenly spaced levels
    for a whole block, where DPI's is a distribution over the domain, drawn at random; one is
    released, where DPI's code releases the mean of twenty; the truth boosts a block's sampler by
    the exponential mechanism, e^(-epsilon distance / (2 reach)), distance the sum of |value -
    level|, where DPI boosts by a clipped distance to the true sums; and the boosts that last follow
    from releases alone, where DPI keeps those of the truth. A synopsis has e^(boost epsilon / (2
    reach)) times the chance, where its boost is halved in each block and grows by one reach for the
    synopsis that was released, and by half a reach for those beside it.

    Table III is of DPI and not of this. What it prints of each stream is one error whatever epsilon
    is, 0.76 to 0.80 and 0.48 to 0.50 of the domain, where the middle's is 0.12 and 0.30.

    Guarantee: given what was released before, boosts are public numbers, the same for both of two
    neighbours. One value is in the distances of one block. It moves each by at most its own move,
    at most ``reach``, some up and others down: the choice loses epsilon (`ExponentialMechanism`,
    not monotone). Everything released is the chosen levels, and no other choice depends on the
    value but through them: epsilon over the endless stream. Both calibrations are the same: the
    original's noise is for another guarantee.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("dpi", epsilon=20.0, delay=3, synopses=10, domain=(0.0, 10.0))
    >>> stream = np.array([2.0, 2.5, 3.0, 8.5, 8.5, 8.5])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [2.5, 2.5, 2.5, 8.5, 8.5, 8.5]
    """

    name = "dpi"
    noises: ClassVar[tuple[str, ...]] = ("point",)
    parameters: ClassVar[dict[str, str]] = {
        **{name: line for name, line in Blocks.parameters.items() if name != "truncation"},
        "synopses": "levels to choose from; default: 32",
    }

    def __init__(self, *, synopses: int = SYNOPSES, **parameters: Any) -> None:
        self.synopses = check_whole(synopses, "synopses", 2, MOST_CANDIDATES)
        super().__init__(**parameters)

    def prepare(self) -> None:
        count = self.synopses
        self._level = np.array([FIXED * (2 * k + 1) // (2 * count) for k in range(count)])
        self.parts = self.window * self.spend / MICRO, 0.0
        self.choice = ExponentialMechanism(self.spend / MICRO, self.reach, count)

    def kept(self) -> dict[str, Field]:
        """The boost of each synopsis, in units of 2**-32 of the domain."""
        return {**super().kept(), "boost": Field("i8", self.synopses)}

    def _block(self, window: Rows, values: NDArray[np.int64], there: NDArray[np.bool_]) -> None:
        some = np.flatnonzero(there.any(axis=0))
        boosts = window.ring("boost")
        boost = boosts[:, some]
        scores = self._scores(values[:, some], there[:, some], boost)
        first = window.slot - self.delay + 1
        source = window.at_random(some, ONCE, *scores.T, slot=first)
        chosen = self.choice.choose(scores, source)
        boost //= 2
        away = np.abs(np.arange(self.synopses)[:, None] - chosen)
        boost += np.where(away == 0, self.reach, np.where(away == 1, self.reach // 2, 0))
        boosts[:, some] = boost
        released = np.zeros(there.shape)
        released[:, some] = self._level[chosen] / FIXED
        self._keep_block(window, released, self._variance(there), there)

    def _scores(
        self, values: NDArray[np.int64], there: NDArray[np.bool_], boost: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Scores (n, synopses) of values (delay, n) and boosts (synopses, n)."""
        scores = np.empty((values.shape[1], self.synopses), np.int64)
        for k, level in enumerate(self._level.tolist()):
            away = np.abs(values - level)
            away *= there
            scores[:, k] = boost[k] - away.sum(axis=0)
        return scores

    def _variance(self, there: NDArray[np.bool_]) -> NDArray[np.float64]:
        """About that of a choice, counted for each slot: distances of levels are told apart as far
        as Laplace noise of scale 2 reach / epsilon on a block's sum would let them.
        """
        present = np.maximum(there.sum(axis=0), 1)
        scale = 2 * self.reach / FIXED / min(self.spend / MICRO, CAP)
        rough = 1 / (12 * self.synopses**2)
        variance = np.minimum(2 * (scale / present) ** 2 + rough, 1 / 12) * present
        return np.broadcast_to(variance, there.shape)
