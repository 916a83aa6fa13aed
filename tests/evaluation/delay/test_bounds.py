"""Equation 2 and the theorems by hand, and that a bound that is too low is told."""

from __future__ import annotations

import json
from math import exp, log

import numpy as np
import pytest

from ldp_kafka.evaluation.delay import bounds
from ldp_kafka.evaluation.delay.bounds import helps_up_to, kept, least, most, thresholds
from ldp_kafka.evaluation.delay.streams import Stream


def test_table_one_is_equation_two():
    rows = thresholds()
    assert len(rows) == 24
    assert [each.reproduced for each in bounds.of_thresholds(rows)] == [True, True, False]
    off = [dict(row, printed=row["printed"] + 0.01, ratio=1.01) for row in rows]
    assert [each.reproduced for each in bounds.of_thresholds(off)] == [False, False, True]


@pytest.mark.parametrize("n", [2, 5, 30])
def test_no_group_up_to_the_exact_deviation_is_made_worse(n):
    """And one of a pair of values that lie apart by it is not made better."""
    saved = 2 / 0.5**2 * (n - sum(1 / i for i in range(1, n + 1)))

    def bias(group):
        means = group.cumsum() / np.arange(1, n + 1)
        return float(((means - group) ** 2).sum())

    groups = np.random.default_rng(1).normal(0, 1, (200, n))
    groups -= groups.mean(1, keepdims=True)
    groups *= helps_up_to(n, 0.5) / np.abs(groups).sum(1, keepdims=True)
    assert max(map(bias, groups)) <= saved * (1 + 1e-9)
    pairs = [
        (np.eye(n)[i] - np.eye(n)[j]) * helps_up_to(n, 0.5) / 2
        for i in range(n)
        for j in range(n)
        if i != j
    ]
    assert max(map(bias, pairs)) == pytest.approx(saved)


def test_theorems_by_hand():
    """Epsilon 10: 2 for groups and 8 for values, 2.5 and 7.5 for orders."""
    theta, away = 3 / 700, 4 * log(2 / 1.5) / 2
    middle = 4 * (0.5 * theta**2 + 0.5 * (theta + away) ** 2)
    for printed, told in ((True, 2), (False, 8)):
        found = most("contin_group", 10.0, 4, 3.0, 0.5, printed=printed)
        assert found == pytest.approx(3 * 2 / told**2 + middle)
    told = exp(2.5)
    for printed, right, flipped in ((True, 1 / 49, 1 / 9), (False, told / 49, 1 / 6)):
        found = most("buc_order", 10.0, 4, 7, 0.0, printed=printed)
        mapped = 4 * (right + 6 * flipped) / (told + 6)
        assert found == pytest.approx(7 * 2 / 7.5**2 + mapped)
    assert least(10.0, 10, printed=True) == pytest.approx((1 - 2 * exp(-2.5 * 700 / 11 / 16)) ** 2)
    assert least(10.0, 10, printed=False) == 0
    right = 1 - 2 * exp(-2500 / 10 / 11 / 16)
    assert least(1e4, 10, printed=False) == pytest.approx(right**2)


def test_groups_and_wrong_members_are_counted():
    values = np.array([[0.0, 0.0, 9.0, 9.0]])
    assert bounds._grouped(values, np.array([[1.0, 1.0, 2.0, 2.0]])) == (2, 0)
    assert bounds._grouped(values, np.array([[1.0, 1.0, 1.0, 1.0]])) == (1, 2 / 4)


class Turned:
    """Releases values times a factor."""

    delay = 4

    def __init__(self, factor):
        self.factor = factor

    def release(self, streams, randomness):
        del randomness
        return streams * self.factor


def test_places_are_kept_or_not():
    assert kept(Turned(1.0), runs=5, seed=1)[0] == 1
    assert kept(Turned(-1.0), runs=5, seed=1)[0] == kept(Turned(0.0), runs=5, seed=1)[0] == 0


def test_every_method_is_held_against_its_theorem(monkeypatch):
    """Rows are plain data, and a bound holds where what is measured is on its side."""
    made_up = Stream("s", 350 + 200 * np.sin(np.arange(41.0))[None], (0.0, 700.0), 100.0)
    monkeypatch.setattr(bounds, "stream", lambda _: made_up)
    rows = json.loads(json.dumps(bounds.bounds(epsilons=(1.0,), delays=(4,), repeats=1)))
    assert [row["theorem"] for row in rows] == [4, 4, 4, 4, 6, 6, 5, 5]
    for row in rows:
        above = row["measured"] >= row["bound"]
        assert row["holds"] is (above if row["theorem"] == 5 else not above)


def test_a_claim_for_each_theorem_and_form():
    rows = [
        {"theorem": theorem, "form": form, "holds": (theorem, form) != (6, "printed")}
        for theorem in (4, 5, 6)
        for form in bounds.FORMS
    ]
    missed = [each.statement for each in bounds.of_bounds(rows) if not each.reproduced]
    assert missed == ["the bound of Theorem 6 holds, printed"]
