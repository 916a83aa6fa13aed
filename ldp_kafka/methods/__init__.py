"""Streaming methods of the papers: pure, batch first."""

from __future__ import annotations

from ldp_kafka.methods.base import Method
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.cgm import CorrelatedGaussian
from ldp_kafka.methods.direct import Direct, PiecewiseDirect
from ldp_kafka.methods.fast import Fast, FastCorrelated
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation
from ldp_kafka.methods.gaussian import GaussianDifferential, GaussianDirect
from ldp_kafka.methods.population import PopulationUniform

__all__ = [
    "METHODS",
    "AccumulatedPerturbation",
    "ClippedAccumulatedPerturbation",
    "CorrelatedGaussian",
    "Direct",
    "Fast",
    "FastCorrelated",
    "GaussianDifferential",
    "GaussianDirect",
    "IterativePerturbation",
    "Method",
    "PiecewiseDirect",
    "PopulationUniform",
]

METHODS: dict[str, type[Method]] = {
    "app": AccumulatedPerturbation,
    "capp": ClippedAccumulatedPerturbation,
    "cgm": CorrelatedGaussian,
    "fast": Fast,
    "fast_cgm": FastCorrelated,
    "gaussian_differential": GaussianDifferential,
    "gaussian_direct": GaussianDirect,
    "ipp": IterativePerturbation,
    "lpu": PopulationUniform,
    "pm_direct": PiecewiseDirect,
    "sw_direct": Direct,
}
