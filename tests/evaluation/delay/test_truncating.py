"""Figure 4: what is compared, and which methods have groups to sample."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.evaluation.delay import truncating
from ldp_kafka.evaluation.delay.streams import Stream


@pytest.fixture
def steps(monkeypatch):
    """A made-up stream, of which one value in forty is the domain's end."""
    values = np.where(np.arange(2000) % 40 == 7, 1000.0, 20.0)
    monkeypatch.setattr(
        truncating, "stream", lambda name: Stream(name, values[None], (0.0, 1000.0), 100.0)
    )


def test_every_method_of_groups_is_sampled(steps):
    """A threshold that a sample chose makes errors smaller, as one that all values paid for."""
    del steps
    rows = truncating.rows(("made up",), repeats=4)
    assert {row["method"] for row in rows if np.isnan(row["sampled_mae"])} == {*truncating.ALONE}
    points = [row for row in rows if row["method"] == "pegasus_delay"]
    assert all(row["sampled_mae"] < 0.8 * row["mae"] for row in points)
    (panel,) = truncating.panels(rows)
    assert [len(line.x) for line in panel.lines.values()] == [5, 5, 3]
