"""Methods that release streams of values, which a curator can run: what all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field, State
from ldp_kafka.accounting.words import at_most
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import as_array, check_epsilon, check_number, strangers
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.delay.closed import Closed
from ldp_kafka.methods.delay.reports import ChargedOnce, WindowReports
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.delay.windows import Setting
from ldp_kafka.methods.step import SENT, SILENT, Step
from ldp_kafka.methods.streams import Streams
from ldp_kafka.methods.values import FIXED, Numbers
from ldp_kafka.randomness import Randomness, use_of

__all__ = ["OWN", "SMOOTH", "StreamMethod"]

OWN = ("adder", "alone", "threshold", "test", "vector", "flip", "choice")
"""The attributes of a method that are what it draws with, or None."""
SMOOTH = "smooth"
"""The parameter that no draw depends on."""


class StreamMethod(WindowReports):
    """A method that releases every slot of a stream that has a value once, when the slot's window
    closes. `DelayMethod` releases the values, `Matrix` their sums and means.

    Parameters
    ----------
    epsilon, domain, contribution, window, calibration : see `DelayMethod`
    windows : how they lie
    """

    level: ClassVar[str] = "event"
    """That of one slot; the guarantee over a ``window`` of more is ``w-event``."""
    statistics: tuple[str, ...] = ("per_stream",)
    default_mechanism = "laplace"
    own_noise: ClassVar[bool] = True

    def __init__(
        self,
        *,
        epsilon: float,
        domain: tuple[float, float],
        windows: Setting,
        contribution: float | None,
        window: int,
        calibration: str,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        if calibration not in ("sound", "published"):
            raise ConfigurationError("calibration must be 'sound' or 'published'")
        self.calibration, self.windows = calibration, windows
        self.values = Numbers(self.name, domain, None)
        self.contribution = self._contribution(contribution)
        self.window = check_slots(window, "window")

    def _charge(self, spend: int) -> None:
        """Take in the micro-epsilon that is given for one slot's value."""
        self.spend = spend
        if not 0 < self.spend < 2**31:
            raise ConfigurationError(
                "epsilon must be at least 1e-6 and less than 2147 nats for each slot of the window"
            )
        self.ledger = ChargedOnce(self.spend)

    def _contribution(self, given: float | None) -> float | None:
        """Take it in; ``reach`` is how far a changed value moves, in units of 2**-32 of the
        domain.
        """
        lo, hi = self.domain
        self.reach = FIXED
        if given is None:
            return None
        number = check_number(given, "contribution")
        if not 0 < number <= hi - lo:
            raise ConfigurationError("contribution must lie above 0, within the domain's length")
        # two values that far apart can be rounded apart by one unit more
        self.reach = min(ceil(number / (hi - lo) * FIXED) + 1, FIXED)
        return number

    @property
    def _within(self) -> str:
        """Whose change is hidden, in words."""
        slot = "a slot" if self.window == 1 else "each slot"
        if self.contribution is None:
            return f"{slot}'s whole value, not one person's part of it"
        most = at_most(self.contribution)
        return f"what one person adds to {slot}'s value, at most {most} as the source promises"

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The arrays of its state: the last slot that was stepped, the latest that there is
        something to release of, and the method's own.
        """
        return {
            "last": Field("i8", initial=NEVER),
            "latest": Field("i8", initial=NEVER),
            **self.kept(),
        }

    def kept(self) -> dict[str, Field]:
        """What it keeps of the slots before."""
        raise NotImplementedError

    def opens(self, slot: int) -> int:
        """The first slot that a call may begin with to have this one."""
        return self.drawn_from(slot)

    def drawn_from(self, slot: int) -> int:
        """The first of the slots whose values one draw can be for together with this slot's, and
        which a call that does not know the others would draw for under the same context: that of
        its segment or block. The slot itself where each draw is named after a slot that is its
        call's own.
        """
        return slot

    def waiting(self, state: State, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these streams have values that are not released: each has to be stepped at the
        slot after its last one, with a value or without.
        """
        last, latest = (state.columns[name][rows] for name in ("last", "latest"))
        return np.asarray((latest != NEVER) & (latest + self.windows.behind > last))

    @property
    def hop(self) -> int:
        return self.windows.hop

    def step(self, state: State, batch: Batch) -> Step:
        """What `close` releases, as reports: (n, hop) a stream."""
        closed = self.close(state, batch)
        known = ~np.isnan(closed.values.T)
        slots = np.where(known, closed.first + np.arange(self.hop), NEVER)
        answers = self.index(np.where(known, closed.values.T, self.domain[0])) * self.scale
        return Step(answers, np.where(known.any(axis=1), SENT, SILENT).astype(np.uint8), slots)

    def close(self, state: State, batch: Batch) -> Closed:
        """Take ``windows.hop`` slots of distinct streams, from the batch's slot on, and release as
        many. The slot must be later than any that the streams were stepped at.

        Raises
        ------
        TypeError : values are not what `bound` gives
        ValueError : shapes do not fit; the slot is no later one, or not the first of a batch; a
            stream that has values waiting was left out in the slot before. Nothing was drawn, and
            nothing is changed for anyone
        """
        values, present = self._checked(state, batch)
        source = batch.randomness.within(self.use)
        window = Rows(state, batch.rows, source, batch.slot, self.windows.span)
        closed = self._stepped(window, values, present)
        window.close()
        self._passed(state, batch.rows, window.slot, present)
        return closed

    def _stepped(
        self, window: Rows, values: NDArray[np.int64], present: NDArray[np.bool_] | None
    ) -> Closed:
        """The step: ``window`` is at its first slot, and is left at its last one."""
        raise NotImplementedError

    def _passed(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        present: NDArray[np.bool_] | None,
    ) -> None:
        """Note that a window that ends with ``slot`` was stepped, and until when its values
        matter.
        """
        state.columns["last"][rows] = slot
        latest = state.columns["latest"]
        if present is None:
            latest[rows] = self._until(slot)
            return
        for at in range(len(present)):
            there = rows[present[at]]
            latest[there] = self._until(slot - len(present) + 1 + at)

    def _until(self, slot: int) -> int:
        """The last slot that is released because ``slot`` has a value."""
        return slot

    def _checked(
        self, state: State, batch: Batch
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Values and presence, if all of it is as `close` asks for."""
        rows, slot, values, _, present = batch
        values = as_array(values, "iu", "values must be those that `bound` gave")
        shape = (self.windows.hop, len(rows))
        if values.shape != shape:
            raise ValueError(f"values must be (hop, n): {self.windows.hop} slots of each row")
        if present is not None:
            present = as_array(present, "b", "present must be true or false for each value")
            if present.shape != shape:
                raise ValueError("present must have the shape of values")
            values = np.where(present, values, 0)
            if present.all():
                present = None
        if values.size and not (values.min() >= 0 and values.max() <= FIXED):
            raise ValueError("values must be those that `bound` gave")
        if slot % self.windows.hop:
            raise ValueError("slot must be the first of a batch")
        last = state.columns["last"][rows]
        if not (last < slot).all():
            raise ValueError("a stream's slots must increase")
        if (self.waiting(state, rows) & (last != slot - 1)).any():
            raise ValueError(
                "a stream with values that wait for their release must be stepped in each slot,"
                " with no value present where it has none"
            )
        return values.astype(np.int64, copy=False), present

    def trace(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        *,
        present: NDArray[np.bool_] | None = None,
        users: Sequence[str | int] | None = None,
        first_slot: int | None = None,
    ) -> Closed:
        """All that is released of whole streams: `close` in a loop over windows, and on until
        nothing waits.

        Each slot's value is paid for in the call that it is in. Calls over other slots of a stream
        are within the one guarantee. A key with its ``context`` serves one stream of values, as
        `Method.release` says: a second quantity needs ``lk.randomness.keyed(key, context=...)``
        with another context, or fresh words, and then adds up.

        Parameters
        ----------
        streams : (T,) or (streams, T), one value a slot
        present, users, first_slot : as `Method.release` takes them; under keyed noise
            ``opens(first_slot) == first_slot``

        Returns
        -------
        values, standard errors and intervals (T, streams)

        Raises
        ------
        ValueError : a value is not finite (it is not shown); users are not distinct; keyed noise
            without users or first slot, or that begins inside a segment or block, since two
            releases would share their noise
        """
        taken = Streams(self, self.bound, streams, randomness, users, first_slot, present)
        start = taken.first_slot
        opens = self.opens(start)
        if randomness.repeats and opens != start:
            raise ValueError(
                f"first_slot {start} lies inside the slots from {opens} on that {self.name} draws"
                " one noise for: a call that ended there would have drawn the same noise, and equal"
                f" releases would tell which values are equal. Begin with slot {opens}; present="
                " says where there is no value"
            )
        state, hop, behind = self.state(taken.digests), self.hop, self.windows.behind
        closed = [self.close(state, batch) for batch in taken.windows(hop, behind)]
        skipped = start % hop + behind
        none = np.empty((0, len(state)))
        whole = Closed.joined([Closed(start, none, none, none, none, self.unstated), *closed])
        return whole.between(start, skipped, skipped + taken.shape[-1])

    def release(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        *,
        present: NDArray[np.bool_] | None = None,
        users: Sequence[str | int] | None = None,
        first_slot: int | None = None,
        state: State | None = None,
    ) -> NDArray[np.float64]:
        """What is released of whole streams, in their shape; NaN where a slot had no value. See
        `trace`. ConfigurationError where a state is given: a slot's value is paid for in its call.
        """
        if state is not None:
            raise ConfigurationError(
                f"{self.name} takes no state: a slot's value is paid for in the call that it is in"
            )
        released = self.trace(
            streams, randomness, present=present, users=users, first_slot=first_slot
        ).values.T
        return np.ascontiguousarray(released).reshape(np.shape(streams))

    def _own(self) -> list[Any]:
        """What it draws with."""
        return [part for part in (getattr(self, name, None) for name in OWN) if part is not None]

    def tables(self) -> list[int]:
        raise NotImplementedError

    @cached_property
    def use(self) -> bytes:
        """What its noise is drawn within: name, parameters, budget, domain and the integers that
        it samples with. Two methods, or one with two budgets, draw independent words under one key.
        """
        return use_of(
            "delay method",
            self.name,
            [[name, value] for name, value in self.resolved.items() if name != SMOOTH],
            [self.epsilon, self.calibration, *([self.window] if self.window > 1 else [])],
            list(self.domain),
            self.tables(),
            *([theirs] if (theirs := strangers(self, *self._own())) else []),
        )
