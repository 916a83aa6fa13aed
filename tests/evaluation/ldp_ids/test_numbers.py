"""Means of numbers, and the largest shape in small."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.ldp_ids import means, meters, scale
from tests import needs


def statements(claims):
    return {each.statement: each for each in claims}


def test_the_figures_of_three_thousand_meters_come_out():
    """Within 3 %: on the domain of the shipped meters, and not on a wider one."""
    rows = meters.rows(slots=200)
    for row in rows:
        if row["domain"] == 7280:
            assert row["noise"] == pytest.approx(
                meters.GIVEN[row["method"], row["mechanism"]], rel=0.03
            )
        else:
            assert row["noise"] > 1.05 * row["given"]
    assert [each.reproduced for each in meters.claims(rows)] == [True, False, True, True]


def test_what_meters_claim_can_fail():
    rows = meters.rows((7280.0,), slots=50)
    wide = [dict(row, away=0.04, stated=2 * row["stated"]) for row in rows[1:]]
    assert not any(each.reproduced for each in meters.claims([rows[0], *wide]))


def test_users_divided_are_better_than_budgets_divided():
    rows = means.rows(
        [("meters", 1000)],
        epsilons=(1.0,),
        windows=(4, 20),
        compared=(("sw_direct", "square_wave"), ("capp", "square_wave"), ("lpu", "piecewise")),
        slots=24,
        repetitions=8,
    )
    found = means.claims(rows)
    assert [each.reproduced for each in found] == [True, True, True]
    turned = [dict(row, rmse=1 / row["rmse"], rmse_error=0.0) for row in rows]
    assert not any(each.reproduced for each in means.claims(turned))
    (experiment,) = means.EXPERIMENTS
    panels = experiment.figures[""](rows)
    assert [len(panel.lines) for panel in panels] == [3, 3]


def test_sw_direct_errs_as_its_law_says():
    """Its error over many slots and runs: within 15 % of what it states."""
    (row,) = means.rows(
        [("meters", 1000)],
        epsilons=(2.0,),
        windows=(4,),
        compared=(("sw_direct", "square_wave"),),
        slots=48,
        repetitions=8,
    )
    assert row["stated"] == pytest.approx(row["rmse"], rel=0.15)


@pytest.mark.parametrize("name", ["volume", "weights"])
def test_real_streams_are_there(name):
    with needs.data():
        found = means.numbers(name, 1000)
    assert found.values.shape == (1000, 48)
    assert 0 <= found.values.min() <= found.values.max() <= found.domain[1]


def test_there_are_only_so_many_users():
    with pytest.raises(ConfigurationError, match="known"):
        means.numbers("meter", 10)
    with needs.data():
        data.find("volume_hourly_dedup.csv")
    with pytest.raises(ConfigurationError, match="users"):
        means.numbers("volume", 100_000)


def test_the_largest_shape_in_small():
    """Minutes, memory and errors are stated, over the same streams."""
    (row,) = scale.rows(("lpu",), users=5000, slots=30, categories=20)
    assert (row["users"], row["slots"], row["categories"]) == (5000, 30, 20)
    assert row["minutes"] > 0
    assert row["cpu_minutes"] > 0
    assert row["megabytes"] > row["streams_megabytes"] == pytest.approx(5000 * 30 / 2**20)
    assert row["cfpu"] == pytest.approx(1 / 20, rel=0.05)
    (calibrated,) = scale.claims([row])
    assert calibrated.reproduced
    assert not scale.claims([dict(row, stated=row["stated"] * 2)])[0].reproduced


def test_clicks_are_those_of_all_users():
    found = scale.clicks(1000, 7, 9)
    assert found.shape == (7, 9)
    assert (found.sum(axis=1) == 1000).all()
    assert np.argmax(found.sum(axis=0)) == 0
