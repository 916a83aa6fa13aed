"""The contract of a streaming method: pure, and batch first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import (
    MICRO,
    NEVER,
    BudgetLedger,
    Field,
    Guarantee,
    Ledger,
    State,
    micro,
)
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    Estimate,
    Law,
    check_categories,
    check_codes,
    check_domain,
    check_epsilon,
)
from ldp_kafka.randomness import Randomness

__all__ = ["FIXED", "REFUSED", "SENT", "SILENT", "Method", "Step", "check_slots"]

FIXED = (
    2**32
    # one length of the domain in fixed point: what feeds keyed noise is an integer, the same on
    # every CPU
)
FARTHEST = (
    2.0**480
)  # from 0, of an end of the domain: squares of reports many times as wide are finite
SILENT, SENT, REFUSED = (
    0,
    1,
    2,
)  # what became of a row: did not have to report, reported, was refused by the ledger


class Step(NamedTuple):
    """What one slot gave: a row for each that was put in."""

    answers: NDArray[Any]
    """(n,) what the mechanism emitted, on its own scale, or (n, width) packed bits, or (n,
    dimension); 0 where nothing was sent.
    """
    status: NDArray[np.uint8]
    """(n,) SENT, SILENT or REFUSED."""
    slots: NDArray[np.int64] | None = None
    """None: reports are of the slot that was stepped. Else (n, k), and so are the answers: k
    reports a row that is SENT, each of a slot at most `Method.delay` back; NEVER where one is
    missing.
    """
    phase: int = 0
    """Of the reports: what tells those of one user and slot apart, such as the coordinate of a
    vector that they are of.
    """


class Method:
    """A streaming method: what a user's edge reports of its stream, slot by slot.

    Parameters
    ----------
    epsilon : float in (0, inf), nats: the budget of one window
    window : slots in the privacy window, at least 1
    domain : (lo, hi), public range of a value; values outside are clamped to it (numeric methods)
    categories : number of categories (category methods)
    calibration : ``sound`` spends so that the guarantee is true over the endless stream,
        ``published`` as the paper does
    mechanism : factory ``(epsilon, domain or categories) -> Mechanism``

    Notes
    -----
    A change inside one run of ``window`` slots reaches the reports of those slots and of ``memory``
    slots after them: ``influence`` reports in all. Given the reports before it, each of them loses
    at most the epsilon of its mechanism, so all of them together lose at most influence * epsilon'
    (adaptive composition): ``sound`` sets epsilon' = epsilon / influence, in whole micro-epsilon
    rounded down. Reports outside those do not depend on the change once the earlier reports are
    given.

    The same bound is kept by the edge's ledger for every run of ``window + memory`` slots, whoever
    asks for reports.
    """

    name: ClassVar[str]
    level: ClassVar[str] = "w-event"
    """``w-event``, or ``user``: a whole stream is hidden, and a ``horizon`` stands for the window.
    """
    kind: ClassVar[str] = "numeric"
    """``numeric`` (needs a domain) or ``categorical`` (needs categories)."""
    default_mechanism: ClassVar[str] = "square_wave"
    parameters: ClassVar[dict[str, str]] = {}
    """Parameters of its own, each with one line: what a topology may write beside the common ones.
    """
    statistics: ClassVar[tuple[str, ...]] = ("mean", "per_user")
    """What a topology may release of its reports."""
    streams: ClassVar[bool] = True
    """Whether a topology can run it: its reports fit the wire."""
    holds: ClassVar[bool] = False
    """Whether what was released last stands until the next report, the domain's midpoint before the
    first one: it does not report every slot.
    """
    shrinks: ClassVar[bool] = False
    """Whether a release per user is drawn to the crowd's mean as far as noise hides it
    (`ldp_kafka.methods.shrinkage`), unless a topology wants it as it was reported.
    """
    ball: ClassVar[bool] = False
    """Whether values are vectors of a ball, which has a diameter and no domain."""
    delay: int = 0
    """Slots that a report may come after its own."""
    lag: int = 0
    """Slots, public, that a report may be asked for after its own: how far back the ledger can be
    charged.
    """
    ledger: BudgetLedger
    """What is asked before anything is drawn."""

    def __init__(
        self,
        *,
        epsilon: float,
        window: int,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        categories: int | None = None,
        calibration: str = "sound",
    ) -> None:
        self.epsilon, self.window = check_epsilon(epsilon), check_slots(window, "window")
        self._shape(domain, categories, calibration)
        check_factory(mechanism, "mechanism")
        budget = micro(self.epsilon)
        if not budget < 2**31:
            raise ConfigurationError("epsilon must be less than 2**31 micro-epsilon: 2147 nats")
        if not self.run <= 2**16:
            raise ConfigurationError(
                "window, with the slots that its reports remember, must not be more than 65536"
                " slots: a smaller window or block"
            )
        self._prepare(mechanism, budget)
        self.ledger = Ledger(self.run, budget, self.lag)

    def _shape(
        self, domain: tuple[float, float] | None, categories: int | None, calibration: str
    ) -> None:
        """Take in what the values are and how the budget is spent."""
        if calibration not in ("sound", "published"):
            raise ConfigurationError("calibration must be 'sound' or 'published'")
        self.calibration = calibration
        if self.kind == "numeric":
            if domain is None or categories is not None:
                raise ConfigurationError(f"{self.name} needs a domain (lo, hi) and no categories")
            self.domain = check_domain(domain)
            if not max(map(abs, self.domain)) <= FARTHEST:
                raise ConfigurationError(
                    "domain must lie within 2**480 of 0: reports are wider, and their squares must"
                    " be finite"
                )
        else:
            if categories is None or domain is not None:
                raise ConfigurationError(f"{self.name} needs categories and no domain")
            self.categories = check_categories(categories)

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        """Make what perturbs; ``spend`` is what one report costs, in micro-epsilon."""
        self.spend = self._part(budget, self._shares())
        self.mechanism = mechanism(
            self.spend / MICRO, (0.0, 1.0) if self.kind == "numeric" else self.categories
        )

    @staticmethod
    def _part(budget: int, shares: int) -> int:
        """One of so many equal shares of a budget; ConfigurationError where it is nothing."""
        part = budget // shares
        if not part > 0:
            raise ConfigurationError(
                "epsilon must be large enough for one micro-epsilon a report in this window"
            )
        return part

    @property
    def memory(self) -> float:
        """Slots after a value's own in which reports still depend on it; ``inf`` if there is no
        bound.
        """
        return 0

    @property
    def influence(self) -> float:
        """Reports that one run of ``window`` changed values can reach."""
        return self.window + self.memory

    @property
    def single(self) -> Method:
        """A method that makes in every slot what this one makes of one report: what a release per
        user is read by.
        """
        return self

    @property
    def dimension(self) -> int:
        """Coordinates of a value; 0 where values are single numbers or categories."""
        return 0

    def in_phase(self, slots: NDArray[np.int64], phase: int) -> NDArray[np.bool_]:
        """In which of these slots (n,) there can be reports of a phase; see `Step`."""
        return np.full(len(slots), phase == 0)

    @property
    def cost(self) -> int:
        """What a slot with a report costs, in micro-epsilon."""
        return self.spend

    @property
    def price(self) -> float:
        """What the first report of a user costs, in nats."""
        return self.spend / MICRO

    @property
    def run(self) -> int:
        """Consecutive slots in which the ledger lets a user spend the budget once: those in which
        reports can be that one window of changed values reaches; the window, as published.
        """
        return self.window if self.calibration == "published" else self.window + int(self.memory)

    def _shares(self) -> int:
        """Into how many reports the budget is divided."""
        return self.window if self.calibration == "published" else int(self.influence)

    @property
    def guarantee(self) -> Guarantee:
        """What truly holds; for ``published`` that is what its spending loses, not what its paper
        says.
        """
        true = self.epsilon if self.calibration == "sound" else self.spend * self.influence / MICRO
        return Guarantee(
            "w-event", true, 0.0, self.window, self.influence, "values", self.calibration
        )

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of its state: ``last``, the slot of the user's last event; the ledger's; and,
        in a method with memory, its own.
        """
        return {"last": Field("i8", initial=NEVER), **self.ledger.fields}

    def state(self, users: NDArray[np.uint64] | None = None) -> State:
        """A fresh state, empty or with one row a user digest."""
        return State(self.fields, users)

    def outside(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of these numbers (n,) or vectors (n, dimension) `bound` clamps."""
        lo, hi = self.domain
        found: NDArray[np.bool_] = (values < lo) | (values > hi)
        return np.asarray(found.any(axis=1)) if self.dimension else found

    def bound(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Values (n,) as the integers that the method works on: clamped, in units of 2**-32 of the
        domain; or category numbers. ValueError where not finite, or no category.
        """
        if self.kind == "categorical":
            return check_codes(values, self.categories)
        values = np.asarray(values, np.float64)
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        lo, hi = self.domain
        scaled = np.clip(values, lo, hi)
        scaled -= lo
        scaled *= FIXED / (hi - lo)
        bound: NDArray[np.int64] = np.minimum(scaled, FIXED, out=scaled).astype(np.int64)
        return bound

    @property
    def scale(self) -> float:
        """Every report is a whole multiple of it."""
        return float(self.mechanism.scale)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of ``scale``."""
        low, high = self.mechanism.index_range
        return int(low), int(high)

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        """Additive integer sums of reports of one phase, their number first: the mechanism's, or
        the number alone where no statistic of a crowd is made of them.
        """
        del phase
        if "per_user" in self.statistics and len(self.statistics) == 1:
            return np.array([len(reports)], np.int64)
        found: NDArray[np.int64] = self.mechanism.support(reports)
        return found

    def blank(self, n: int) -> NDArray[Any]:
        """Answers of ``n`` rows before anything is sent: zeros, as a `Step` has them, in units of
        the mechanism's scale.
        """
        width = getattr(self.mechanism, "width", 0)
        return np.zeros((n, width), np.uint8) if width else np.zeros(n, np.int64)

    def step(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Step:
        """Reports of distinct users ``rows`` (n,) at ``slot``, later than any slot they had, for
        their `bound` values (n,). Updates their rows in place.

        Raises
        ------
        ValueError : the slot is not later than the last one of each user; nothing was drawn, and
            nothing is changed for anyone
        """
        last = state.columns["last"]
        if not (last.take(rows) < slot).all():
            raise ValueError("a user's slots must increase")
        step = self._step(state, rows, slot, values, randomness)
        last[rows] = slot
        return step

    def _step(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Step:
        """`step`, of a slot that is later; ``last`` still is the one before it."""
        raise NotImplementedError

    def released(self, answers: NDArray[Any]) -> NDArray[Any]:
        """What is published of the mechanism's answers, on the scale of the values: a public map,
        the same for every user and slot.
        """
        lo, hi = self.domain
        return np.asarray(lo + answers * (hi - lo))

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        """The mean of the values behind reports (or their frequencies), from the mechanism's
        additive support.
        """
        estimate: Estimate = self.mechanism.estimate_support(support)
        if self.kind == "categorical":
            return estimate
        lo, hi = self.domain
        return Estimate(
            lo + estimate.value * (hi - lo), estimate.standard_error * (hi - lo), estimate.reports
        )

    @cached_property
    def single_error(self) -> float:
        """Root mean square error of one released value, on the domain's scale, at the
        worst input.
        """
        unit = self._unit_laws()
        lo, hi = self.domain
        worst: float = max(
            (variance + (mean - x) ** 2) ** 0.5
            for x, (mean, variance) in zip((0.0, 0.5, 1.0), unit, strict=True)
        )
        return (hi - lo) * worst

    @cached_property
    def reliability(self) -> float:
        """Share of one released value that is signal: the variance that values spread evenly over
        the domain would give it, over its whole variance (0..1); from the law alone.
        """
        (low, v0), (_, v1), (high, v2) = self._unit_laws()
        signal = (high - low) ** 2 / 12
        return signal / (signal + (v0 + 4 * v1 + v2) / 6)

    def _unit_laws(self) -> list[tuple[float, float]]:
        """Mean and variance of a release at the ends and the middle of the domain, in lengths of
        it, with no feedback.
        """
        return self._moments(self.mechanism)

    def _moments(self, mechanism: Any) -> list[tuple[float, float]]:
        """The same of any mechanism on the unit domain."""
        lo, hi = self.domain

        def unit(answers: NDArray[np.float64]) -> NDArray[Any]:
            return np.asarray((self.released(answers) - lo) / (hi - lo))

        return [Law.of(mechanism.law(x)).dot_moments(unit) for x in (0.0, 0.5, 1.0)]

    def _bounds(self) -> list[int]:
        """What its ledger bounds, as integers: the lag where there is one."""
        return [self.run, self.ledger.budget, *([self.lag] if self.lag else [])]

    def tables(self) -> list[int]:
        """The integers that fix its noise: part of a topology's fingerprint."""
        return [
            self.spend,
            self.window,
            *self._bounds(),
            *self.mechanism.tables(),
        ]

    def release(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        *,
        users: Sequence[str] | None = None,
        first_slot: int = 0,
    ) -> NDArray[Any]:
        """What would be published of whole streams: `step` in a loop over slots.

        Parameters
        ----------
        streams : (T,) or (users, T), one value a slot; (T, dimension) or (users, T, dimension) of
            vectors
        users : ids, the contexts of keyed noise; default: row numbers
        first_slot : slot number of the first column, at least 0

        Returns
        -------
        The same shape; NaN (or -1 for categories) where nothing was reported. Where the mechanism
        reports bits, one more axis holds them, one a category.

        Raises
        ------
        ValueError : a value is not finite, or no category (the value is not shown); vectors of
            another dimension
        """
        streams = np.asarray(streams)
        if self.dimension and (streams.ndim not in (2, 3) or streams.shape[-1] != self.dimension):
            raise ValueError("streams must be (T, dimension) or (users, T, dimension)")
        table = streams[None] if self.dimension and streams.ndim == 2 else np.atleast_2d(streams)
        bound = self.bound(
            table.reshape((table.shape[0] * table.shape[1], *table.shape[2:]))
        ).reshape(table.shape)
        ids = [str(i) for i in range(len(table))] if users is None else list(users)
        if len(ids) != len(table) or len(set(ids)) != len(ids):
            raise ValueError("users must be distinct ids, one a row of streams")
        rows = np.arange(len(table))
        state = self.state(randomness.digests(ids))
        slots = np.ascontiguousarray(
            bound.swapaxes(0, 1)
        )  # one slot's values beside each other: every step reads them several times
        steps = [
            self.step(state, rows, first_slot + t, values, randomness)
            for t, values in enumerate(slots)
        ]
        if any(step.slots is not None for step in steps):
            whole = self._spread(steps, first_slot, table.shape)
        else:
            out = [self.published(step) for step in steps]
            whole = (
                np.stack(out, axis=1)
                if out
                else self.published(Step(self.blank(0), np.empty(0, np.uint8)))
            )
        if self.holds:
            whole = self.held(whole)
        return whole.reshape(streams.shape if self.dimension else streams.shape + whole.shape[2:])

    def _spread(
        self, steps: Sequence[Step], first_slot: int, shape: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Releases (users, T) of steps whose reports tell their own slots; of two for one slot the
        later stands.
        """
        whole = np.full(shape, np.nan)
        for at, step in enumerate(steps):
            slots = (
                np.full((len(step.status), 1), first_slot + at)
                if step.slots is None
                else step.slots
            )
            answers = np.asarray(step.answers).reshape(slots.shape)
            for k in range(slots.shape[1]):
                sent = (step.status == SENT) & (slots[:, k] >= first_slot)
                whole[sent, slots[sent, k] - first_slot] = self.released(answers[sent, k])
        return whole

    def held(self, released: NDArray[np.float64]) -> NDArray[np.float64]:
        """Releases (users, T) or (users, T, dimension) with NaN where none is: the last one stands,
        at first the domain's midpoint, which is public.
        """
        latest = np.where(
            np.isnan(released),
            -1,
            np.arange(released.shape[1]).reshape((-1, *(1,) * (released.ndim - 2))),
        )
        np.maximum.accumulate(latest, axis=1, out=latest)
        held = np.take_along_axis(released, np.maximum(latest, 0), axis=1)
        lo, hi = self.domain
        return np.where(latest < 0, lo + (hi - lo) / 2, held)

    def published(self, step: Step) -> NDArray[Any]:
        """What one slot's reports say, a row each: NaN or -1 where there is none."""
        answers, status = step.answers, step.status
        if self.kind == "numeric":
            return np.where(status == SENT, self.released(answers), np.nan)
        if answers.ndim == 2:
            bits = np.unpackbits(answers, axis=1, count=self.categories).view(np.int8)
            return np.where((status == SENT)[:, None], bits, np.int8(-1))
        return np.where(status == SENT, answers, -1)

    def _draw(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        inputs: NDArray[Any],
        bound: Sequence[NDArray[np.int64]],
        randomness: Randomness,
        phase: int = 0,
        *,
        mechanism: Any = None,
    ) -> NDArray[Any]:
        """One draw a row of the mechanism, or of another one that the method has, its noise tied to
        the user, the slot, the phase and the integers in ``bound``.
        """
        pairs = np.empty((len(rows), len(bound)), np.int64)
        for i, column in enumerate(bound):
            pairs[:, i] = column
        answers: NDArray[Any] = (self.mechanism if mechanism is None else mechanism).perturb(
            inputs, randomness.at(state.digests(rows), slot, phase, pairs)
        )
        return answers


def check_factory(value: Any, name: str) -> None:
    """TypeError unless ``value`` can make a mechanism."""
    if not callable(value):
        raise TypeError(f"{name} must be a factory (epsilon, domain or categories) -> Mechanism")


def check_slots(value: Any, name: str) -> int:
    """``value`` as a whole number of slots, 1..65536; TypeError or ConfigurationError otherwise."""
    if isinstance(value, bool | np.bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number of slots")
    if not 1 <= value <= 2**16:
        raise ConfigurationError(f"{name} must lie between 1 and 65536 slots")
    return int(value)
