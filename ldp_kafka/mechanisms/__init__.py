"""One-value randomizers: finite, exact, float-safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldp_kafka.mechanisms.grr import GeneralizedRandomizedResponse
from ldp_kafka.mechanisms.square_wave import SquareWave

__all__ = ["MECHANISMS", "GeneralizedRandomizedResponse", "SquareWave"]

MECHANISMS: dict[str, Callable[..., Any]] = {
    "grr": GeneralizedRandomizedResponse,
    "square_wave": SquareWave,
}
