"""Calls as users write them, with the types that they get: mypy reads this file
(`tests/typing/test_typing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

import ldp_kafka as lk
from ldp_kafka.mechanisms import (
    Duchi,
    GeneralizedRandomizedResponse,
    Hybrid,
    OptimalLocalHashing,
    SquareWave,
)
from ldp_kafka.methods import ClippedAccumulatedPerturbation, CorrelatedGaussian, SegmentMean
from ldp_kafka.methods.protocols import PopulationAbsorption, Trace


def mechanisms() -> None:
    grr = lk.mechanism("grr", epsilon=1.0, categories=16)
    assert_type(grr, GeneralizedRandomizedResponse)
    reports = grr.perturb(np.array([0, 3]), lk.randomness.seeded(7))
    assert_type(grr.estimate(reports), lk.Estimate)
    wave = lk.mechanism("square_wave", epsilon=1, domain=(0.0, 1.0), cells=64)
    assert_type(wave, SquareWave)
    assert_type(lk.mechanism("olh", epsilon=1.0, categories=4), OptimalLocalHashing)
    assert_type(lk.mechanism("hybrid", epsilon=1.0), Hybrid | Duchi)
    anyone: lk.Mechanism = lk.mechanism("adaptive", epsilon=1.0, categories=4, minimize="bytes")
    assert_type(anyone.certificate(), lk.Certificate)


def every_mechanism_is_a_mechanism() -> None:
    """Of the type that it is to have, and so may be handed to whoever asks for one."""
    pure: dict[str, Any] = {"epsilon": 1.0}
    approximate: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
    crowd: dict[str, Any] = {"epsilon": 1.0, "categories": 4}
    every: list[lk.Mechanism] = [
        lk.mechanism("adaptive", **crowd),
        lk.mechanism("duchi", **pure),
        lk.mechanism("gaussian", **approximate),
        lk.mechanism("gaussian_vector", dimension=2, **approximate),
        lk.mechanism("grr", **crowd),
        lk.mechanism("hadamard", **crowd),
        lk.mechanism("hybrid", **pure),
        lk.mechanism("laplace", **pure),
        lk.mechanism("olh", **crowd),
        lk.mechanism("oue", **crowd),
        lk.mechanism("piecewise", **pure),
        lk.mechanism("square_wave", **pure),
        lk.mechanism("subset_selection", **crowd),
        lk.mechanism("sue", **crowd),
    ]
    assert len(every) == len(lk.MECHANISMS)


def methods() -> None:
    capp = lk.method("capp", epsilon=1.0, window=10, domain=(0.0, 1.0), block=3)
    assert_type(capp, ClippedAccumulatedPerturbation)
    assert_type(capp.guarantee, lk.Guarantee)
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "horizon": 100}
    slow = lk.method("cgm", domain=(1.0, 2.0), change="multiplicative", **settings)
    assert_type(slow, CorrelatedGaussian)
    late = lk.method("segment_mean", epsilon=1.0, delay=10, domain=(0.0, 1.0), setting="sliding")
    assert_type(late, SegmentMean)
    usual: dict[str, Any] = {"epsilon": 1.0, "window": 2, "domain": (0.0, 1.0)}
    first: lk.Method = lk.method("sw_direct", mechanism="laplace", **usual)
    second: lk.Method = lk.method("sw_direct", mechanism=lk.MECHANISMS["duchi"], **usual)
    assert first.guarantee == second.guarantee
    choice = lk.choose_delay(epsilon=1.0, delay=10, domain=(0.0, 700.0), drift=0.02)
    if choice.take is not None:
        chosen: lk.DelayMethod = lk.method(choice.take.method, **choice.parameters)
        assert chosen.delay == 10


def protocols() -> None:
    lpa = lk.protocol("lpa", epsilon=1.0, window=4, categories=3, smooth="kalman", oracle="grr")
    assert_type(lpa, PopulationAbsorption)
    assert_type(lpa.run(np.zeros((1000, 8), int), lk.randomness.seeded(7)), Trace)


def names_of_the_run() -> None:
    make: Callable[..., Any] = lk.mechanism
    assert all(make(name, epsilon=1.0, categories=3).epsilon == 1.0 for name in ("grr", "oue"))


def records() -> None:
    found = lk.decode(lk.encode([lk.Event("m1", 0, 1.0), lk.Event("m2", 0, 2.0)]))
    assert_type(found, list[lk.Record])
    for record in found:
        if isinstance(record, lk.Release):
            assert_type(record.slot, int)
        elif isinstance(record, lk.DeadLetter):
            assert_type(record.reason, lk.errors.Reason)
        elif isinstance(record, lk.Event):
            assert_type(record.user, str)


def late_names() -> None:
    client: type[lk.Client] = lk.Client
    awaited: type[lk.AsyncClient] = lk.AsyncClient
    assert client.__name__ != awaited.__name__
