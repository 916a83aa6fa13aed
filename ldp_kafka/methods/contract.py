"""The contract of a streaming method: its state, one pure step, and whole streams in a loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Account, Field, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import as_array
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.estimates import Estimates
from ldp_kafka.methods.step import Step
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
    def __init__(self, **parameters: Any) -> None:
        """Parameters have names, and are checked."""

    @property
    def hop(self) -> int:
        """Slots that a step takes together."""
        return 1

    @property
    @abstractmethod
    def fields(self) -> dict[str, Field]:
        """The arrays of its state; ``last`` is the slot of the user's last event."""

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
        """Values (n,) as the integers that the method works on: clamped, in units of 2**-32 of the
        domain; or category numbers. TypeError where no numbers, ValueError where not finite or no
        category; neither shows a value.
        """
        return self.values.bound(values)

    def state(self, users: NDArray[np.uint64] | None = None) -> State:
        """A fresh state, empty or with one row a digest of a user, or of a stream."""
        if users is not None:
            users = as_array(users, "u", "users must be digests (n, 2), not ids")
        return State(self.fields, users)

    @abstractmethod
    def step(self, state: State, batch: Batch) -> Step:
        """Reports of a batch of users, of `hop` slots that are later than any that they had.
        Updates their rows in place.

        Raises
        ------
        TypeError : values are not what `bound` gives
        ValueError : the slot is not later than the last one of each user; nothing was drawn, and
            nothing is changed for anyone
        """

    @abstractmethod
    def release(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        *,
        users: Sequence[str | int] | None = None,
        first_slot: int | None = None,
        state: State | None = None,
    ) -> NDArray[Any]:
        """What would be published of whole streams: `step` in a loop over slots."""

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
