"""One method under test. What every check asks of a trial, and the trial of a method that reports
slot by slot: over its real mechanism and over tiny ones, all outcomes enumerated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER
from ldp_kafka.checks.enumeration import Outcomes, enumerate_outcomes
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.sources import KEY
from ldp_kafka.checks.tiny import narrow, wide
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import REFUSED, SENT, SILENT, Batch, Step
from ldp_kafka.randomness import keyed

__all__ = ["FIRST", "Drawn", "MethodTrial", "Trial", "taken"]

FIRST = 3  # in the middle of a batch of windows, where one noise is not for all of it


class Drawn(NamedTuple):
    """Draws of all outcomes that share the noise of one slot or part, and phase."""

    noise: tuple[int, ...]
    """What the draws' context has beside the user: each user draws once under it."""
    users: NDArray[np.int64]
    """(n, ...) the row of each draw; of windows the slot as well."""
    bound: NDArray[np.int64]
    """(n, ...) the integers in the draw's context."""
    inputs: NDArray[np.int64]
    """(n, ...) what was perturbed: two inputs are equal if these are."""

    @classmethod
    def together(cls, noise: Sequence[int], parts: Sequence[tuple[Any, ...]]) -> Drawn:
        """Of several calls: users, bounds and inputs of each."""
        users, bound, inputs = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(tuple(noise), users, bound, inputs)


class Trial(Protocol):
    """What checks ask of a method under test."""

    unfit: ClassVar[Mapping[str, str]]
    """Checks that are not for its kind, and why."""

    @property
    def small(self) -> Any:
        """The method whose outcomes are enumerated."""

    @property
    def window(self) -> int:
        """Slots in the privacy window."""

    @property
    def slots(self) -> int:
        """Enough for windows that have begun, gone on and ended."""

    @property
    def worst(self) -> float:
        """The largest loss over all outcomes and all neighbours, in nats."""

    @property
    def alike(self) -> float:
        """The share of equal releases under two keys must be below this number."""

    @property
    def reached(self) -> int:
        """The most draws that one window of changed values alters."""

    def drawn(self) -> Iterator[list[Drawn]]:
        """Of each enumeration, all draws."""

    def real(self) -> Any:
        """The method over its own mechanism; an attribute that is set reaches no later one."""

    def renamed(self) -> Iterator[tuple[str, Any]]:
        """Methods that differ from it in one thing that noise must be drawn within."""

    def first(self, method: Any, slot: int) -> int:
        """The first slot from this one on that keyed noise may begin with."""

    def streams(self, many: int, slots: int) -> NDArray[Any]:
        """Values all over the domain, the same in every run."""

    def presence(self, many: int, slots: int) -> NDArray[np.bool_]:
        """Which of them there are, the same in every run."""

    def stepped(
        self, method: Any, ids: Sequence[str], streams: NDArray[Any], there: NDArray[np.bool_]
    ) -> NDArray[Any]:
        """What steps publish, whose users come in another order in each."""

    def values(self, method: Any, many: int) -> NDArray[np.int64]:
        """The bound values of a step of ``many`` users."""

    def wrong_steps(self, method: Any) -> Iterator[tuple[Callable[[], Any], str, list[str]]]:
        """Calls that must be refused, why, and what must not be shown."""


