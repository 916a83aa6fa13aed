"""A delay method as the method of a topology: what plans and tools ask of any method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, Guarantee, State
from ldp_kafka.methods import METHODS
from ldp_kafka.methods.base import Method, Step
from ldp_kafka.methods.delay import DelayMethod
from ldp_kafka.randomness import Randomness

__all__ = ["WINDOWED", "Windowed"]


class Windowed(Method):
    """What a topology knows of a `DelayMethod`, which does the work: ``windowed``.

    Parameters
    ----------
    epsilon, domain, calibration : of the delay method
    mechanism : a name alone: these methods draw noise of their own
    parameters : the delay method's own, among them ``smooth``
    """

    delay_class: ClassVar[type[DelayMethod]]
    level: ClassVar[str] = "event"
    default_mechanism: ClassVar[str] = "laplace"
    statistics: ClassVar[tuple[str, ...]] = ("per_stream",)

    def __init__(
        self,
        *,
        epsilon: float,
        mechanism: Callable[..., Any],
        domain: tuple[float, float],
        calibration: str = "sound",
        **parameters: Any,
    ) -> None:
        del mechanism
        made = self.delay_class(
            epsilon=epsilon, domain=domain, calibration=calibration, **parameters
        )
        self.windowed = made
        self.epsilon, self.calibration, self.values = made.epsilon, made.calibration, made.values
        self.window, self.spend = made.window, made.spend
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
        return 1.0

    def blank(self, n: int) -> NDArray[Any]:
        return np.zeros(n, np.int64)

    def tables(self) -> list[int]:
        return self.windowed.tables()

    def step(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        values: NDArray[np.int64],
        randomness: Randomness,
    ) -> Step:
        """TypeError: windows are stepped, by ``windowed``, and not single slots."""
        del state, rows, slot, values, randomness
        raise TypeError(f"{self.name} releases windows: windowed.step takes them")


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
