"""How many runs are made."""

from __future__ import annotations

import pytest

from ldp_kafka.runtime.coverage import released
from ldp_kafka.runtime.coverage.released import cells
from ldp_kafka.runtime.coverage.subjects import SUBJECTS
from tests.cases import cases


@pytest.fixture
def made(monkeypatch):
    """The users of each run."""
    monkeypatch.setattr(released, "BATCH", 40)
    found = []
    values_of = released.values_of

    def counted(subject, stream, users, rng):
        found.append(users)
        return values_of(subject, stream, users, rng)

    monkeypatch.setattr(released, "values_of", counted)
    return found


def of(method, stream, runs):
    [one] = [each for each in SUBJECTS if (each.method, each.statistic) == (method, "per_stream")]
    return cells(one, stream, 1, runs, seed=1)


@cases("runs", [2, 39, 40])
def test_so_few_are_as_many_as_asked(runs, made):
    made.clear()
    of("naive", "skewed", runs)
    assert made == [1] * runs


def test_no_more_than_say_enough(made):
    """Of one cell, few runs of the many that there may be say so."""
    rows = of("segment_mean", "all in one", 4000)
    assert all(row.decided for row in rows)
    assert sum(made) < 2000


def test_more_for_cells_that_are_not_in_all_runs(made):
    """A stream is low or high: each kind in as many runs as are asked for, or told apart."""
    rows = of("naive", "skewed", 80)
    assert all(row.decided or row.runs >= 80 for row in rows) or sum(made) == 4 * 80
    assert 80 < sum(made) <= 4 * 80
