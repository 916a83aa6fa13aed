"""Chains of reports over normal noise."""

from __future__ import annotations

from collections.abc import Callable
from math import expm1
from typing import Any, ClassVar

from ldp_kafka.methods.chain_stream import ChainStream
from ldp_kafka.methods.user_level import GaussianBudget

__all__ = ["GaussianStream"]


class GaussianStream(ChainStream):
    """A `ChainStream` of normal noise; its guarantee: `GaussianBudget`."""

    default_mechanism = "gaussian"
    parameters: ClassVar[dict[str, str]] = {
        "delta": "probability that the loss exceeds epsilon, in (0, 1)",
        **ChainStream.parameters,
    }

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        horizon: int | None = None,
        refresh: int | None = None,
        sigma: float | None = None,
        calibration: str = "sound",
        categories: int | None = None,
    ) -> None:
        self._shape(domain, categories, calibration)
        self.chain = self._chain()
        self._live(
            GaussianBudget(
                epsilon,
                delta,
                horizon=horizon,
                refresh=refresh,
                sigma=sigma,
                widest=self.chain.widest,
                mechanism=mechanism,
                dimension=self._dimension,
            )
        )

    def _power_error(self, length: float) -> float:
        """That of the log-normal law: for noise of more than a few tenths far above what most
        releases are off by.
        """
        square = min((self._noise[1] * length) ** 2, 340.0)
        return float((expm1(2 * square) - 2 * expm1(square / 2)) ** 0.5)
