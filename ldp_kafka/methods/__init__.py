"""Streaming methods of the papers: pure, batch first."""

from __future__ import annotations

from ldp_kafka.methods.base import Method
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.direct import Direct, PiecewiseDirect
from ldp_kafka.methods.etm import Threshold
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation
from ldp_kafka.methods.pegasus import PegasusLocal
from ldp_kafka.methods.population import PopulationUniform
from ldp_kafka.methods.sppa import SamplingPeriod, SingleWindow

__all__ = [
    "METHODS",
    "AccumulatedPerturbation",
    "ClippedAccumulatedPerturbation",
    "Direct",
    "IterativePerturbation",
    "Method",
    "PegasusLocal",
    "PiecewiseDirect",
    "PopulationUniform",
    "SamplingPeriod",
    "SingleWindow",
    "Threshold",
]

METHODS: dict[str, type[Method]] = {
    "app": AccumulatedPerturbation,
    "capp": ClippedAccumulatedPerturbation,
    "etm": Threshold,
    "ipp": IterativePerturbation,
    "lpu": PopulationUniform,
    "pegasus_local": PegasusLocal,
    "pm_direct": PiecewiseDirect,
    "sppa": SamplingPeriod,
    "sw_direct": Direct,
    "swp": SingleWindow,
}
