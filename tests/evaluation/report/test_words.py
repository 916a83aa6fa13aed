"""What the report knows of experiments beforehand: columns, tables and figures."""

from __future__ import annotations

from html import unescape

import pytest

from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.experiments import EXPERIMENTS
from ldp_kafka.evaluation.report.columns import COLUMNS, TIMES, unexplained
from ldp_kafka.evaluation.report.papers import PAPERS, STAYS_OUT, shown
from ldp_kafka.evaluation.report.run import PAGE, report
from ldp_kafka.evaluation.sources import SOURCES
from tests import needs


def columns(name):
    """Of an experiment's rows, with what the last of them has."""
    experiment = EXPERIMENTS[name]
    return {key: value for row in experiment.rows(**experiment.quick) for key, value in row.items()}


@pytest.mark.parametrize("name", ["cgm", "ldp-ids-meters", "ldp-ids-scale", "sppa-monitoring"])
def test_columns_are_explained(name):
    assert not unexplained(columns(name))


@pytest.mark.papers
def test_the_whole_report(tmp_path):
    """Every experiment at quick depth, and the page of all of them. Every column is explained, and
    none that there is not; what is printed stands before a figure of ours.
    """
    with needs.data():
        for file in SOURCES:
            data.find(file)
    made = report(tmp_path, quick=True, jobs=2)
    assert made.documents.keys() == EXPERIMENTS.keys()
    assert not made.absent
    text = (tmp_path / PAGE).read_text("utf-8")
    assert all(each.about in unescape(text) for each in EXPERIMENTS.values())
    found = {
        name: {key: value for row in each["rows"] for key, value in row.items()}
        for name, each in made.documents.items()
    }
    assert not {name: unexplained(of) for name, of in found.items() if unexplained(of)}
    assert not COLUMNS.keys() - {each for of in found.values() for each in of}
    for name, of in found.items():
        if "printed" in of:
            names = list(of)
            ours = names[names.index("printed") + 1]
            values = [row[ours] for row in made.documents[name]["rows"]]
            assert any(isinstance(value, float) for value in values), (name, ours)


def test_columns_are_in_order():
    assert sorted(COLUMNS) == list(COLUMNS)
    assert not TIMES - COLUMNS.keys()


def test_experiments_show_what_is_in_the_papers():
    """All of it but what stays out, which is shown by none."""
    for each in EXPERIMENTS.values():
        assert {*shown(each.shows)} <= {*PAPERS[each.paper].shows}, each.title
        assert ("igure" in each.shows or "able" in each.shows) is bool(shown(each.shows))
    made = {(each.paper, what) for each in EXPERIMENTS.values() for what in shown(each.shows)}
    assert not made & STAYS_OUT.keys()
    every = {(paper, what) for paper, of in PAPERS.items() for what in of.shows}
    assert made | STAYS_OUT.keys() == every


def test_every_experiment_says_what_it_is_made_of():
    assert not [name for name, each in EXPERIMENTS.items() if not each.data]
