"""The paper's truncation: a threshold that most values of a batch do not exceed."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_whole, exp_below
from ldp_kafka.mechanisms.exponential import MOST_CANDIDATES, ExponentialMechanism
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.delay.rows import ALL, Rows, Some, among
from ldp_kafka.methods.values import FIXED

__all__ = [
    "INTERVAL",
    "SHARE",
    "THRESHOLDS",
    "Thresholds",
    "Truncation",
    "clipped_error",
    "truncation_of",
]

THRESHOLDS, INTERVAL = 32, 5
SHARE = 5  # one part in so many of a window's budget chooses, where it chooses
CHOOSE = 2**16 - 1  # the phase of its draw: methods have the lower ones
SCALE = 2**30  # steps of a stretched value
SAMPLE = "sample"
KEYS = {"interval", "thresholds", SAMPLE}


def clipped_error(scale: float) -> float:
    """The mean absolute error of a value that is spread evenly over 0..1 and has Laplace noise of
    this scale, clipped to 0..1: b - b^2 (1 - e^(-1 / b)), by integrating twice. The same on every
    CPU.

    Examples
    --------
    >>> [round(clipped_error(scale), 3) for scale in (0.01, 1.0, 100.0)]
    [0.01, 0.368, 0.498]
    """
    if scale > 1e4:  # the exponential is rounded to 2**-64, which its square would lift
        return 0.5
    b = Fraction(scale)
    return float(b - b * b * (1 - 1 / exp_below(min(1 / scale, 50.0))))


def truncation_of(given: Any) -> dict[str, int] | None:
    """What ``truncation`` asks for, with its defaults; None where nothing is truncated.

    Raises
    ------
    TypeError, ConfigurationError : it is neither true, false nor ``{interval:, thresholds:,
        sample:}``

    Examples
    --------
    >>> truncation_of({"interval": 3}), truncation_of(False)
    ({'interval': 3, 'thresholds': 32}, None)
    """
    if isinstance(given, bool | np.bool):
        given = {"interval": INTERVAL, "thresholds": THRESHOLDS} if given else None
    if given is None:
        return None
    if not (isinstance(given, Mapping) and given and {*given} <= KEYS):
        raise ConfigurationError(
            "truncation must be true or false, or {interval:, thresholds:, sample:}"
        )
    interval, count = given.get("interval", INTERVAL), given.get("thresholds", THRESHOLDS)
    found = {
        "interval": check_slots(interval, "the interval of truncation"),
        "thresholds": check_whole(count, "the thresholds of truncation", 2, MOST_CANDIDATES),
    }
    if SAMPLE in given:
        found[SAMPLE] = check_whole(given[SAMPLE], "the sample of truncation, in per cent,", 1, 99)
    return found


class Thresholds:
    """Thresholds, evenly spaced from the domain's lower end to its upper one, and how well each of
    them does for some values (equation 3).

    Parameters
    ----------
    count : of thresholds
    reach : how far a changed value moves, in units of 2**-32 of the domain
    values, chosen : nats for the noise of a value, and for a choice
    published : score as the paper does, by the root of the variance of noise that is not clipped,
        per value

    Notes
    -----
    The score of a threshold tau is minus the error to expect of m values: m times that of noise for
    tau (`clipped_error`), and the sum of all that tau cuts off. Where one value grows, what tau
    cuts off of it grows by 0 to ``reach``, for every tau: no score moves by more than ``reach``,
    and all move the same way (monotone `ExponentialMechanism`: divided by m times the domain, as
    the paper has them, scores have sensitivity 1 / m, and not 1).
    """

    def __init__(
        self, count: int, reach: int, values: float, chosen: float, *, published: bool
    ) -> None:
        self._published = published
        self.levels = np.array([-(-FIXED * (k + 1) // count) for k in range(count)])
        self.reach = np.minimum(self.levels, reach)
        self.cost = np.array(
            [
                round(FIXED * self._error_of(level / FIXED, reached / FIXED / values))
                for level, reached in zip(self.levels.tolist(), self.reach.tolist(), strict=True)
            ]
        )
        self.choice = ExponentialMechanism(chosen, reach, count, monotone=True)

    def _error_of(self, level: float, scale: float) -> float:
        """What noise of this scale is expected to err by, for values that go up to a level, in
        lengths of the domain.
        """
        return sqrt(2) * scale if self._published else level * clipped_error(scale / level)

    def scores(self, values: NDArray[np.int64], there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Scores (n, thresholds) of values (slots, n), 0 where there is none, in units of 2**-32 of
        the domain.
        """
        present = there.sum(axis=0)
        scores = np.empty((values.shape[1], len(self.levels)), np.int64)
        for k, level in enumerate(self.levels.tolist()):
            cut = np.maximum(values - level, 0).sum(axis=0)
            scores[:, k] = -(cut + present * self.cost[k])
        return scores // present[:, None] if self._published else scores

    def tables(self) -> list[int]:
        """The integers that fix it."""
        return [*self.levels.tolist(), *self.cost.tolist()]


