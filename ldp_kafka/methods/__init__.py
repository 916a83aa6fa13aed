"""Streaming methods of the papers: pure, batch first."""

from __future__ import annotations

from ldp_kafka.methods.base import Method
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.direct import Direct, PiecewiseDirect
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation
from ldp_kafka.methods.population import PopulationUniform

__all__ = [
    "METHODS",
    "AccumulatedPerturbation",
    "ClippedAccumulatedPerturbation",
    "Direct",
    "IterativePerturbation",
    "Method",
    "PiecewiseDirect",
    "PopulationUniform",
]

METHODS: dict[str, type[Method]] = {
    "app": AccumulatedPerturbation,
    "capp": ClippedAccumulatedPerturbation,
    "ipp": IterativePerturbation,
    "lpu": PopulationUniform,
    "pm_direct": PiecewiseDirect,
    "sw_direct": Direct,
}
