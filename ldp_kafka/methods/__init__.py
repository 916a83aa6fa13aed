"""Streaming methods of the papers: pure, batch first."""

from __future__ import annotations

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.absorption import BudgetAbsorption
from ldp_kafka.methods.base import FIXED, REFUSED, SENT, SILENT, SlotMethod
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.budget_split import BudgetSplit
from ldp_kafka.methods.capp import ClippedAccumulatedPerturbation
from ldp_kafka.methods.cgm import CorrelatedGaussian
from ldp_kafka.methods.cgm_pure import CorrelatedLaplace
from ldp_kafka.methods.cgm_vector import (
    CorrelatedGaussianVector,
    GaussianDifferentialVector,
    GaussianDirectVector,
)
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.delay import (
    AdaPub,
    BucOrder,
    CompOrder,
    ContinGroup,
    DelayMethod,
    DiscontinGroup,
    Dpi,
    Matrix,
    Naive,
    Pegasus,
    PegasusDelay,
    SegmentMean,
    StreamMethod,
    Truncate,
)
from ldp_kafka.methods.direct import Direct, PiecewiseDirect
from ldp_kafka.methods.etm import Threshold
from ldp_kafka.methods.fast import Fast
from ldp_kafka.methods.fast_cgm import FastCorrelated
from ldp_kafka.methods.feedback import AccumulatedPerturbation, IterativePerturbation
from ldp_kafka.methods.gaussian import GaussianDifferential, GaussianDirect
from ldp_kafka.methods.pegasus import PegasusLocal
from ldp_kafka.methods.perslot import PerSlot
from ldp_kafka.methods.population import PopulationUniform
from ldp_kafka.methods.sample_split import SampleSplit
from ldp_kafka.methods.segments import (
    Sampling,
    SegmentedAccumulatedPerturbation,
    SegmentedClippedAccumulatedPerturbation,
    SegmentedIterativePerturbation,
)
from ldp_kafka.methods.sppa import SamplingPeriod, SingleWindow
from ldp_kafka.methods.step import Step
from ldp_kafka.methods.topl import ThresholdPerturbation

__all__ = [
    "FIXED",
    "METHODS",
    "REFUSED",
    "SENT",
    "SILENT",
    "AccumulatedPerturbation",
    "AdaPub",
    "Batch",
    "BucOrder",
    "BudgetAbsorption",
    "BudgetSplit",
    "ClippedAccumulatedPerturbation",
    "CompOrder",
    "ContinGroup",
    "CorrelatedGaussian",
    "CorrelatedGaussianVector",
    "CorrelatedLaplace",
    "DelayMethod",
    "Direct",
    "DiscontinGroup",
    "Dpi",
    "Fast",
    "FastCorrelated",
    "GaussianDifferential",
    "GaussianDifferentialVector",
    "GaussianDirect",
    "GaussianDirectVector",
    "IterativePerturbation",
    "Matrix",
    "Method",
    "Naive",
    "Pegasus",
    "PegasusDelay",
    "PegasusLocal",
    "PerSlot",
    "PiecewiseDirect",
    "PopulationUniform",
    "SampleSplit",
    "Sampling",
    "SamplingPeriod",
    "SegmentMean",
    "SegmentedAccumulatedPerturbation",
    "SegmentedClippedAccumulatedPerturbation",
    "SegmentedIterativePerturbation",
    "SingleWindow",
    "SlotMethod",
    "Step",
    "StreamMethod",
    "Threshold",
    "ThresholdPerturbation",
    "Truncate",
    "of_reports",
]

METHODS: dict[str, type[Method]] = {
    "adapub": AdaPub,
    "app": AccumulatedPerturbation,
    "app_s": SegmentedAccumulatedPerturbation,
    "ba_sw": BudgetAbsorption,
    "buc_order": BucOrder,
    "budget_split": BudgetSplit,
    "capp": ClippedAccumulatedPerturbation,
    "capp_s": SegmentedClippedAccumulatedPerturbation,
    "cgm": CorrelatedGaussian,
    "cgm_pure": CorrelatedLaplace,
    "cgm_vector": CorrelatedGaussianVector,
    "comp_order": CompOrder,
    "contin_group": ContinGroup,
    "discontin_group": DiscontinGroup,
    "dpi": Dpi,
    "etm": Threshold,
    "fast": Fast,
    "fast_cgm": FastCorrelated,
    "gaussian_differential": GaussianDifferential,
    "gaussian_differential_vector": GaussianDifferentialVector,
    "gaussian_direct": GaussianDirect,
    "gaussian_direct_vector": GaussianDirectVector,
    "ipp": IterativePerturbation,
    "ipp_s": SegmentedIterativePerturbation,
    "lpu": PopulationUniform,
    "matrix": Matrix,
    "naive": Naive,
    "pegasus": Pegasus,
    "pegasus_delay": PegasusDelay,
    "pegasus_local": PegasusLocal,
    "pm_direct": PiecewiseDirect,
    "sample_split": SampleSplit,
    "sampling": Sampling,
    "segment_mean": SegmentMean,
    "sppa": SamplingPeriod,
    "sw_direct": Direct,
    "swp": SingleWindow,
    "topl": ThresholdPerturbation,
    "truncate": Truncate,
}


def of_reports(name: str) -> type[Method]:
    """The method of that name whose users report slot by slot through a mechanism.
    ConfigurationError where there is none: unknown, or a `DelayMethod`.

    Examples
    --------
    >>> of_reports("capp").name
    'capp'
    """
    found = METHODS.get(name)
    if found is None or not issubclass(found, Method):
        known = sorted(key for key, kind in METHODS.items() if issubclass(kind, Method))
        raise ConfigurationError(f"unknown method {name!r}; known: {', '.join(known)}")
    return found
