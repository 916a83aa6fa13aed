"""One-value randomizers: finite, exact, float-safe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldp_kafka.mechanisms.adaptive import adaptive
from ldp_kafka.mechanisms.duchi import Duchi
from ldp_kafka.mechanisms.gaussian import Gaussian
from ldp_kafka.mechanisms.gaussian_vector import GaussianVector
from ldp_kafka.mechanisms.grr import GeneralizedRandomizedResponse
from ldp_kafka.mechanisms.hadamard import Hadamard
from ldp_kafka.mechanisms.hybrid import Hybrid, duchi_or_hybrid
from ldp_kafka.mechanisms.laplace import Laplace
from ldp_kafka.mechanisms.olh import OptimalLocalHashing
from ldp_kafka.mechanisms.piecewise import Piecewise
from ldp_kafka.mechanisms.projection import norm_sub, project_simplex
from ldp_kafka.mechanisms.reconstruction import Distribution, reconstruct
from ldp_kafka.mechanisms.square_wave import SquareWave
from ldp_kafka.mechanisms.subset import SubsetSelection
from ldp_kafka.mechanisms.unary import OptimizedUnaryEncoding, SymmetricUnaryEncoding

__all__ = [
    "MECHANISMS",
    "Distribution",
    "Duchi",
    "Gaussian",
    "GaussianVector",
    "GeneralizedRandomizedResponse",
    "Hadamard",
    "Hybrid",
    "Laplace",
    "OptimalLocalHashing",
    "OptimizedUnaryEncoding",
    "Piecewise",
    "SquareWave",
    "SubsetSelection",
    "SymmetricUnaryEncoding",
    "adaptive",
    "duchi_or_hybrid",
    "norm_sub",
    "project_simplex",
    "reconstruct",
]

MECHANISMS: dict[str, Callable[..., Any]] = {
    "adaptive": adaptive,
    "duchi": Duchi,
    "gaussian": Gaussian,
    "gaussian_vector": GaussianVector,
    "grr": GeneralizedRandomizedResponse,
    "hadamard": Hadamard,
    "hybrid": duchi_or_hybrid,
    "laplace": Laplace,
    "olh": OptimalLocalHashing,
    "oue": OptimizedUnaryEncoding,
    "piecewise": Piecewise,
    "square_wave": SquareWave,
    "subset_selection": SubsetSelection,
    "sue": SymmetricUnaryEncoding,
}
