"""One delay method under test, and the streams that it is tried with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.checks.delay.outcomes import (
    WindowOutcomes,
    all_streams,
    digits_of,
    enumerate_windows,
)
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.method.trial import FIRST, Drawn
from ldp_kafka.checks.sources import KEY, LOUD
from ldp_kafka.methods import SENT, SILENT, Batch
from ldp_kafka.randomness import keyed, seeded

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
    alike: ClassVar[float] = 0.5  # a group's or a bucket's end can be hit twice
    unfit: ClassVar[Mapping[str, str]] = {
        "ledger_holds": "each value is charged once, with its window: nothing is summed",
        "own_reports_are_allowed": "each value is charged once, with its window",
    }

    @cached_property
    def small(self) -> Any:
        """One to look at."""
        return self.make()

    @property
    def window(self) -> int:
        return int(self.small.window)

    @property
    def slots(self) -> int:
        return 6 * int(self.small.delay) + 5

    def real(self) -> Any:
        return self.make()

    @property
    def worst(self) -> float:
        return max(outcomes.loss() for outcomes in self.outcomes)

    @property
    def reached(self) -> int:
        return max(outcomes.reached() for outcomes in self.outcomes)

    def drawn(self) -> Iterator[list[Drawn]]:
        for outcomes in self.outcomes:
            parts: dict[tuple[str, int, int], list[tuple[Any, ...]]] = {}
            for each in outcomes.asked:
                given = np.column_stack([each.inputs])
                users = np.column_stack([each.rows, each.slots])
                called = users, np.column_stack([each.slots, each.bound]), given
                parts.setdefault((each.part, each.phase, given.shape[1]), []).append(called)
            yield [Drawn.together((phase,), each) for (_, phase, _), each in parts.items()]

    def renamed(self) -> Iterator[tuple[str, Any]]:
        richer, other = self.make(), self.make()
        richer.epsilon = 2 * richer.epsilon
        yield "another budget", richer
        other.name = f"not {other.name}"
        yield "another method", other

    def first(self, method: Any, slot: int) -> int:
        return next(at for at in count(slot) if method.opens(at) == at)

    @cached_property
    def outcomes(self) -> list[WindowOutcomes]:
        """All outcomes of all short streams, each slot with a value, and with a slot that has
        none; of chosen long ones some.
        """
        streams = all_streams(self.small, self.alphabet, self.length)
        digits = digits_of(self.small, self.length, self.draws)
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
        if getattr(self.small, "vector", None) is None or self.small.limit is not None:
            return []
        span, quiet = self.small.windows.span, 6
        lo, hi = self.small.domain
        pair = np.full((2, (quiet + 1) * span), lo)
        pair[1, quiet * span] = hi if self.small.contribution is None else (
            lo + self.small.contribution
        )  # fmt: skip
        # after each no the next value begins a group, which has no test unless it is published
        sound = self.small.calibration == "sound"
        before, last = quiet * span // (1 + sound), span - sound
        answers = np.zeros((2, before + last), np.intp)
        answers[0, before:] = 1
        return [(pair, answers)]

    def streams(self, many: int, slots: int) -> NDArray[np.float64]:
        lo, hi = self.small.domain
        return np.asarray(lo + (hi - lo) * np.random.default_rng(5).random((many, slots)))

    def presence(self, many: int, slots: int) -> NDArray[np.bool_]:
        rng = np.random.default_rng(6)
        there = rng.random((many, slots)) < 0.7
        for row in range(many):
            start = int(rng.integers(0, slots))
            there[row, start : start + 3 * self.small.delay] = False
        return there

    def stepped(
        self, method: Any, ids: Sequence[str], streams: NDArray[Any], there: NDArray[np.bool_]
    ) -> NDArray[Any]:
        """In a state of more streams, which are left out where nothing of them waits; each step
        reports what it releases.
        """
        (many, slots), windows, source = streams.shape, method.windows, keyed(KEY)
        bound, hop, first = method.bound(streams), windows.hop, self.first(method, FIRST)
        other = self.real()
        state, twin = (method.state(source.digests(["another", *ids])) for _ in range(2))
        stepped = np.full(streams.shape, np.nan)
        starts = range(first - first % hop, first + slots + windows.behind + hop, hop)
        for turn, slot in enumerate(starts):
            places = np.arange(slot - first, slot - first + hop)
            inside = (places >= 0) & (places < slots)
            values, present = np.zeros((hop, many), np.int64), np.zeros((hop, many), np.bool_)
            values[inside], present[inside] = bound.T[places[inside]], there.T[places[inside]]
            needed = present.any(0) | method.waiting(state, np.arange(1, many + 1))
            order = np.roll(np.flatnonzero(needed), turn)[:: 1 if turn % 2 else -1]
            batch = Batch(order + 1, slot, values[:, order], source, present[:, order])
            # another one in every second step: all that goes on is in the state
            one = other if turn % 2 else method
            closed, step = one.close(state, batch), one.step(twin, batch)
            known = ~np.isnan(closed.values.T)
            told = np.where(known, closed.values.T, method.domain[0])
            sent = (
                method.index(told) * method.scale,
                np.where(known.any(1), SENT, SILENT),
                np.where(known, closed.first + np.arange(hop), NEVER),
            )
            require(
                all(map(np.array_equal, (step.answers, step.status, step.slots), sent)),
                "a step must report what it releases, each of its slot",
            )
            require(
                closed.first == slot - windows.behind, "a step must say which slots it releases"
            )
            at = closed.first - first + np.arange(hop)
            inner = (at >= 0) & (at < slots)
            stepped[np.ix_(order, at[inner])] = closed.values[inner].T
        return stepped

    def values(self, method: Any, many: int) -> NDArray[np.int64]:
        return np.asarray(method.bound(self.streams(method.windows.hop, many)))

    def wrong_steps(self, method: Any) -> Iterator[tuple[Callable[[], Any], str, list[str]]]:
        """What `bound` never gives, and values of another shape."""
        state, hop = method.state(seeded(1).digests(["a"])), method.windows.hop

        def step(values: NDArray[np.int64]) -> Callable[[], Any]:
            return partial(method.step, state, Batch(np.arange(1), 0, values, seeded(1)))

        for wrong in (-LOUD, 2**32 + LOUD):
            yield (
                step(np.full((hop, 1), wrong)),
                "a number that is not bound to the domain",
                [str(wrong)],
            )
        for shape in ((hop + 1, 1), (hop,)):
            yield step(np.zeros(shape, np.int64)), "values of another shape", []
