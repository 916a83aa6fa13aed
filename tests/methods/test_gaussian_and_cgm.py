"""Methods of normal noise, and of Laplace noise, over a user's life."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.methods.lifelong import LIFE_CHECKS, life

FAR = {"epsilon": 8.0, "horizon": 40, "differential_bound": 0.02, "domain": (-10.0, 30.0)}
RATIO = {**FAR, "differential_bound": 0.1, "domain": (1.0, 100.0), "change": "multiplicative"}
SPECIMENS = {
    "direct": life("gaussian_direct", horizon=13),
    "direct-refresh": life("gaussian_direct", horizon=20, refresh=1),
    "direct-sigma": life("gaussian_direct", sigma=12.5),
    "differential": life("gaussian_differential", horizon=13, domain=(-3.0, 7.0)),
    "cgm": life("cgm", horizon=12),
    "cgm-1": life("cgm", horizon=1),
    "cgm-2": life("cgm", horizon=2, differential_bound=0.3),
    "cgm-long": life("cgm", horizon=40, differential_bound=0.02, domain=(-10.0, 30.0)),
    "cgm-refresh": life("cgm", horizon=30, refresh=4),
    "cgm-sigma": life("cgm", sigma=13.0, epsilon=0.9),
    "cgm-lag": life("cgm", horizon=21, lag=3),
    "cgm-ratio": life(
        "cgm", horizon=15, change="multiplicative", differential_bound=0.1, domain=(1.0, 100.0)
    ),
    "cgm-wide": life("cgm", horizon=9, differential_bound=0.49),
    "pure": life("cgm_pure", "laplace", epsilon=2.0, horizon=12),
    "pure-1": life("cgm_pure", "laplace", epsilon=1.0, horizon=1),
    "pure-long": life("cgm_pure", "laplace", **FAR),
    "pure-refresh": life("cgm_pure", "laplace", epsilon=1.0, horizon=30, refresh=4),
    "pure-sigma": life("cgm_pure", "laplace", epsilon=1.0, sigma=13.0),
    "pure-lag": life("cgm_pure", "laplace", epsilon=2.0, horizon=21, lag=3),
    "pure-ratio": life("cgm_pure", "laplace", **RATIO),
    "pure-wide": life("cgm_pure", "laplace", epsilon=1.0, horizon=9, differential_bound=0.49),
    "fast_cgm": life("fast_cgm", horizon=40, samples=12, interval=1),
    "fast_cgm-far": life("fast_cgm", horizon=40, samples=9, interval=3),
    "fast_cgm-adaptive": life("fast_cgm", horizon=30, samples=10),
    "fast": life("fast", "laplace", epsilon=1.0, horizon=40, samples=12, interval=1),
    "fast-adaptive": life("fast", "laplace", epsilon=50.0, horizon=30),
    "fast-samples": life("fast", "laplace", epsilon=50.0, horizon=30, filtered=False),
    "fast_cgm-samples": life("fast_cgm", horizon=40, samples=12, interval=2, filtered=False),
}
LAPLACE = "Laplace: the certificate of its mechanism and the number of reports are the proof"
INAPPLICABLE = {
    **{
        (name, "noise_is_keyed"): "it reports once: no value comes in two slots"
        for name in ("cgm-1", "pure-1")
    },
    **{
        (name, "draws_move_within_the_budget"): LAPLACE
        for name in ("fast", "fast-adaptive", "fast-samples")
    },
    (
        "fast_cgm-adaptive",
        "draws_move_within_the_budget",
    ): "its samples follow the noise: the other two, whose slots are fixed, have the same draws",
}


@pytest.mark.parametrize("specimen", SPECIMENS)
@cases("check", LIFE_CHECKS)
def test_contract(specimen, check):
    if (specimen, check) in INAPPLICABLE:
        return
    LIFE_CHECKS[check](SPECIMENS[specimen])
