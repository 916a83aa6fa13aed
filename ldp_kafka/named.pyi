# What each name takes and gives. Written by `poe stubs` from the classes in the registries; do not
# edit it.
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, overload

from ldp_kafka import mechanisms, methods
from ldp_kafka.methods import protocols

__all__ = ["mechanism", "method", "protocol"]

MechanismName: TypeAlias = Literal[
    "adaptive",
    "duchi",
    "gaussian",
    "gaussian_vector",
    "grr",
    "hadamard",
    "hybrid",
    "laplace",
    "olh",
    "oue",
    "piecewise",
    "square_wave",
    "subset_selection",
    "sue",
]
InnerName: TypeAlias = Literal[
    "app",
    "app_s",
    "capp",
    "capp_s",
    "ipp",
    "ipp_s",
    "sampling",
    "sw_direct",
]

@overload
def mechanism(
    name: Literal["adaptive"],
    *,
    epsilon: float,
    categories: int | list[str] | tuple[str, ...],
    minimize: Literal["variance", "bytes"] = "variance",
) -> (
    mechanisms.GeneralizedRandomizedResponse
    | mechanisms.OptimalLocalHashing
    | mechanisms.OptimizedUnaryEncoding
    | mechanisms.SubsetSelection
): ...
@overload
def mechanism(
    name: Literal["duchi"],
    *,
    epsilon: float,
    domain: tuple[float, float] = (-1.0, 1.0),
) -> mechanisms.Duchi: ...
@overload
def mechanism(
    name: Literal["gaussian"],
    *,
    epsilon: float,
    delta: float,
    domain: tuple[float, float] = (0.0, 1.0),
    cells: int | None = None,
) -> mechanisms.Gaussian: ...
@overload
def mechanism(
    name: Literal["gaussian_vector"],
    *,
    epsilon: float,
    delta: float,
    dimension: int,
    diameter: float = 1.0,
    cells: int | None = None,
) -> mechanisms.GaussianVector: ...
@overload
def mechanism(
    name: Literal["grr"],
    *,
    epsilon: float,
    categories: int | list[str] | tuple[str, ...],
) -> mechanisms.GeneralizedRandomizedResponse: ...
@overload
def mechanism(
    name: Literal["hadamard"],
    *,
    epsilon: float,
    categories: int | list[str] | tuple[str, ...],
) -> mechanisms.Hadamard: ...
@overload
def mechanism(
    name: Literal["hybrid"],
    *,
    epsilon: float,
    domain: tuple[float, float] = (-1.0, 1.0),
    cells: int = 1024,
) -> mechanisms.Hybrid | mechanisms.Duchi: ...
@overload
def mechanism(
    name: Literal["laplace"],
    *,
    epsilon: float,
    domain: tuple[float, float] = (-1.0, 1.0),
    cells: int | None = None,
) -> mechanisms.Laplace: ...
@overload
def mechanism(
    name: Literal["olh"],
    *,
    epsilon: float,
    categories: int | list[str] | tuple[str, ...],
    prime: int | None = None,
) -> mechanisms.OptimalLocalHashing: ...
@overload
def mechanism(
    name: Literal["oue"],
    *,
    epsilon: float,
    categories: int | list[str] | tuple[str, ...],
) -> mechanisms.OptimizedUnaryEncoding: ...
@overload
def mechanism(
    name: Literal["piecewise"],
    *,
    epsilon: float,
    domain: tuple[float, float] = (-1.0, 1.0),
    cells: int = 1024,
) -> mechanisms.Piecewise: ...
@overload
def mechanism(
    name: Literal["square_wave"],
    *,
    epsilon: float,
    domain: tuple[float, float] = (0.0, 1.0),
    cells: int = 1024,
) -> mechanisms.SquareWave: ...
@overload
def mechanism(
    name: Literal["subset_selection"],
    *,
    epsilon: float,
    categories: int | list[str] | tuple[str, ...],
) -> mechanisms.SubsetSelection: ...
@overload
def mechanism(
    name: Literal["sue"],
    *,
    epsilon: float,
    categories: int | list[str] | tuple[str, ...],
) -> mechanisms.SymmetricUnaryEncoding: ...
@overload
def method(
    name: Literal["adapub"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.AdaPub: ...
@overload
def method(
    name: Literal["app"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    block: int | None = None,
) -> methods.AccumulatedPerturbation: ...
@overload
def method(
    name: Literal["app_s"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    block: int | None = None,
    segment: int | str | None = None,
    position: int | None = None,
) -> methods.SegmentedAccumulatedPerturbation: ...
@overload
def method(
    name: Literal["ba_sw"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.BudgetAbsorption: ...
@overload
def method(
    name: Literal["buc_order"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["sum", "point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    buckets: int | None = None,
) -> methods.BucOrder: ...
@overload
def method(
    name: Literal["budget_split"],
    *,
    epsilon: float,
    window: int,
    dimension: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    inner: InnerName = "sw_direct",
    block: int | None = None,
    segment: int | str | None = None,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.BudgetSplit: ...
@overload
def method(
    name: Literal["capp"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    block: int | None = None,
    clip: float | None = None,
) -> methods.ClippedAccumulatedPerturbation: ...
@overload
def method(
    name: Literal["capp_s"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    block: int | None = None,
    clip: float | None = None,
    segment: int | str | None = None,
    position: int | None = None,
) -> methods.SegmentedClippedAccumulatedPerturbation: ...
@overload
def method(
    name: Literal["cgm"],
    *,
    epsilon: float,
    delta: float,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    horizon: int | None = None,
    refresh: int | None = None,
    sigma: float | None = None,
    calibration: Literal["sound", "published"] = "sound",
    differential_bound: float = 0.05,
    lag: int = 1,
    change: Literal["additive", "multiplicative"] = "additive",
) -> methods.CorrelatedGaussian: ...
@overload
def method(
    name: Literal["cgm_pure"],
    *,
    epsilon: float,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    horizon: int | None = None,
    refresh: int | None = None,
    sigma: float | None = None,
    calibration: Literal["sound", "published"] = "sound",
    differential_bound: float = 0.05,
    lag: int = 1,
    change: Literal["additive", "multiplicative"] = "additive",
) -> methods.CorrelatedLaplace: ...
@overload
def method(
    name: Literal["cgm_vector"],
    *,
    epsilon: float,
    delta: float,
    dimension: int,
    mechanism: MechanismName | Callable[..., Any] | None = None,
    horizon: int | None = None,
    refresh: int | None = None,
    sigma: float | None = None,
    calibration: Literal["sound", "published"] = "sound",
    differential_bound: float = 0.05,
    lag: int = 1,
    diameter: float = 1.0,
) -> methods.CorrelatedGaussianVector: ...
@overload
def method(
    name: Literal["comp_order"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.CompOrder: ...
@overload
def method(
    name: Literal["contin_group"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["sum", "point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    theta: float | None = None,
) -> methods.ContinGroup: ...
@overload
def method(
    name: Literal["discontin_group"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["sum", "point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    theta: float | None = None,
) -> methods.DiscontinGroup: ...
@overload
def method(
    name: Literal["dpi"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    synopses: int = 32,
) -> methods.Dpi: ...
@overload
def method(
    name: Literal["etm"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    delay: int | None = None,
    threshold: int | None = None,
) -> methods.Threshold: ...
@overload
def method(
    name: Literal["fast"],
    *,
    epsilon: float,
    horizon: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    samples: int | None = None,
    drift: float = 0.01,
    interval: int | None = None,
    filtered: bool = True,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.Fast: ...
@overload
def method(
    name: Literal["fast_cgm"],
    *,
    epsilon: float,
    delta: float,
    horizon: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    samples: int | None = None,
    differential_bound: float = 0.05,
    drift: float = 0.01,
    interval: int | None = None,
    filtered: bool = True,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.FastCorrelated: ...
@overload
def method(
    name: Literal["gaussian_differential"],
    *,
    epsilon: float,
    delta: float,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    horizon: int | None = None,
    refresh: int | None = None,
    sigma: float | None = None,
    calibration: Literal["sound", "published"] = "sound",
    differential_bound: float = 0.05,
) -> methods.GaussianDifferential: ...
@overload
def method(
    name: Literal["gaussian_differential_vector"],
    *,
    epsilon: float,
    delta: float,
    dimension: int,
    mechanism: MechanismName | Callable[..., Any] | None = None,
    horizon: int | None = None,
    refresh: int | None = None,
    sigma: float | None = None,
    calibration: Literal["sound", "published"] = "sound",
    differential_bound: float = 0.05,
    diameter: float = 1.0,
) -> methods.GaussianDifferentialVector: ...
@overload
def method(
    name: Literal["gaussian_direct"],
    *,
    epsilon: float,
    delta: float,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    horizon: int | None = None,
    refresh: int | None = None,
    sigma: float | None = None,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.GaussianDirect: ...
@overload
def method(
    name: Literal["gaussian_direct_vector"],
    *,
    epsilon: float,
    delta: float,
    dimension: int,
    mechanism: MechanismName | Callable[..., Any] | None = None,
    horizon: int | None = None,
    refresh: int | None = None,
    sigma: float | None = None,
    calibration: Literal["sound", "published"] = "sound",
    diameter: float = 1.0,
) -> methods.GaussianDirectVector: ...
@overload
def method(
    name: Literal["ipp"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.IterativePerturbation: ...
@overload
def method(
    name: Literal["ipp_s"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    segment: int | str | None = None,
    position: int | None = None,
) -> methods.SegmentedIterativePerturbation: ...
@overload
def method(
    name: Literal["lpu"],
    *,
    epsilon: float,
    window: int,
    categories: int | list[str] | tuple[str, ...],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    cover: bool = False,
) -> methods.PopulationUniform: ...
@overload
def method(
    name: Literal["matrix"],
    *,
    epsilon: float,
    delta: float,
    domain: tuple[float, float],
    moving_mean: int | None = None,
    bands: int | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.Matrix: ...
@overload
def method(
    name: Literal["naive"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.Naive: ...
@overload
def method(
    name: Literal["pegasus"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    theta: float | None = None,
) -> methods.Pegasus: ...
@overload
def method(
    name: Literal["pegasus_delay"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    theta: float | None = None,
) -> methods.PegasusDelay: ...
@overload
def method(
    name: Literal["pegasus_local"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    block: int | None = None,
    theta: float | None = None,
) -> methods.PegasusLocal: ...
@overload
def method(
    name: Literal["pm_direct"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    cover: bool = False,
) -> methods.PiecewiseDirect: ...
@overload
def method(
    name: Literal["sample_split"],
    *,
    epsilon: float,
    window: int,
    dimension: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    inner: InnerName = "sw_direct",
    block: int | None = None,
    segment: int | str | None = None,
    calibration: Literal["sound", "published"] = "sound",
) -> methods.SampleSplit: ...
@overload
def method(
    name: Literal["sampling"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    cover: bool = False,
    segment: int | str | None = None,
    position: int | None = None,
) -> methods.Sampling: ...
@overload
def method(
    name: Literal["segment_mean"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["sum"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    truncation: bool | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    segment: int | None = None,
) -> methods.SegmentMean: ...
@overload
def method(
    name: Literal["sppa"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    tau: float = 1.0,
    dimension: int | None = None,
) -> methods.SamplingPeriod: ...
@overload
def method(
    name: Literal["sw_direct"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    cover: bool = False,
) -> methods.Direct: ...
@overload
def method(
    name: Literal["swp"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    tau: float = 1.0,
    dimension: int | None = None,
) -> methods.SingleWindow: ...
@overload
def method(
    name: Literal["topl"],
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float],
    mechanism: MechanismName | Callable[..., Any] | None = None,
    calibration: Literal["sound", "published"] = "sound",
    first: int | None = None,
    scout: Callable[..., Any] = ...,
) -> methods.ThresholdPerturbation: ...
@overload
def method(
    name: Literal["truncate"],
    *,
    epsilon: float,
    delay: int,
    domain: tuple[float, float],
    setting: Literal["batch", "sliding"] = "batch",
    noise: Literal["point"] | None = None,
    smooth: bool | str | Mapping[str, int] | None = None,
    contribution: float | None = None,
    window: int = 1,
    calibration: Literal["sound", "published"] = "sound",
    thresholds: int = 32,
    interval: int = 1,
) -> methods.Truncate: ...
@overload
def protocol(
    name: Literal["lba"],
    *,
    epsilon: float,
    window: int,
    oracle: MechanismName | Callable[..., Any] | None = None,
    categories: int | list[str] | tuple[str, ...] | None = None,
    domain: tuple[float, float] | None = None,
    bins: int | None = None,
    norm_sub: bool = False,
    merge: bool = False,
    smooth: Literal["exponential", "kalman"] | None = None,
) -> protocols.BudgetAbsorption: ...
@overload
def protocol(
    name: Literal["lbd"],
    *,
    epsilon: float,
    window: int,
    oracle: MechanismName | Callable[..., Any] | None = None,
    categories: int | list[str] | tuple[str, ...] | None = None,
    domain: tuple[float, float] | None = None,
    bins: int | None = None,
    norm_sub: bool = False,
    merge: bool = False,
    smooth: Literal["exponential", "kalman"] | None = None,
) -> protocols.BudgetDistribution: ...
@overload
def protocol(
    name: Literal["lbu"],
    *,
    epsilon: float,
    window: int,
    oracle: MechanismName | Callable[..., Any] | None = None,
    categories: int | list[str] | tuple[str, ...] | None = None,
    domain: tuple[float, float] | None = None,
    bins: int | None = None,
    norm_sub: bool = False,
    merge: bool = False,
    smooth: Literal["exponential", "kalman"] | None = None,
) -> protocols.BudgetUniform: ...
@overload
def protocol(
    name: Literal["lpa"],
    *,
    epsilon: float,
    window: int,
    oracle: MechanismName | Callable[..., Any] | None = None,
    categories: int | list[str] | tuple[str, ...] | None = None,
    domain: tuple[float, float] | None = None,
    bins: int | None = None,
    norm_sub: bool = False,
    merge: bool = False,
    smooth: Literal["exponential", "kalman"] | None = None,
) -> protocols.PopulationAbsorption: ...
@overload
def protocol(
    name: Literal["lpd"],
    *,
    epsilon: float,
    window: int,
    oracle: MechanismName | Callable[..., Any] | None = None,
    categories: int | list[str] | tuple[str, ...] | None = None,
    domain: tuple[float, float] | None = None,
    bins: int | None = None,
    norm_sub: bool = False,
    merge: bool = False,
    smooth: Literal["exponential", "kalman"] | None = None,
) -> protocols.PopulationDistribution: ...
@overload
def protocol(
    name: Literal["lpu"],
    *,
    epsilon: float,
    window: int,
    oracle: MechanismName | Callable[..., Any] | None = None,
    categories: int | list[str] | tuple[str, ...] | None = None,
    domain: tuple[float, float] | None = None,
    bins: int | None = None,
    norm_sub: bool = False,
    merge: bool = False,
    smooth: Literal["exponential", "kalman"] | None = None,
) -> protocols.PopulationUniform: ...
@overload
def protocol(
    name: Literal["lsp"],
    *,
    epsilon: float,
    window: int,
    oracle: MechanismName | Callable[..., Any] | None = None,
    categories: int | list[str] | tuple[str, ...] | None = None,
    domain: tuple[float, float] | None = None,
    bins: int | None = None,
    norm_sub: bool = False,
    merge: bool = False,
    smooth: Literal["exponential", "kalman"] | None = None,
) -> protocols.SamplingPublication: ...
