"""Streaming methods of the papers: pure, batch first."""

from __future__ import annotations

from ldp_kafka.methods.absorption import BudgetAbsorption
from ldp_kafka.methods.base import Method
from ldp_kafka.methods.budget_split import BudgetSplit
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.cgm import CorrelatedGaussian
from ldp_kafka.methods.cgm_vector import CorrelatedGaussianVector
from ldp_kafka.methods.direct import Direct, PiecewiseDirect
from ldp_kafka.methods.etm import Threshold
from ldp_kafka.methods.fast import Fast
from ldp_kafka.methods.fast_cgm import FastCorrelated
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation
from ldp_kafka.methods.gaussian import GaussianDifferential, GaussianDirect
from ldp_kafka.methods.pegasus import PegasusLocal
from ldp_kafka.methods.population import PopulationUniform
from ldp_kafka.methods.sample_split import SampleSplit
from ldp_kafka.methods.segments import (
    Sampling,
    SegmentedAccumulatedPerturbation,
    SegmentedClippedAccumulatedPerturbation,
    SegmentedIterativePerturbation,
)
from ldp_kafka.methods.sppa import SamplingPeriod, SingleWindow
from ldp_kafka.methods.topl import ThresholdPerturbation

__all__ = [
    "METHODS",
    "AccumulatedPerturbation",
    "BudgetAbsorption",
    "BudgetSplit",
    "ClippedAccumulatedPerturbation",
    "CorrelatedGaussian",
    "CorrelatedGaussianVector",
    "Direct",
    "Fast",
    "FastCorrelated",
    "GaussianDifferential",
    "GaussianDirect",
    "IterativePerturbation",
    "Method",
    "PegasusLocal",
    "PiecewiseDirect",
    "PopulationUniform",
    "SampleSplit",
    "Sampling",
    "SamplingPeriod",
    "SegmentedAccumulatedPerturbation",
    "SegmentedClippedAccumulatedPerturbation",
    "SegmentedIterativePerturbation",
    "SingleWindow",
    "Threshold",
    "ThresholdPerturbation",
]

METHODS: dict[str, type[Method]] = {
    "app": AccumulatedPerturbation,
    "app_s": SegmentedAccumulatedPerturbation,
    "ba_sw": BudgetAbsorption,
    "budget_split": BudgetSplit,
    "capp": ClippedAccumulatedPerturbation,
    "capp_s": SegmentedClippedAccumulatedPerturbation,
    "cgm": CorrelatedGaussian,
    "cgm_vector": CorrelatedGaussianVector,
    "etm": Threshold,
    "fast": Fast,
    "fast_cgm": FastCorrelated,
    "gaussian_differential": GaussianDifferential,
    "gaussian_direct": GaussianDirect,
    "ipp": IterativePerturbation,
    "ipp_s": SegmentedIterativePerturbation,
    "lpu": PopulationUniform,
    "pegasus_local": PegasusLocal,
    "pm_direct": PiecewiseDirect,
    "sample_split": SampleSplit,
    "sampling": Sampling,
    "sppa": SamplingPeriod,
    "sw_direct": Direct,
    "swp": SingleWindow,
    "topl": ThresholdPerturbation,
}
