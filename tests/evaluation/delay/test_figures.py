"""Figures 5 to 10: what is tried, and that each claim can be told and missed."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.evaluation.delay import figures, parameters
from ldp_kafka.evaluation.delay.compared import MIDPOINT
from ldp_kafka.evaluation.delay.streams import Stream

BY = {experiment.name: experiment for experiment in figures.EXPERIMENTS}


def line(errors, **cell):
    """Rows along an axis."""
    return [{"mae": mae, "mae_error": 1.0, **figures.THEIRS, **cell} for mae in errors]


def told(claims):
    return [each.reproduced for each in claims]


@pytest.fixture
def waves(monkeypatch):
    """A made-up Unemployment: no file is read."""
    value = 300 + 100 * np.sin(np.arange(120) / 20)
    monkeypatch.setattr(
        parameters, "stream", lambda name: Stream(name, value[None], (0.0, 700.0), 100.0)
    )


@pytest.mark.parametrize(
    ("name", "more", "values"),
    [
        ("delay-length", {"delays": (4, 8)}, {3 / 700, 7.0}),
        ("delay-buckets", {"times": (1, 10)}, {10.0, 100.0}),
        ("delay-theta", {"thetas": (1, 17)}, {1.0, 17.0}),
    ],
)
def test_the_authors_values_are_tried_in_both_calibrations(waves, name, more, values):
    del waves
    rows = BY[name].rows(**{"streams": ("unemployment",), "repeats": 2, **more})
    theirs = [row for row in rows if row["method"] not in (MIDPOINT, "naive")]
    assert {row["calibration"] for row in theirs} == {"sound", "published"}
    assert {row["value"] for row in theirs if row["method"] != "comp_order"} == values
    sliding = {row["method"] for row in rows if row["setting"] == "sliding"}
    assert sliding == ({"comp_order"} if name == "delay-length" else set())
    assert all(each.settings for each in BY[name].claims(rows))
    (panels,) = BY[name].figures.values()
    assert all(len(each.x) >= 2 for panel in panels(rows) for each in panel.lines.values())


def test_claims_of_the_delay():
    cell = {"stream": "s", "calibration": "sound"}

    def rows(groups, buckets):
        return [
            *line(groups, method="discontin_group", **cell),
            *line(buckets, method="buc_order", **cell),
        ]

    assert told(figures.of_delay(rows([90, 50, 20], [60, 65, 61]))) == [True, True, True]
    assert told(figures.of_delay(rows([90, 50, 55], [95, 70, 61]))) == [False, False, False]
    assert told(figures.of_delay(rows([90, 50, 20], [60, 60.5, 61])))[1], "no clear pattern"


def test_claims_of_the_width():
    cell = {"stream": "unemployment", "calibration": "sound", "epsilon": 0.4, "method": "buc_order"}

    def rows(errors, middle):
        midpoint = {**cell, "method": MIDPOINT, "source": "default"}
        return [*line(errors, **cell), *line([middle], **{**midpoint, "source": "default"})]

    assert told(figures.of_width(rows([90, 50, 60], 49))) == [True, True, True]
    assert told(figures.of_width(rows([51, 50, 50], 51))) == [False, False, False]


def test_claims_of_theta():
    cell = {"stream": "s", "calibration": "sound", "method": "contin_group"}
    assert told(figures.of_theta(line([50, 52, 51], **cell))) == [True, True]
    assert told(figures.of_theta(line([50, 50, 50], **cell))) == [False, True]
    assert told(figures.of_theta(line([50, 56, 51], **cell))) == [True, False]
