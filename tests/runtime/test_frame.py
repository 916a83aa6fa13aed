"""A topology over a table gives what a replay of the table gives, and says what it left out."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

import ldp_kafka as lk
from ldp_kafka.records import Release
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.releases.columns import table_of
from ldp_kafka.runtime.releases.rows import rows_of
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_table
from ldp_kafka.runtime.wire.codec import decode
from ldp_kafka.topology import loads
from tests.cases import cases
from tests.keys import KEY

TEXT = """
topology: meters
input: {{slot: 1h, lateness: 1, partitions: 3, user: $.meter, value: $.kwh, time: $.ts{more}}}
privacy: {{method: {method}, epsilon: 4.0, window: 4, {values}}}
output: {{statistics: [{statistic}]}}
"""
NUMBERS, NAMES = "domain: [0, 10]", "categories: [gas, oil, sun]"
TOPOLOGIES = {
    "mean": TEXT.format(method="sw_direct", values=NUMBERS, statistic="mean", more=""),
    "per user": TEXT.format(method="capp", values=NUMBERS, statistic="per_user", more=""),
    "asked": TEXT.format(method="lpa", values=NAMES, statistic="frequencies", more=""),
    "arrow": TEXT.format(
        method="lpu", values=NAMES, statistic="frequencies", more=", format: arrow"
    ),
    "curated": """
topology: meters
input: {slot: 1h, partitions: 3, user: $.meter, value: $.kwh, time: $.ts}
privacy:
  {trust: curator, level: event, method: segment_mean, epsilon: 4.0, delay: 3, domain: [0, 10]}
output: {statistics: [per_stream]}
""",
}


def events(topology, people=60, hours=12):
    """A table, in no order."""
    rng = np.random.default_rng(5)
    who, hour = np.divmod(rng.permutation(people * hours), hours)
    names = topology.privacy.category_names
    values = rng.integers(0, 3, len(who)) if names else rng.random(len(who)) * 10
    return pa.table(
        {
            "meter": [f"m{each}" for each in who],
            "ts": 1_700_002_800 + hour * 3600,
            "kwh": [names[each] for each in values] if names else values,
        }
    )


@cases("name", list(TOPOLOGIES))
def test_it_gives_what_a_replay_gives(name):
    topology = loads(TOPOLOGIES[name])
    table = events(topology)
    raw = as_log(topology, messages(topology, from_table(topology, table, "meter", "kwh", "ts")))
    replayed = local.run(topology, edge_randomness(topology, KEY, "here"), raw)
    rows = [
        row
        for record in replayed.releases
        for each in decode(record.value)
        if isinstance(each, Release)
        for row in rows_of(each)
    ]
    found = lk.run(topology, table, key=KEY, deployment="here")
    assert found.num_rows == len(rows) > 0
    assert found.equals(table_of(rows, topology.input.slot_ms))
    assert not found.equals(lk.run(topology, table, key=KEY, deployment="elsewhere"))
    assert not found.equals(lk.run(topology, table))  # a fresh key


class Frame:
    """What pandas and polars have."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, schema=None):
        return self._table.__arrow_c_stream__(schema)


def test_a_frame_is_whatever_gives_arrow(tmp_path):
    topology, path = loads(TOPOLOGIES["mean"]), tmp_path / "meters.yaml"
    path.write_text(TOPOLOGIES["mean"])
    table = events(topology)
    found = lk.run(path, table, key=KEY)
    assert found.equals(lk.run(topology, Frame(table), key=KEY))
    assert found.equals(lk.run(topology, table.to_pydict(), key=KEY))
    renamed = table.rename_columns(["who", "when", "what"])
    assert found.equals(lk.run(topology, renamed, user="who", value="what", time="when", key=KEY))


def test_the_last_slots_of_a_topic_of_somebody_else_are_closed():
    """Nothing comes after the table."""
    topology = loads(TOPOLOGIES["mean"])
    theirs = loads(
        TOPOLOGIES["mean"].replace("lateness: 1", "lateness: 1, topic: theirs, create: false")
    )
    table = events(topology)
    assert lk.run(theirs, table).num_rows == lk.run(topology, table).num_rows == 12


def test_rows_that_cannot_be_used_are_told_without_their_values():
    topology = loads(TOPOLOGIES["asked"])
    table = events(topology)
    bad = table.set_column(
        2, "kwh", pa.array(["secret-word", None, *table["kwh"].to_pylist()[2:]], pa.string())
    )
    with pytest.warns(UserWarning, match=r"rows that could not be used \(\w+: 1\)$") as caught:
        lk.run(topology, bad)
    assert "secret" not in str(caught[0].message)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.run(topology, table)


@pytest.mark.parametrize("frame", [7, "rows", [1, 2], np.zeros((3, 3)), None])
def test_what_is_no_table(frame):
    with pytest.raises(lk.ConfigurationError, match="the frame must be a table with named columns"):
        lk.run(loads(TOPOLOGIES["mean"]), frame)


def test_nothing_of_a_frame_stands_behind_an_error():
    mixed = {"meter": ["a", 1], "ts": [1_700_000_000] * 2, "kwh": ["secret", 1.0]}
    with pytest.raises(lk.ConfigurationError) as caught:
        lk.run(loads(TOPOLOGIES["mean"]), mixed)
    assert caught.value.__context__ is None and "secret" not in str(caught.value)


def test_what_cannot_be_run_so():
    with pytest.raises(lk.ConfigurationError, match="no column kwh"):
        lk.run(loads(TOPOLOGIES["mean"]), {"meter": ["a"], "ts": [1_700_000_000], "x": [1.0]})
    devices = TOPOLOGIES["mean"].replace(
        "user: $.meter, value: $.kwh, time: $.ts", "source: devices"
    )
    with pytest.raises(lk.ConfigurationError, match="has no raw topic"):
        lk.run(loads(devices), {"meter": ["a"]})
    theirs = TOPOLOGIES["mean"].replace(
        "lateness: 1", "lateness: 1, topic: rides, create: false, relay: rekey, sources: 2"
    )
    theirs += 'kafka: {bootstrap_servers: "broker:9092"}\n'
    with pytest.raises(lk.ConfigurationError, match=r"which a relay re-keys|relay: rekey"):
        lk.run(loads(theirs), events(loads(TOPOLOGIES["mean"])))
