"""What methods of a user's edge share: a step for each slot, and a budget for each window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, BudgetLedger, Field, Ledger, State, micro
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import as_array, check_epsilon, check_told_apart, kind_of, strangers
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import Method, check_slots
from ldp_kafka.methods.made import checked_factory
from ldp_kafka.methods.step import REFUSED, SENT, SILENT, Step
from ldp_kafka.methods.values import FIXED, VALUES
from ldp_kafka.randomness import use_of

__all__ = [
    "FIXED",
    "REFUSED",
    "SENT",
    "SILENT",
    "SlotMethod",
    "Step",
    "check_slots",
    "part_of",
    "whole_budget",
]


class SlotMethod(Method):
    """A method that a user's edge runs: it reports slot by slot, within a budget for each window.

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
        make = checked_factory(mechanism, "mechanism")
        budget = whole_budget(self.epsilon)
        if not self.run <= 2**16:
            raise ConfigurationError(
                "window, with the slots that its reports remember, must not be more than 65536"
                " slots: a smaller window or block"
            )
        self._prepare(make, budget)
        self.ledger = Ledger(self.run, budget, self.lag)

    def _shape(
        self, domain: tuple[float, float] | None, categories: int | None, calibration: str
    ) -> None:
        """Take in what the values are and how the budget is spent."""
        if calibration not in ("sound", "published"):
            raise ConfigurationError("calibration must be 'sound' or 'published'")
        self.calibration = calibration
        self.values = VALUES[self.kind](self.name, domain, categories)

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        """Make what perturbs; ``spend`` is what one report costs, in micro-epsilon."""
        self.spend = part_of(budget, self._shares())
        self.mechanism = mechanism(self.spend / MICRO, self.values.unit)

    @property
    def run(self) -> int:
        """``window + memory``; ``published``: the window alone."""
        return self.window if self.calibration == "published" else self.window + int(self.memory)

    @property
    def shares(self) -> int:
        """Into how many reports the budget is divided."""
        return self._shares()

    def _shares(self) -> int:
        """Into how many reports the budget is divided."""
        return self.window if self.calibration == "published" else int(self.influence)

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of its state: ``last``, the slot of the user's last event; the ledger's; and,
        in a method with memory, its own.
        """
        return {"last": Field("i8", initial=NEVER), **self.ledger.fields}

    def step(self, state: State, batch: Batch) -> Step:
        rows, slot, values, randomness, present = batch
        if present is not None and not present.all():
            at = np.flatnonzero(present)
            return self.step(state, batch.part(at)).among(len(rows), at)
        values = as_array(values, "iu", "values must be those that `bound` gave")
        last = state.columns["last"]
        if not (last[rows] < slot).all():
            raise ValueError("a user's slots must increase")
        for part in self._parts:
            check_told_apart(part, randomness)
        step = self.report(state, Batch(rows, slot, values, randomness.within(self.use)))
        last[rows] = slot
        return step

    def report(self, state: State, batch: Batch) -> Step:
        """`step`, of a slot that is later; ``last`` still is the one before it."""
        raise NotImplementedError

    def _bounds(self) -> list[int]:
        """What its ledger bounds, as integers: the lag where there is one."""
        return [self.run, self.ledger.budget, *([self.lag] if self.lag else [])]

    def tables(self) -> list[int]:
        return [self.spend, self.window, *self._bounds(), *self.mechanism.tables()]

    @cached_property
    def _parts(self) -> list[Any]:
        """The mechanisms that a factory made for it, which may be somebody else's."""
        return [self.mechanism, *([self.scout] if hasattr(self, "scout") else [])]

    @cached_property
    def use(self) -> bytes:
        """What its noise is drawn within: name, parameters, budget, what values may be, and the
        integers that it samples with; and which classes are not of this package. Two methods, or
        one with two budgets, draw independent words under one key.
        """
        theirs = strangers(self, *self._parts)
        return use_of(
            "method",
            self.name,
            [[name, value] for name, value in self.resolved.items()],
            [self.epsilon, self.window, self.calibration],
            [getattr(self, name, None) for name in ("domain", "categories", "dimension")],
            # one that is tried on arrays needs no more than epsilon, perturb and law
            [int(number) for number in self.tables()]
            if all(hasattr(part, "tables") for part in self._parts)
            else [[kind_of(part), float(part.epsilon)] for part in self._parts],
            *([theirs] if theirs else []),
        )

    def draw(
        self,
        state: State,
        batch: Batch,
        inputs: NDArray[Any],
        bound: Sequence[NDArray[np.int64]],
        phase: int = 0,
        *,
        mechanism: Any = None,
    ) -> NDArray[Any]:
        """One draw a user of the mechanism, or of another one that the method has, for ``inputs``
        (n,): its noise is tied to the user, the slot, the phase and the integers in ``bound``.
        """
        pairs = np.empty((len(batch.rows), len(bound)), np.int64)
        for i, column in enumerate(bound):
            pairs[:, i] = column
        answers: NDArray[Any] = (self.mechanism if mechanism is None else mechanism).perturb(
            inputs, batch.randomness.at(state.digests(batch.rows), batch.slot, phase, pairs)
        )
        return answers


def whole_budget(epsilon: float) -> int:
    """In micro-epsilon; ConfigurationError where a ledger does not hold so much."""
    budget = micro(epsilon)
    if not budget < 2**31:
        raise ConfigurationError("epsilon must be less than 2**31 micro-epsilon: 2147 nats")
    return budget


def part_of(budget: int, shares: int) -> int:
    """One of equal shares of a budget; ConfigurationError where it is nothing."""
    part = budget // shares
    if not part > 0:
        raise ConfigurationError(
            "epsilon must be large enough for one micro-epsilon a report in this window"
        )
    return part
