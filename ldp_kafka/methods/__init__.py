"""Streaming methods of the papers: pure, batch first."""

from __future__ import annotations

from ldp_kafka.methods.base import Method
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.direct import Direct
from ldp_kafka.methods.population import PopulationUniform

__all__ = ["METHODS", "ClippedAccumulatedPerturbation", "Direct", "Method", "PopulationUniform"]

METHODS: dict[str, type[Method]] = {
    "capp": ClippedAccumulatedPerturbation,
    "lpu": PopulationUniform,
    "sw_direct": Direct,
}
