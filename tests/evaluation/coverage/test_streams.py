"""Streams whose releases are judged."""

from __future__ import annotations

import numpy as np

from ldp_kafka.evaluation.coverage.streams import STREAMS, categories, numbers
from tests.cases import cases

USERS, SLOTS = 400, 12


@cases("name", STREAMS)
def test_values_are_in_range(name):
    rng = np.random.default_rng(1)
    values, codes = numbers(name, USERS, SLOTS, rng), categories(name, USERS, SLOTS, rng)
    assert values.shape == codes.shape == (USERS, SLOTS)
    there = values[~np.isnan(values)]
    assert there.min() >= 0
    assert there.max() <= 1
    assert {*np.unique(codes).tolist()} <= {-1, 0, 1, 2}


def means(name):
    return np.nanmean(numbers(name, USERS, SLOTS, np.random.default_rng(2)), axis=0)


def shares(name):
    codes = categories(name, USERS, SLOTS, np.random.default_rng(2))
    return (codes == 0).sum(axis=0) / (codes >= 0).sum(axis=0)


def test_each_is_what_it_is_called():
    """The crowd's mean, or the first category's share, by slot."""
    for of in (means, shares):
        assert np.ptp(of("constant")) == np.ptp(of("skewed")) == np.ptp(of("all in one")) == 0
        assert np.ptp(of("random walk")) > 0.01
        assert np.allclose(of("daily season")[:4], of("daily season")[8:], atol=0.03)
        assert np.ptp(of("daily season")) > 0.2
        before, after = np.split(of("jump"), [SLOTS // 2])
        assert np.ptp(before) < 1e-12
        assert np.ptp(after) < 1e-12
        assert abs(after[0] - before[0]) > 0.29
        before, after = np.split(of("two kinds"), [SLOTS // 2])
        assert np.ptp(before) == np.ptp(after) == 0
    kinds = numbers("two kinds", USERS, SLOTS, np.random.default_rng(2))
    assert [{*kinds[:, at].round(9).tolist()} for at in (0, -1)] == [{0.2, 0.8}, {0.0, 0.5}]
    assert means("two kinds")[0] > means("two kinds")[-1] + 0.2
    assert shares("all in one")[0] == 1
    skewed = numbers("skewed", USERS, 1, np.random.default_rng(2))
    assert 0 < (skewed > 0.9).mean() < 0.05
    assert ((skewed <= 0.1) | (skewed > 0.9)).all()


def test_the_rare_are_met_among_few_users_too():
    """In a quarter of the runs or so: else no number of runs would tell of them."""
    rng = np.random.default_rng(4)
    for users in (1, 5, 30):
        runs = [(numbers("skewed", users, 1, rng) > 0.9).any() for _ in range(400)]
        assert 0.15 < np.mean(runs) < 0.6


def test_who_is_there():
    rng = np.random.default_rng(3)
    few = ~np.isnan(numbers("few reports", USERS, SLOTS, rng))
    assert 0.05 < few.mean() < 0.15
    goes = ~np.isnan(numbers("come and go", USERS, SLOTS, rng))
    assert 0.3 < goes.mean() < 0.7
    assert 0.05 < (goes[:, 1:] != goes[:, :-1]).mean() < 0.25
    for name in STREAMS.keys() - {"few reports", "come and go"}:
        assert not np.isnan(numbers(name, 5, SLOTS, rng)).any()
