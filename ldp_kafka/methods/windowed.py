"""A delay method as the method of a topology: what plans and tools ask of any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods import METHODS
from ldp_kafka.methods.base import Method, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.delay import DelayMethod
from ldp_kafka.methods.unstated import MIXED_SLOTS
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import Randomness, seeded

__all__ = ["WINDOWED", "Windowed"]

# of the simulation: its own error is a few per cent
_LEVELS, _STREAMS, _SLOTS = (np.linspace(0, 1, 5), 20, 96)


class Windowed(Method):
    """What a topology knows of a `DelayMethod`, which does the work: ``windowed``.

    Parameters
    ----------
    epsilon, domain, window, calibration : of the delay method; more than one slot in the window is
        level ``w-event``
    mechanism : a name alone: these methods draw noise of their own
    parameters : the delay method's own, among them ``smooth``
    """

    delay_class: ClassVar[type[DelayMethod]]
    level: ClassVar[str] = "event"
    default_mechanism: ClassVar[str] = "laplace"
    statistics: ClassVar[tuple[str, ...]] = ("per_stream", "per_user")

    def __init__(
        self,
        *,
        epsilon: float,
        mechanism: Callable[..., Any],
        domain: tuple[float, float],
        window: int = 1,
        calibration: str = "sound",
        **parameters: Any,
    ) -> None:
        del mechanism
        made = self.delay_class(
            epsilon=epsilon, domain=domain, window=window, calibration=calibration, **parameters
        )
        self.windowed = made
        self.epsilon, self.calibration, self.values = made.epsilon, made.calibration, made.values
        self.window, self.spend = made.window, made.spend
        self.ledger = _Once(made)
        for name in self.parameters:
            setattr(self, name, getattr(made, name))

    @property
    def guarantee(self) -> Guarantee:
        return self.windowed.guarantee

    @property
    def influence(self) -> float:
        return self.windowed.influence

    @property
    def fields(self) -> dict[str, Field]:
        return self.windowed.fields

    @property
    def scale(self) -> float:
        """Of reports at the edge: releases in units of it, from the domain's lower end."""
        return 1 / FIXED

    @property
    def index_range(self) -> tuple[int, int]:
        return 0, FIXED

    def index(self, released: NDArray[np.float64]) -> NDArray[np.int64]:
        """Releases (n,), inside the domain, as reports: post-processing."""
        lo, hi = self.domain
        found: NDArray[np.int64] = np.rint((released - lo) / (hi - lo) * FIXED).astype(np.int64)
        return found

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        """Their number: nothing is said of a crowd, whose mean of clipped releases is biased."""
        del phase
        return np.array([len(reports)])

    def constant(self, levels: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
        """Of so many slots as three windows have, at most `_SLOTS`, or more."""
        return super().constant(levels, max(slots, min(3 * self.windowed.windows.span, _SLOTS)))

    @property
    def single_reason(self) -> str | None:
        """At an edge a release is all that is known of its slot: what it was before it was smoothed
        is not.
        """
        return MIXED_SLOTS if self.windowed.smooth else self.windowed.reason

    def single_limits(
        self, released: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lo, hi = self.domain
        half = self.windowed.half_width * (hi - lo)
        return np.maximum(released - half, lo), np.minimum(released + half, hi)

    @cached_property
    def _square(self) -> float:
        """Mean squared error of a release of a stream that does not move, at the worst of five
        levels, in lengths of the domain; simulated.
        """
        streams = self.constant(np.repeat(_LEVELS, _STREAMS), 1)
        lo, hi = self.domain
        square = ((self.windowed.release(streams, seeded(0)) - streams) / (hi - lo)) ** 2
        return float(square.reshape(len(_LEVELS), -1).mean(axis=1).max())

    @cached_property
    def single_error(self) -> float:
        lo, hi = self.domain
        return float((hi - lo) * self._square**0.5)

    @cached_property
    def reliability(self) -> float:
        return 1 / (1 + 12 * self._square)

    def release(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        *,
        users: Sequence[str | int] | None = None,
        first_slot: int | None = None,
        state: State | None = None,
    ) -> NDArray[Any]:
        if state is not None:
            raise ConfigurationError(
                f"{self.name} takes no state: a slot's value is paid for in the call that it is in"
            )
        return self.windowed.release(streams, randomness, users=users, first_slot=first_slot)

    def blank(self, n: int) -> NDArray[Any]:
        return np.zeros(n, np.int64)

    def tables(self) -> list[int]:
        return self.windowed.tables()

    def step(self, state: State, batch: Batch) -> Step:
        """TypeError: windows are stepped, by ``windowed``, and not single slots."""
        del state, batch
        raise TypeError(f"{self.name} releases windows: windowed.step takes them")


class _Once:
    """The ledger of values that are charged once each, when their window closes: nothing has to be
    summed.
    """

    def __init__(self, method: DelayMethod) -> None:
        self._method = method

    @property
    def fields(self) -> dict[str, Field]:
        """None beside the method's own: a stream's last slot says which values were charged."""
        return {}

    @property
    def budget(self) -> int:
        """Of one slot's value."""
        return self._method.spend

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int | NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Never: a step takes each slot once, and refuses another time."""
        del state, rows, slot, cost
        raise TypeError("the values of windows are charged by their method's step")

    def audit(self, state: State) -> tuple[int, int]:
        """See `BudgetLedger.audit`: there is nothing that could contradict itself."""
        del state
        return 0, 0

    def largest(self, state: State) -> int:
        """See `BudgetLedger.largest`."""
        some = (state.columns["last"][: state.count] != NEVER).any()
        return self.budget if some else 0


def _windowed(method: type[DelayMethod]) -> type[Windowed]:
    smooth = {"smooth": "whether releases are smoothed by what was released; it changes no noise"}
    return type(
        f"Windowed{method.__name__}",
        (Windowed,),
        {
            "__doc__": Windowed.__doc__,
            "delay_class": method,
            "name": method.name,
            "parameters": {**method.parameters, **smooth},
        },
    )


WINDOWED: dict[str, type[Windowed]] = {
    name: _windowed(method) for name, method in METHODS.items() if issubclass(method, DelayMethod)
}
"""By the name of the delay method."""
