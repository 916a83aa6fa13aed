"""One delay method under test, and the streams that it is tried with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.checks.delay.outcomes import (
    WindowOutcomes,
    all_streams,
    digits_of,
    enumerate_windows,
)

__all__ = ["DelayTrial"]


@dataclass(frozen=True)
class DelayTrial:
    """One method under test: how a fresh one is made, and what is enumerated.

    Parameters
    ----------
    length : slots of the streams that are enumerated whole: with a delay below it they have
        borders of windows inside
    alphabet : their values, shares of the domain
    draws : the most answers of one stream; default: one for each two slots of a window, or one for
        each slot where buckets are told
    """

    make: Callable[[], Any]
    length: int = 5
    alphabet: Sequence[float] = (0.0, 0.5, 1.0)
    draws: int | None = None

    @cached_property
    def method(self) -> Any:
        """One to look at."""
        return self.make()

    @cached_property
    def outcomes(self) -> list[WindowOutcomes]:
        """All outcomes of all short streams, each slot with a value, and with a slot that has
        none; of chosen long ones some.
        """
        streams = all_streams(self.method, self.alphabet, self.length)
        digits = digits_of(self.method, self.length, self.draws)
        gap = np.arange(self.length) != 1
        silent = streams[(streams[:, 1] == streams[0, 1])]
        return [
            enumerate_windows(self.make(), streams, digits),
            enumerate_windows(self.make(), silent, digits, present=gap, script=1),
            *(
                enumerate_windows(self.make(), pair, answers, whole=False)
                for pair, answers in self.chosen()
            ),
        ]

    def chosen(self) -> list[tuple[NDArray[np.float64], NDArray[np.intp]]]:
        """Pairs of long neighbours, and answers that tell them apart where something is shared or
        forgotten: windows of equal values, in which every test says no and so tells how low a
        threshold is, and then one window whose first value differs and in which every test says
        yes, or every one no.
        """
        if getattr(self.method, "vector", None) is None:
            return []
        span, quiet = self.method.windows.span, 6
        lo, hi = self.method.domain
        pair = np.full((2, (quiet + 1) * span), lo)
        pair[1, quiet * span] = hi if self.method.contribution is None else (
            lo + self.method.contribution
        )  # fmt: skip
        # after each no the next value begins a group, which has no test
        before, last = quiet * span // 2, span - 1
        answers = np.zeros((2, before + last), np.intp)
        answers[0, before:] = 1
        return [(pair, answers)]

    def streams(self, count: int, slots: int) -> NDArray[np.float64]:
        """Values all over the domain, the same in every run."""
        lo, hi = self.method.domain
        return np.asarray(lo + (hi - lo) * np.random.default_rng(5).random((count, slots)))

    def presence(self, count: int, slots: int) -> NDArray[np.bool_]:
        """Gaps short and long, the same in every run."""
        rng = np.random.default_rng(6)
        there = rng.random((count, slots)) < 0.7
        for row in range(count):
            start = int(rng.integers(0, slots))
            there[row, start : start + 3 * self.method.delay] = False
        return there