class Truncation:
    """Values above a threshold are clamped to it, and a method works on the shorter domain below.

    Parameters
    ----------
    budget : micro-epsilon of a slot's value
    chosen : that of a choice
    delay : slots of a batch
    interval : batches from one choice to the next
    thresholds : how many there are to choose from
    averaged : how many values share the noise of a sum, at most: the error of noise counts as that
        of their mean
    sample : per cent of the values of groups, of a batch that chooses, which alone choose; 0: all
        of its values do

    Notes
    -----
    §VI of the paper, for any method in batches. The batches of number divisible by ``interval``
    choose: by their values a threshold is chosen for the batches after them, up to the next that
    chooses. Until the first choice the threshold is the domain's end.

    With a ``sample`` of p per cent (the section's *Data Sampling*), of the first n values of a
    batch that joined a group of others n p / 100 are sampled, rounded up, for every n: with 20 per
    cent each fifth one. The sampled values alone choose, and the others alone are summed or
    perturbed; the first of a group is always among the others. The paper samples each group by
    itself and does not say which values; most groups are too short for that. A batch without a
    sampled value leaves the threshold as it is.

    Guarantee. Which batches choose is public. Let one value x move anywhere. Given the threshold of
    its batch, which is a function of choices of earlier batches, x is clamped and stretched to the
    whole domain of the method: one value of the method's stream, which loses what the method
    proves, and no other value of it moves. In a batch that chooses, the method has all but one part
    in five of epsilon, e_s, and x is in the scores of that one choice, which loses e_s
    (`Thresholds`). All else depends on x through that choice alone. So x loses at most epsilon over
    the endless stream (adaptive composition). With a public ``contribution`` a clamped and
    stretched value could move farther than the method was made for: the two are refused together.

    Guarantee with a sample. The method has all of epsilon: e_g for tests and buckets, which see x
    whether it is sampled or not, and e_p for noise; the choice has e_p. Let what was answered so
    far be given. That says whether x joins a group, and how many did before, and so whether x is
    sampled, the same for both of two neighbours: no value and no draw decides it. If it is, x is in
    the scores of the one choice, which loses e_p, and in no noisy sum; if it is not, it is in one
    noisy sum or value, which loses e_p, and in no score. So x loses at most e_g + e_p = epsilon.
    Nothing is amplified, as who is sampled is public: the sample saves what the choice would cost
    the other values, and no more.
    """

    def __init__(
        self,
        budget: int,
        chosen: int,
        delay: int,
        interval: int,
        thresholds: int,
        averaged: int,
        sample: int,
        *,
        published: bool,
    ) -> None:
        self.interval, self.part, self.sample, self._delay = interval, chosen, sample, delay
        if not self.part > 0:
            raise ConfigurationError("epsilon must be large enough for one micro-epsilon a choice")
        self.thresholds = Thresholds(
            *(thresholds, FIXED, averaged * budget / MICRO, self.part / MICRO), published=published
        )
        self.choice = self.thresholds.choice
        self.fields = {
            "limit": Field("i8", initial=thresholds - 1),
            **({"sampled": Field("?", delay), "joined": Field("i8")} if sample else {}),
        }

    def chooses(self, batch: int) -> bool:
        """Whether this batch chooses the threshold of those after it."""
        return batch % self.interval == 0

    def levels(self, window: Rows) -> NDArray[np.int64]:
        """The threshold (n,) of each stream, in units of 2**-32 of the domain."""
        return np.asarray(self.thresholds.levels[window.get("limit")])

    def stretched(self, values: NDArray[np.int64], levels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values (slots, n) clamped to these thresholds, as values of the whole domain."""
        return np.asarray(np.minimum(values, levels) * SCALE // levels * (FIXED // SCALE))

    def samples(self, slot: int) -> bool:
        """Whether a sample of the groups of this slot's batch chooses."""
        return self.sample > 0 and self.chooses(slot // self._delay)

    def unsampled(self, window: Rows, joins: NDArray[np.bool_], some: Some) -> tuple[Some, Some]:
        """Which of the slot's values (m,) are not sampled: places among them, and in the step.
        ``joins``: whether a value is in a group with earlier ones.
        """
        if not self.samples(window.slot):
            return ALL, some
        before = window.get("joined")[some]
        joined = before + joins
        window.set("joined", joined, some)
        sampled = -joined * self.sample // 100 < -before * self.sample // 100
        window.put("sampled", window.place, sampled, some)
        rest = np.flatnonzero(~sampled)
        return rest, among(window.count, some, rest)

    def choose(
        self, window: Rows, first: int, values: NDArray[np.int64], there: NDArray[np.bool_]
    ) -> None:
        """Choose by the values (slots, n) of the batch that begins with ``first``, or by those that
        were sampled.
        """
        if self.sample:
            there = there & window.ring("sampled")
            values = values * there
            window.set("joined", 0)
        some = np.flatnonzero(there.any(axis=0))
        if len(some):
            scores = self.thresholds.scores(values[:, some], there[:, some])
            source = window.at_random(some, CHOOSE, *scores.T, slot=first)
            window.set("limit", self.choice.choose(scores, source), some)

    def tables(self) -> list[int]:
        """The integers that fix it."""
        chosen = [self.interval, self.part, *([self.sample] if self.sample else [])]
        return [*chosen, *self.thresholds.tables(), *self.choice.tables()]
