"""The contract of a streaming method: its state, one step over it, and whole streams in a loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Account, Field, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import as_array, check_vectors
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contexts import carried_on
from ldp_kafka.methods.estimates import Estimates
from ldp_kafka.methods.step import SENT, Step
from ldp_kafka.methods.streams import Streams
from ldp_kafka.randomness import Randomness

__all__ = ["Method", "check_slots"]


class Method(Estimates, ABC):
    """A streaming method: what is reported, or released, of users' streams, slot by slot, and under
    which guarantee. `Description` says what it is, `Estimates` what a collector reads from its
    reports.
    """

    own_noise: ClassVar[bool] = False
    """Whether it draws with noise of its own: no mechanism can be chosen for it."""
    ledger: Account
    """What users' budgets have been spent of."""

    @abstractmethod
    def __init__(self, *args: Any, **parameters: Any) -> None:
        """Parameters are checked."""

    @property
    def hop(self) -> int:
        """Slots that a step takes together."""
        return 1

    @property
    @abstractmethod
    def fields(self) -> dict[str, Field]:
        """The arrays of its state; ``last`` is the last slot that was stepped for the user."""

    @property
    def single(self) -> Method:
        """The method that models one report of this one by itself, for reading releases per
        user.
        """
        return self

    @property
    def coordinate(self) -> Method:
        """The method by which one coordinate of a vector is read; this one where values are single
        numbers or categories.
        """
        return self

    def outside(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these values (n,) or vectors (n, dimension) `bound` clamps."""
        return self.values.outside(values)

    def bound(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Values (n,), or vectors (n, dimension), as the integers that the method works on:
        clamped, in units of 2**-32 of the domain; or category numbers. TypeError where no numbers,
        ValueError where not finite, no category, or of another dimension; neither shows a value.
        """
        if not self.dimension:
            return self.values.bound(values)
        exact = check_vectors(values, self.dimension)
        return self.values.bound(exact.reshape(-1)).reshape(exact.shape)

    def state(self, users: NDArray[np.uint64] | None = None) -> State:
        """A fresh state, empty or with one row a digest of a user, or of a stream."""
        if users is not None:
            users = as_array(users, "u", "users must be digests (n, 2), not ids")
        return State(self.fields, users)

    @abstractmethod
    def step(self, state: State, batch: Batch) -> Step:
        """Take `hop` slots of a batch of users, each later than the user's last one; the reports
        that are due. It changes the users' rows in place, and nothing else. Where a method reports
        slot by slot, a user without a value is silent.

        Raises
        ------
        TypeError : values are not what `bound` gives
        ValueError : the slot is not later than the last one of each user; nothing was drawn, and
            nothing is changed for anyone
        """

    def release(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        *,
        present: NDArray[np.bool_] | None = None,
        users: Sequence[str | int] | None = None,
        first_slot: int | None = None,
        state: State | None = None,
    ) -> NDArray[Any]:
        """What would be published of whole streams: `step` in a loop over slots.

        A call without ``state`` begins every user's life: its ledgers know of no other call, and
        what several calls release of one user adds up. If each call gets the state of the call
        before, one guarantee covers all calls. Under keyed noise they release what one call would
        have, but for reports of slots before ``first_slot``.

        A key with its ``context`` serves one stream of a user. Under one key and context, equal
        values of one slot have equal reports: reports of two quantities would tell whether the
        quantities are equal. Each further
        quantity needs a source of its own, ``lk.randomness.keyed(key, context=...)`` with another
        context.

        Parameters
        ----------
        streams : (T,) or (users, T), one value a slot; (T, dimension) or (users, T, dimension) of
            vectors. Categories may be given by name, where they have names
        present : (T,) or (users, T), which values there are; the user is silent in the others.
            None: all; of a method that `pauses`, or has ``cover``, all but NaN, vectors of NaN
            alone, and -1 for categories
        users : ids (text or whole numbers), the contexts of keyed noise, which needs them; default
            elsewhere: row numbers
        first_slot : slot number of the first column, at least 0; keyed noise needs it too, default
            elsewhere: 0
        state : of ``method.state(randomness.digests(users))``, or as earlier calls left it; it is
            updated in place, and its slots must be earlier ones

        Returns
        -------
        The same shape; NaN (or -1 for categories) where nothing was reported, or, of a method that
        `holds`, its last release, at first the domain's midpoint. Where the mechanism
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
        taken = Streams(self, self.bound, streams, randomness, users, first_slot, present)
        state = self.state(taken.digests) if state is None else state
        rows = carried_on(state, taken.digests)
        if not (state.columns["last"][rows] < taken.first_slot).all():
            raise ValueError("a user's slots must increase")
        steps = [self.step(state, batch) for batch in taken.batches()]
        if any(step.slots is not None for step in steps):
            whole = self._spread(steps, taken.first_slot, len(rows))
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
        return whole.reshape(taken.shape if self.dimension else taken.shape + whole.shape[2:])

    def _spread(self, steps: Sequence[Step], first_slot: int, users: int) -> NDArray[np.float64]:
        """Releases (users, T), or (users, T, dimension), of steps whose reports tell their own
        slots; of two for one slot the later stands.
        """
        one = self.blank(0).shape[1:]
        whole = np.full((users, len(steps), *one), np.nan)
        for at, step in enumerate(steps):
            slots = (
                np.full((len(step.status), 1), first_slot + at)
                if step.slots is None
                else step.slots
            )
            answers = np.asarray(step.answers).reshape((*slots.shape, *one))
            for k in range(slots.shape[1]):
                sent = (step.status == SENT) & (slots[:, k] >= first_slot)
                whole[sent, slots[sent, k] - first_slot] = self.released(answers[sent, k])
        return whole

    @abstractmethod
    def tables(self) -> list[int]:
        """The integers that fix its noise: part of a topology's fingerprint."""

    def constant(self, levels: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
        """Streams (n, slots) of numbers, or (n, slots, dimension), that stay at these levels (n,),
        0..1 of the domain: what errors are simulated with.
        """
        lo, hi = self.domain
        values = lo + levels * (hi - lo)
        if not self.dimension:
            return np.broadcast_to(values[:, None], (len(levels), slots))
        return np.broadcast_to(values[:, None, None], (len(levels), slots, self.dimension))


def check_slots(value: Any, name: str) -> int:
    """``value`` as a whole number of slots, 1..65536; TypeError or ConfigurationError otherwise."""
    if isinstance(value, bool | np.bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number of slots")
    if not 1 <= value <= 2**16:
        raise ConfigurationError(f"{name} must lie between 1 and 65536 slots")
    return int(value)
