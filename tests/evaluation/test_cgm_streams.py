"""Errors of CGM on streams, slot by slot, and what is claimed of them."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.evaluation import cgm_streams
from ldp_kafka.evaluation.cgm import law, made
from ldp_kafka.evaluation.cgm_streams import by_slot, stand_in, stream_errors
from tests import needs


def test_errors_have_noise_and_what_clipping_keeps_back():
    """Of streams that jump, by hand; all users are off by the same, so that it stays in their
    mean, where noise does not.
    """
    slots, users = 6, 4_000
    jumps = np.repeat([0.0, 1.0], slots // 2)
    off = (jumps - np.array([0.0] * 3 + [0.05, 0.1, 0.15])) ** 2
    found = stream_errors("cgm", np.tile(jumps, (users, 1)), epsilon=10.0)
    sigma = made("cgm", 0.05, slots, epsilon=10.0).sigma
    noise = np.array([law("cgm", 0.05, at + 1) for at in range(slots)]) * sigma**2
    assert np.allclose(found["mse"], noise + off, atol=0, rtol=0.15)
    assert np.allclose(found["mse_of_mean"], noise / users + off, atol=3 * sigma / users**0.5)
    assert (found["mse_of_mean"][:3] < 0.01 * found["mse"][:3]).all()
    middle = stream_errors("midpoint", np.tile(jumps, (2, 1)))
    assert middle["mse"] == pytest.approx(np.full(slots, 0.25))
    assert middle["mse_of_mean"] == pytest.approx(np.full(slots, 0.25))


def test_epsilon_is_for_all_slots_or_for_each():
    """Noise of 48 reports under one budget has 48 times the variance of one, about."""
    values = np.full((400, 48), 0.5)
    whole, each = (
        stream_errors("gaussian_direct", values, epsilon=1.0, refresh=refresh)["mse"].mean()
        for refresh in (None, 1)
    )
    assert whole / each == pytest.approx(48, rel=0.05)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("weights", (10_000, 80)), ("volume", (1_000, 48)), ("regions", (1_152, 48))],
)
def test_stand_ins_have_the_sizes_that_are_stated(name, shape):
    with needs.data():
        found = stand_in(name)
    assert found.shape == shape
    assert 0 <= found.min() <= found.max() <= 1
    (said,) = (each.data for each in cgm_streams.EXPERIMENTS if name in each.rows.args[0])
    assert f"{shape[1]} " in said
    assert f"{shape[0]:,}" in said


@pytest.mark.parametrize("name", ["volume", "regions"])
def test_each_claim_can_be_told_and_missed(name, monkeypatch):
    """By errors that are made up: what holds where they are the paper's, and in reverse."""
    monkeypatch.setattr(cgm_streams, "stand_in", lambda _: np.full((2, 48), 0.5))
    rows = by_slot((name,), (0.01, 0.05), epsilons=(0.25, 2.0), size=96)

    def paper(row, sign):
        if row["method"] != "cgm":
            return (1 / row["epsilon"]) ** sign
        bias = (
            0.02 * (row["epsilon"] == 2.0) * (1 if name == "regions" else 0.1 / row["clip_bound"])
        )
        early = 1 / row["slot"] if sign < 0 or row["slot"] < 10 else 0.0
        return ((row["clip_bound"] + 0.01 + bias + early) / row["epsilon"]) ** sign

    for sign in (1, -1):
        columns = ("mse", "mse_of_mean")
        made_up = [row | dict.fromkeys(columns, paper(row, sign)) for row in rows]
        told = [each.reproduced for each in cgm_streams.claims(made_up)]
        assert told == [sign > 0] * len(told), (sign, told)
