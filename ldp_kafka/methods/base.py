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
from ldp_kafka.methods.contexts import carried_on, contexts_of
from ldp_kafka.methods.contract import Method, check_slots
from ldp_kafka.methods.made import checked_factory
from ldp_kafka.methods.step import REFUSED, SENT, SILENT, Step
from ldp_kafka.methods.values import FIXED, VALUES
from ldp_kafka.randomness import Randomness, use_of

__all__ = ["FIXED", "REFUSED", "SENT", "SILENT", "SlotMethod", "Step", "check_slots"]


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
        budget = micro(self.epsilon)
        if not budget < 2**31:
            raise ConfigurationError("epsilon must be less than 2**31 micro-epsilon: 2147 nats")
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
        self.spend = self._part(budget, self._shares())
        self.mechanism = mechanism(self.spend / MICRO, self.values.unit)

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
    def run(self) -> int:
        """``window + memory``; ``published``: the window alone."""
        return self.window if self.calibration == "published" else self.window + int(self.memory)

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
        rows, slot, values, randomness, _ = batch
        values = as_array(values, "iu", "values must be those that `bound` gave")
        last = state.columns["last"]
        if not (last[rows] < slot).all():
            raise ValueError("a user's slots must increase")
        for part in self._parts:
            check_told_apart(part, randomness)
        step = self._step(state, Batch(rows, slot, values, randomness.within(self.use)))
        last[rows] = slot
        return step

    def _step(self, state: State, batch: Batch) -> Step:
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
            [[name, getattr(self, name)] for name in sorted(type(self).parameters)],
            [self.epsilon, self.window, self.calibration],
            [getattr(self, name, None) for name in ("domain", "categories", "dimension")],
            # one that is tried on arrays needs no more than epsilon, perturb and law
            [int(number) for number in self.tables()]
            if all(hasattr(part, "tables") for part in self._parts)
            else [[kind_of(part), float(part.epsilon)] for part in self._parts],
            *([theirs] if theirs else []),
        )

    def release(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        *,
        users: Sequence[str | int] | None = None,
        first_slot: int | None = None,
        state: State | None = None,
    ) -> NDArray[Any]:
        """What would be published of whole streams: `step` in a loop over slots.

        A call without ``state`` begins every user's life: its ledgers know of no other call, and
        what several calls release of one user adds up. With the state of the call before, the
        guarantee is over all of them together, and they release what one call would have.

        A key with its ``context`` serves one stream of a user: each slot has one value under it,
        and two values of one slot would be told equal or not by their reports. Each further
        quantity needs a source of its own, ``lk.randomness.keyed(key, context=...)`` with another
        context.

        Parameters
        ----------
        streams : (T,) or (users, T), one value a slot; (T, dimension) or (users, T, dimension) of
            vectors
        users : ids (text or whole numbers), the contexts of keyed noise, which needs them; default
            elsewhere: row numbers
        first_slot : slot number of the first column, at least 0; keyed noise needs it too, default
            elsewhere: 0
        state : of ``method.state(randomness.digests(users))``, or as earlier calls left it; it is
            updated in place, and its slots must be earlier ones

        Returns
        -------
        The same shape; NaN (or -1 for categories) where nothing was reported. Where the mechanism
        reports bits, one more axis holds them, one a category. Reports of slots before
        ``first_slot``, which an earlier call took in, are left out.

        Raises
        ------
        ValueError : a value is not finite, or no category (the value is not shown); vectors of
            another dimension; users that are not distinct; a state of other users or of later
            slots; keyed noise without users or first slot, since two releases would share their
            noise, or through a mechanism without ``tables``

        Examples
        --------
        >>> import ldp_kafka as lk
        >>> m = lk.method("ba_sw", epsilon=60.0, window=3, domain=(0.0, 10.0))
        >>> source, stream = lk.randomness.seeded(7), np.array([1.0, 1.0, 1.0, 9.0, 9.0])
        >>> whole = m.release(stream, source)
        >>> life = m.state(source.digests(["0"]))
        >>> parts = [m.release(stream[:2], source, state=life)]
        >>> parts += [m.release(stream[2:], source, first_slot=2, state=life)]
        >>> np.array_equal(whole, np.concatenate(parts))
        True
        """
        streams = as_array(streams, "fiub", "streams must hold numbers")
        if self.dimension and (streams.ndim not in (2, 3) or streams.shape[-1] != self.dimension):
            raise ValueError("streams must be (T, dimension) or (users, T, dimension)")
        table = streams[None] if self.dimension and streams.ndim == 2 else np.atleast_2d(streams)
        bound = self.bound(
            table.reshape((table.shape[0] * table.shape[1], *table.shape[2:]))
        ).reshape(table.shape)
        ids, first_slot = contexts_of(users, first_slot, len(table), randomness)
        digests = randomness.digests(ids)
        state = self.state(digests) if state is None else state
        rows = carried_on(state, digests)
        # one slot's values beside each other: every step reads them several times
        slots = np.ascontiguousarray(bound.swapaxes(0, 1))
        steps = [
            self.step(state, Batch(rows, first_slot + t, values, randomness))
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
        if self.holds and steps:
            whole = self.held(whole, state.standing)
            state.standing = whole[:, -1]
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

    def _draw(
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