@dataclass(frozen=True)
class MethodTrial:
    """One method under test."""

    make: Callable[[Any], Any]
    window: int
    length: int = 5
    alphabet: Sequence[Any] | None = None
    draws: int | None = None
    slots: ClassVar[int] = 12
    alike: ClassVar[float] = 1.0
    unfit: ClassVar[Mapping[str, str]] = {
        "parts_keep_their_shares": "one mechanism draws all",
        "moves_are_as_proved": "one mechanism draws all",
        "released_follows_from_draws": "what is published is what was drawn",
        "every_slot_is_released_once": "nothing is released but reports",
        "nothing_after_the_window_matters": "no report waits for a later slot",
        "no_stream_is_left_waiting": "no report waits for a later slot",
    }

    def real(self) -> Any:
        """One over the mechanism that its class names, with attributes of its own."""
        return copy(self._real)

    def another(self) -> Any:
        """A second method over the same mechanism, which shares no object with `real`."""
        return self._other

    @cached_property
    def _other(self) -> Any:
        return self.make(MECHANISMS[self.small.default_mechanism])

    @cached_property
    def _real(self) -> Any:
        return self.make(MECHANISMS[self.small.default_mechanism])

    @cached_property
    def small(self) -> Any:
        """One over the tiny mechanism."""
        return self.make(narrow)

    @cached_property
    def outcomes(self) -> list[Outcomes]:
        """One enumeration for each tiny mechanism and each remainder of the user's hash that may
        matter, and one of users of another hash who have no value in the second slot.
        """
        kinds = (narrow, wide) if self.small.kind == "numeric" else (narrow,)
        # no method of ours for numbers groups users by their hash
        hashes = range(self.window if self.small.kind == "categorical" else 1)
        every = [(kind, hashed, None) for kind in kinds for hashed in hashes]
        gap = np.arange(self.length) != 1
        return [
            enumerate_outcomes(
                self.make,
                self.length,
                mechanism=kind,
                alphabet=self.alphabet,
                draws=self.draws,
                hashed=hashed,
                present=present,
            )
            for kind, hashed, present in [*every, (narrow, 1, gap)]
        ]

    @cached_property
    def worst(self) -> float:
        return max(outcomes.loss(self.window) for outcomes in self.outcomes)

    @property
    def reached(self) -> int:
        return max(outcomes.reached(self.window) for outcomes in self.outcomes)

    def drawn(self) -> Iterator[list[Drawn]]:
        for outcomes in self.outcomes:
            parts: dict[tuple[int, int, int], list[tuple[Any, ...]]] = {}
            for each in outcomes.draws:
                exact = np.column_stack([np.asarray(each.inputs, np.float64)]).view(np.int64)
                called = each.rows[:, None], each.bound, exact
                parts.setdefault((each.slot, each.phase, each.bound.shape[1]), []).append(called)
            yield [Drawn.together(noise, each) for (*noise, _), each in parts.items()]

    def renamed(self) -> Iterator[tuple[str, Any]]:
        mechanism = MECHANISMS[self.small.default_mechanism]
        yield "another budget", self.make(lambda epsilon, what: mechanism(epsilon / 2, what))
        other = self.real()
        other.name = f"not {other.name}"
        yield "another method", other

    def first(self, method: Any, slot: int) -> int:
        del method
        return slot

    def streams(self, many: int, slots: int) -> NDArray[Any]:
        method = self.real()
        share = np.random.default_rng(5).random(
            (many, slots, *([method.dimension] if method.dimension else []))
        )
        if method.kind == "categorical":
            return np.asarray((share * method.categories).astype(np.int64))
        lo, hi = method.domain
        return np.asarray(lo + (hi - lo) * share)

    def presence(self, many: int, slots: int) -> NDArray[np.bool_]:
        return np.random.default_rng(6).random((many, slots)) < 0.7

    def stepped(
        self, method: Any, ids: Sequence[str], streams: NDArray[Any], there: NDArray[np.bool_]
    ) -> NDArray[Any]:
        source = keyed(KEY)
        state, first = method.state(source.digests(ids)), self.first(method, FIRST)
        nothing = method.published(Step(method.blank(0), np.empty(0, np.uint8)))
        shape = (*streams.shape[:2], *nothing.shape[1:])
        out = np.full(shape, np.nan if nothing.dtype.kind == "f" else -1, nothing.dtype)
        turns = method, self.another()  # in turn: all that goes on is in the state
        for t in range(streams.shape[1]):
            rows, present = taken(method, there[:, t])
            order = np.roll(np.arange(len(rows)), t)[:: 1 if t % 2 else -1]
            rows, present = rows[order], None if present is None else present[order]
            bound = method.bound(streams[rows, t])
            step = turns[t % 2].step(state, Batch(rows, first + t, bound, source, present))
            _is_report(method, step, first + t)
            out[rows, t] = method.published(step)
        return np.asarray(method.held(out) if method.holds else out)

    def values(self, method: Any, many: int) -> NDArray[np.int64]:
        return np.asarray(method.bound(self.streams(many, 1)[:, 0]))

    def wrong_steps(self, method: Any) -> Iterator[tuple[Callable[[], Any], str, list[str]]]:
        del method
        yield from ()


def taken(
    method: Any, there: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.bool_] | None]:
    """The users whom a slot's step takes, of those who have a value or not (n,), and `Batch`'s
    ``present`` of them: all users of a method with ``cover``.
    """
    return (np.arange(len(there)), there) if method.cover else (np.flatnonzero(there), None)


def _is_report(method: Any, step: Step, slot: int) -> None:
    """CheckFailure unless the edge could send it."""
    require(
        bool(np.isin(step.status, (SILENT, SENT, REFUSED)).all()),
        "a row must be SILENT, SENT or REFUSED",
    )
    require(
        bool(method.in_phase(np.array([slot]), step.phase).all()),
        "reports must be of a phase that there is in their slot",
    )
    slots = np.full((len(step.status), 1), slot) if step.slots is None else step.slots
    own = np.sort(slots[step.status == SENT], axis=1)
    late, again = own[own != NEVER], (own[:, 1:] == own[:, :-1]) & (own[:, 1:] != NEVER)
    require(
        bool(((late <= slot) & (late >= slot - method.delay)).all()) and not again.any(),
        "reports must be of the slot that is stepped, or of several within `delay` before it",
    )
    answers = np.asarray(step.answers[step.status == SENT]) / method.scale
    low, high = method.index_range
    require(
        bool(((answers == np.round(answers)) & (answers >= low) & (answers <= high)).all()),
        "reports must be whole multiples of scale, within index_range",
    )
