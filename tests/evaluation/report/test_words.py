"""What the report knows of experiments beforehand: columns, tables and figures."""

from __future__ import annotations

import pytest

from ldp_kafka.evaluation.experiments import EXPERIMENTS
from ldp_kafka.evaluation.report.columns import COLUMNS, TIMES, unexplained
from ldp_kafka.evaluation.report.papers import PAPERS, STAYS_OUT, shown
from tests import needs


def columns(name):
    """Of an experiment's rows, with what the last of them has."""
    experiment = EXPERIMENTS[name]
    return {key: value for row in experiment.rows(**experiment.quick) for key, value in row.items()}


@pytest.mark.parametrize("name", ["cgm", "ldp-ids-meters", "ldp-ids-scale", "sppa-monitoring"])
def test_columns_are_explained(name):
    assert not unexplained(columns(name))


@pytest.mark.papers
def test_every_column_of_every_experiment_is_explained():
    """And none that there is not; what is printed stands before a figure of ours."""
    with needs.data():
        found = {name: columns(name) for name in EXPERIMENTS}
    assert not {name: unexplained(of) for name, of in found.items() if unexplained(of)}
    assert not COLUMNS.keys() - {each for of in found.values() for each in of}
    for name, of in found.items():
        if "printed" in of:
            names = list(of)
            ours = names[names.index("printed") + 1]
            assert isinstance(of[ours], float), (name, ours)


def test_columns_are_in_order():
    assert sorted(COLUMNS) == list(COLUMNS)
    assert not TIMES - COLUMNS.keys()


def test_experiments_show_what_is_in_the_papers():
    """Some of it; and what stays out is shown by none."""
    for each in EXPERIMENTS.values():
        assert {*shown(each.shows)} <= {*PAPERS[each.paper].shows}, each.title
        assert ("igure" in each.shows or "able" in each.shows) is bool(shown(each.shows))
    made = {(each.paper, what) for each in EXPERIMENTS.values() for what in shown(each.shows)}
    assert len(made) >= 12
    assert not made & STAYS_OUT.keys()
    for paper, what in STAYS_OUT:
        assert what in PAPERS[paper].shows


def test_every_experiment_says_what_it_is_made_of():
    assert not [name for name, each in EXPERIMENTS.items() if not each.data]
