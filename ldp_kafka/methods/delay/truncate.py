"""Noise for the values that most of a block's values are, and not for all of the domain."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, Field
from ldp_kafka.mechanisms.base import check_whole
from ldp_kafka.mechanisms.exponential import MOST_CANDIDATES
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.delay.base import ONCE, VALUE
from ldp_kafka.methods.delay.blocks import Blocks
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.delay.truncation import THRESHOLDS, Thresholds
from ldp_kafka.methods.unstated import UNKNOWN_THRESHOLD
from ldp_kafka.methods.values import FIXED

__all__ = ["Truncate"]

SCALE = 2**30  # the reach of a clamped value, whatever its threshold is


class Truncate(Blocks):
    """Choose a threshold that few values of a block exceed, clamp its values to it, and add noise
    of scale threshold / epsilon to each.

    Parameters
    ----------
    epsilon, delay, domain, setting, smooth, contribution, window, calibration : see `DelayMethod`
    noise : ``point``: it has no other
    thresholds : how many there are to choose from, evenly spaced from the domain's lower end to its
        upper one, 2..1024; default: 32
    interval : blocks from one choice to the next, 1..65536; default: 1

    Notes
    -----
    The paper's sensitivity truncation (§VI, equation 3), of its naive method. A block is as long as
    the delay (`Blocks`). In the first block with values, and again ``interval`` blocks later or in
    the first one with values after that, a threshold tau is chosen by the block's own m values,
    and holds until the next choice. Its score is minus the error to expect: m times that of noise
    for tau, and the sum of all that tau cuts off. The paper chooses by report noisy max; here it is
    the `ExponentialMechanism`, which loses as little and is exact. One part of epsilon in five goes
    to the choice.

    The error of noise is that of noise clipped to 0..tau (`clipped_error`), as it is released: the
    paper's sqrt(2) tau / epsilon is more than the whole domain where epsilon is small, and chooses
    thresholds that are too low.

    Guarantee (``sound``). Which block chooses follows from which slots have values, which is
    public. Let one value x move by at most ``reach``. (1) x is in the scores of one choice at most,
    that of its own block. Where x grows, what a threshold cuts off of it grows by 0 to ``reach``,
    for every threshold: no score moves by more than ``reach``, and all move the same way. So the
    choice loses e_s, its part of epsilon (monotone `ExponentialMechanism`: divided by m times the
    domain, as the paper has them, scores have sensitivity 1 / m, and not 1). (2) Given thresholds,
    x is in one draw: clamped to tau, which brings two values no further apart, it moves by at most
    min(tau, reach), and is scaled so that this is one unit of the noise, whatever tau is. Other
    draws do not depend on x. A block that chooses draws with epsilon - e_s, and one that does not
    with epsilon: its values are in no score. So x loses epsilon over the endless stream (adaptive
    composition).

    ``published`` has the paper's scores: the root of the variance of noise that is not clipped, and
    scores over m, by which a choice loses e_s / m; blocks between two choices draw with epsilon -
    e_s too. It loses epsilon where a block has one value, and less elsewhere.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("truncate", epsilon=60.0, delay=6, domain=(0.0, 1000.0))
    >>> stream = np.array([30.0, 10.0, 20.0, 30.0, 10.0, 20.0])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [42.2, 11.8, 20.7, 13.2, 10.8, 11.1]
    """

    name = "truncate"
    noises: ClassVar[tuple[str, ...]] = ("point",)
    share: ClassVar[int] = 5
    parameters: ClassVar[dict[str, str]] = {
        **{name: line for name, line in Blocks.parameters.items() if name != "truncation"},
        "thresholds": "thresholds to choose from; default: 32",
        "interval": "blocks of delay slots from one choice to the next; default: 1",
    }
    alone: SumNoise | None = None

    def __init__(
        self, *, thresholds: int = THRESHOLDS, interval: int = 1, **parameters: Any
    ) -> None:
        self.thresholds = check_whole(thresholds, "thresholds", 2, MOST_CANDIDATES)
        self.interval = check_slots(interval, "interval")
        super().__init__(**parameters)

    def prepare(self) -> None:
        chosen, values = self._split()
        epsilon, published = values / MICRO, self.calibration == "published"
        self._thresholds = Thresholds(
            self.thresholds, self.reach, epsilon, chosen / MICRO, published=published
        )
        self.choice = self._thresholds.choice
        self._level, self._reach = self._thresholds.levels, self._thresholds.reach
        most = max((self._level * SCALE // self._reach).tolist())
        self.adder = SumNoise(epsilon, SCALE, most)
        if not published and self.interval > 1:
            self.alone = SumNoise(self.spend / MICRO, SCALE, most)
            self.parts = self.parts[0], self.window * self.spend / MICRO

    @property
    def reason(self) -> str | None:
        return UNKNOWN_THRESHOLD

    @property
    def reached(self) -> float:
        return 2

    def tables(self) -> list[int]:
        return [*super().tables(), *self._thresholds.tables()]

    def kept(self) -> dict[str, Field]:
        """The number of the threshold that holds, and the block that chose it."""
        return {
            **super().kept(),
            "threshold": Field("i8"),
            "chosen": Field("i8", initial=NEVER),
        }

    def _block(self, window: Rows, values: NDArray[np.int64], there: NDArray[np.bool_]) -> None:
        first, chosen = window.slot - self.delay + 1, window.get("chosen")
        block = first // self.delay
        due = (chosen == NEVER) | (block >= np.where(chosen == NEVER, 0, chosen) + self.interval)
        due &= there.any(axis=0)
        some = np.flatnonzero(due)
        if len(some):
            scores = self._thresholds.scores(values[:, some], there[:, some])
            source = window.at_random(some, ONCE, *scores.T, slot=first)
            window.set("threshold", self.choice.choose(scores, source), some)
            window.set("chosen", block, some)
        threshold = np.broadcast_to(window.get("threshold"), there.shape)
        noisy, variance = np.zeros(there.shape), np.zeros(there.shape)
        for adder, mine in ((self.adder, due), (self.alone, ~due)):
            at, who = np.nonzero(there & (mine if self.alone is not None else True))
            if adder is None or not len(at):
                continue
            held = threshold[at, who]
            clamped = np.minimum(values[at, who], self._level[held])
            scaled = clamped * SCALE // self._reach[held]
            source = window.at_random(who, VALUE, scaled, held, slot=first + at)
            share = self._reach[held] / (SCALE * FIXED)
            found = adder.perturb(scaled, source) * share
            if self.calibration == "sound" and not self.smooth:
                found = np.clip(found, 0.0, self._level[held] / FIXED)
            noisy[at, who], variance[at, who] = found, adder.variance * share * share
        self._keep_block(window, noisy, variance, there)
