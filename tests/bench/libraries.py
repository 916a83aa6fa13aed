"""The mechanisms beside those of other libraries, as each is meant to be called, in one run; needs
the extra ``bench``. Most of them take one value a call, ours a column of them.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ldp_kafka as lk
from tests.bench.measure import Figure, cores, interleave, pin, ratio, say

CATEGORIES, EPSILON = 100, 1.0
FEW = 500  # calls of a library that takes one value a call

Work = dict[str, tuple[int, Callable[[], object]]]
"""Name -> (values in one call, the call)."""


def measure(*, quick: bool = False) -> list[Figure]:
    pin(cores()[0])
    n, rounds, least = (2**12, 2, 0.005) if quick else (2**18, 5, 0.1)
    ours, others = ours_of(n), {}
    for library in (multi_freq_ldpy, pure_ldp, diffprivlib, opendp):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of packages that are not ours
                others.update(
                    {f"{name} ({library.__name__})": work for name, work in library(FEW).items()}
                )
        except ImportError as missing:
            say(f"libraries: {library.__name__} is left out: {missing}; install the extra bench")
    say(f"libraries: {rounds} rounds of {n} values")
    everything = {**ours, **others}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = interleave({name: call for name, (_, call) in everything.items()}, rounds, least)
    speed = {name: [everything[name][0] / s for s in found] for name, found in seconds.items()}
    figures = []
    for name in ours:
        figures.append(
            Figure("libraries", name, "values/s", tuple(speed[name]), note="secure words")
        )
        for other in others:
            if other.startswith(f"{name} ("):
                figures.append(Figure("libraries", other, "values/s", tuple(speed[other])))
                figures.append(
                    ratio(
                        "libraries",
                        f"{name}: ours / {other.split('(')[1][:-1]}",
                        speed[name],
                        speed[other],
                    )
                )
    return figures


def ours_of(n: int) -> Work:
    """Ours, all with system randomness; aggregation of as many reports."""
    system = lk.randomness.system()
    rng = np.random.default_rng(1)
    codes, values = rng.integers(0, CATEGORIES, n), rng.uniform(-1, 1, n)

    def perturb(name: str) -> tuple[int, Callable[[], object]]:
        mechanism = lk.mechanism(name, epsilon=EPSILON, categories=CATEGORIES)
        return n, lambda: mechanism.perturb(codes, system)

    def aggregate(name: str) -> tuple[int, Callable[[], object]]:
        mechanism = lk.mechanism(name, epsilon=EPSILON, categories=CATEGORIES)
        reports = mechanism.perturb(codes, system)
        return n, lambda: mechanism.estimate(reports)

    laplace = lk.mechanism("laplace", epsilon=EPSILON, domain=(-1.0, 1.0))
    gaussian = lk.mechanism("gaussian", epsilon=EPSILON, delta=1e-5, domain=(-1.0, 1.0))
    work: Work = {
        name: perturb(name) for name in ("grr", "sue", "oue", "olh", "subset_selection", "hadamard")
    }
    work |= {f"{name}, aggregation": aggregate(name) for name in ("grr", "oue", "olh", "hadamard")}
    return work | {
        "laplace": (n, lambda: laplace.perturb(values, system)),
        "gaussian": (n, lambda: gaussian.perturb(values, system)),
    }


def each(n: int, call: Callable[[], object]) -> tuple[int, Callable[[], object]]:
    """A call of one value, so many times."""

    def all_of_them() -> None:
        for _ in range(n):
            call()

    return n, all_of_them


def multi_freq_ldpy(n: int) -> Work:
    """Arcolezi et al., CIKM 2022."""
    oracle = {
        name: importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{name}")
        for name in ("GRR", "UE", "LH", "SS")
    }
    k, e = CATEGORIES, EPSILON
    hashed = [oracle["LH"].LH_Client(3, k, e, True) for _ in range(n)]
    lies = [oracle["GRR"].GRR_Client(3, k, e) for _ in range(n)]
    bits = [oracle["UE"].UE_Client(3, k, e, True) for _ in range(n)]
    return {
        "grr": each(n, lambda: oracle["GRR"].GRR_Client(3, k, e)),
        "sue": each(n, lambda: oracle["UE"].UE_Client(3, k, e, False)),
        "oue": each(n, lambda: oracle["UE"].UE_Client(3, k, e, True)),
        "olh": each(n, lambda: oracle["LH"].LH_Client(3, k, e, True)),
        "subset_selection": each(n, lambda: oracle["SS"].SS_Client(3, k, e)),
        "grr, aggregation": (n, lambda: oracle["GRR"].GRR_Aggregator_MI(lies, k, e)),
        "oue, aggregation": (n, lambda: oracle["UE"].UE_Aggregator_MI(bits, e, True)),
        "olh, aggregation": (n, lambda: oracle["LH"].LH_Aggregator_MI(hashed, k, e, True)),
    }


def pure_ldp(n: int) -> Work:
    """Cormode, Maddock and Maple, VLDB 2021."""
    oracle = {
        name: importlib.import_module(f"pure_ldp.frequency_oracles.{name}")
        for name in ("direct_encoding", "unary_encoding", "local_hashing", "hadamard_response")
    }
    shape = {"epsilon": EPSILON, "d": CATEGORIES}
    grr = oracle["direct_encoding"].DEClient(**shape)
    sue, oue = (
        oracle["unary_encoding"].UEClient(**shape, use_oue=optimal) for optimal in (False, True)
    )
    olh, server = (
        oracle["local_hashing"].LHClient(**shape, use_olh=True),
        oracle["local_hashing"].LHServer(**shape, use_olh=True),
    )
    reports = [olh.privatise(3) for _ in range(n)]

    def aggregate() -> None:
        server.reset()
        for report in reports:
            server.aggregate(report)

    return {
        "grr": each(n, lambda: grr.privatise(3)),
        "sue": each(n, lambda: sue.privatise(3)),
        "oue": each(n, lambda: oue.privatise(3)),
        "olh": each(n, lambda: olh.privatise(3)),
        "olh, aggregation": (n, aggregate),
    }


def diffprivlib(n: int) -> Work:
    """IBM's; its Laplace is that of Holohan and Braghin, 2021."""
    mechanisms: Any = importlib.import_module("diffprivlib.mechanisms")
    laplace, gaussian = (
        mechanisms.Laplace(epsilon=EPSILON, sensitivity=2),
        mechanisms.GaussianAnalytic(epsilon=EPSILON, delta=1e-5, sensitivity=2),
    )
    return {
        "laplace": each(n, lambda: laplace.randomise(0.3)),
        "gaussian": each(n, lambda: gaussian.randomise(0.3)),
    }


def opendp(n: int) -> Work:
    """OpenDP's; exact samplers, a vector a call."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    vectors, values = dp.vector_domain(dp.atom_domain(T=float, nan=False)), [0.3] * n
    laplace = dp.m.make_laplace(vectors, dp.l1_distance(T=float), scale=2 / EPSILON)
    gaussian = dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=7.46)
    e = np.exp(EPSILON)
    grr = dp.m.make_randomized_response(
        set(range(CATEGORIES)), prob=float(e / (e + CATEGORIES - 1))
    )
    return {
        "laplace": (n, lambda: laplace(values)),
        "gaussian": (n, lambda: gaussian(values)),
        "grr": each(n, lambda: grr(3)),
    }
