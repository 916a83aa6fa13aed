"""Moves of users above a threshold, counted in their releases."""

from __future__ import annotations

from math import dist, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.sppa import velocity
from ldp_kafka.runtime.releases.columns import table_of
from ldp_kafka.runtime.releases.moves import moves_above
from ldp_kafka.runtime.releases.rows import rows_of
from ldp_kafka.topology import loads
from tests.runtime.releases.made import HOUR, read, release

NUMBER = st.none() | st.integers(0, 4).map(float)


def by_hand(releases, above, dimension):
    """A loop over the releases of each user."""
    found = {each.user: [0, 0] for each in releases if each.user}
    at = {(each.user, each.slot): each.value for each in releases if each.user}
    for (user, slot), value in at.items():
        pair = [at.get((user, slot - 1)), value]
        points = [each if isinstance(each, list) else [each] for each in pair]
        if all(len(each) == dimension and None not in each for each in points):
            found[user][0] += 1
            found[user][1] += dist(*points) > above
    return [{"subject": user, "moves": m, "above": n} for user, (m, n) in sorted(found.items())]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 6)),
        st.lists(NUMBER, min_size=2, max_size=2),
    ),
    st.sampled_from([0.0, 1.0, 1.5, 4.0]),
    st.booleans(),
)
def test_moves_are_those_of_a_loop(values, above, vectors):
    """Whatever is missing, of numbers and of vectors; the crowd's releases are nobody's."""
    every = [
        release(slot, value if vectors else value[0], "per_user", user=user)
        for (user, slot), value in values.items()
    ]
    every += [release(slot, 3.0) for slot in range(3)]
    table = table_of((row for each in every for row in rows_of(each)), HOUR)
    dimension = 2 if vectors and values else 1
    assert moves_above(table, above).to_pylist() == by_hand(every, above, dimension)


def test_velocities_of_sppa_are_counted_by_user():
    """A topology's releases, against the velocities of the paper's figure 8."""
    topology = loads("""
topology: trips
input: {slot: 1s, user: $.user, value: $.value, time: $.ts}
privacy: {method: sppa, epsilon: 6.0, window: 4, domain: [0, 10]}
output: {statistics: [per_user]}
""")
    users, slots, first = 5, 26, 1_700_000_000
    walks = np.cumsum(np.random.default_rng(1).normal(5 / 26, 0.3, (users, slots)), axis=1)
    events = {
        "user": np.repeat([f"u{at}" for at in range(users)], slots).tolist(),
        "value": walks.clip(0, 10).ravel().tolist(),
        "ts": np.tile(first + np.arange(slots), users).tolist(),
    }
    table = lk.run(topology, events)
    found = moves_above(table, 0.4).to_pylist()
    assert len(found) == users
    for row in found:
        mine = [each for each in table.to_pylist() if each["subject"] == row["subject"]]
        released = np.full(slots, nan)
        released[[each["slot"] - first for each in mine]] = [each["value"] for each in mine]
        moved = velocity(released[None])[0]
        assert row["moves"] == np.isfinite(moved).sum() > 10
        assert row["above"] == (moved > 0.4).sum()
    assert 0 < sum(row["above"] for row in found) < sum(row["moves"] for row in found)


def test_of_a_topic():
    every = [release(slot, float(slot % 2), "per_user", user="5f") for slot in range(4)]
    assert read(every).moves(0.5).to_pylist() == [{"subject": "5f", "moves": 3, "above": 3}]
    assert read([release(1)]).moves(0.5).num_rows == 0
    with pytest.raises(ConfigurationError, match="needs an end"):
        read([], []).moves(0.5)


@pytest.mark.parametrize("above", [-1.0, nan, inf])
def test_a_threshold_is_a_number(above):
    with pytest.raises(ConfigurationError, match="above must be a finite number"):
        read([]).moves(above)


def test_what_is_no_table_of_releases():
    table = read([]).table().drop_columns(["slot"])
    with pytest.raises(ConfigurationError, match="no column slot"):
        moves_above(table, 1.0)
