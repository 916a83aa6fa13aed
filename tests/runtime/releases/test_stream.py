"""Releases as they are read: each once, those that are wanted, and nothing is left open."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.releases import choosing
from ldp_kafka.runtime.releases.choosing import Choosing
from ldp_kafka.runtime.releases.columns import SCHEMA
from ldp_kafka.runtime.releases.since import since_of
from ldp_kafka.runtime.releases.stream import Releases
from ldp_kafka.runtime.wire.records import header
from tests.runtime.releases.made import HOUR, kept, read, release, shares


def test_each_once():
    """A worker that goes on after a crash writes the same bytes under the same key again; other
    numbers under a key are told of, and the first stay.
    """
    first, second = release(1), release(2)
    found = read([first, second, first, release(2, 99.0), second, release(3)])
    assert list(found) == [first, second, release(3)]
    assert (found.counts.given, found.counts.repeated, found.counts.changed) == (3, 3, 1)


def test_what_is_no_release():
    """A header record and a tombstone are nothing; what others wrote is counted."""
    tombstone = Kept(0, 9, 0, b"mean/1", None)
    begins = header("meters", "0" * 32, "0" * 32)
    records = [*kept([begins, b"junk", lk.encode(lk.Tick(3)), release(1)]), tombstone]
    found = Releases((each for each in records), None, Choosing(HOUR))
    assert list(found) == [release(1)]
    assert found.counts.unreadable == 2


def test_a_batch_is_its_releases():
    assert list(read([lk.encode([release(1), release(2)])])) == [release(1), release(2)]


def test_statistics_and_slots():
    """Slots that start at a time or later."""
    every = [release(slot, float(slot), name) for slot in range(4) for name in ("mean", "above")]
    found = read(every, statistics=frozenset(["mean"]), since=since_of("1970-01-01T02:00:00Z"))
    assert [(each.slot, each.statistic) for each in found] == [(2, "mean"), (3, "mean")]
    assert found.counts.left_out == 6
    between = read(every, since=since_of("1970-01-01T02:00:00.001Z"))
    assert {each.slot for each in between} == {3}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(1, 40))
def test_so_long_before_the_end_of_the_newest(slots, hours):
    """Whatever the order in which partitions come; in the order of slots; and from then on for
    what comes later.
    """
    newest = max(slots)
    wanted = sorted({slot for slot in slots if slot > newest - hours})
    everything = [release(slot) for slot in slots]
    found = read(everything, since=since_of(f"{hours}h"))
    assert [each.slot for each in found] == wanted
    late, new = newest - hours, newest + 40
    following = read(everything, [release(late), release(new)], since=since_of(f"{hours}h"))
    assert [each.slot for each in following] == [*wanted, new]


def test_following():
    """None wherever nothing is there at the moment, which the iterator of releases leaves out;
    what was there before is not given again.
    """
    later = [None, release(2), release(1), None, release(3)]
    found = read([release(1)], later)
    assert list(found.at_hand()) == [release(1), None, None, release(2), None, release(3)]
    assert list(read([release(1)], later)) == [release(1), release(2), release(3)]
    with pytest.raises(ConfigurationError, match="a table needs an end"):
        read([release(1)], later).table()


def test_a_follower_remembers_so_many(monkeypatch):
    """Of what comes later; of what the topic held all, until as much has come."""
    monkeypatch.setattr(choosing, "REMEMBERED", 3)
    held = [release(slot) for slot in range(10)]
    found = read([*held, *held], [release(9), release(11), release(12), release(11)])
    assert [each.slot for each in found] == [*range(10), 11, 12]
    found = read([], [release(slot) for slot in [*range(20), 19, 18, 17, 0]])
    assert [each.slot for each in found] == [*range(20), 0]


class Opened:
    """A source that knows whether it is open."""

    def __init__(self, values):
        self.open, self._values = 0, values

    def __call__(self):
        self.open += 1
        try:
            yield from kept(self._values)
        finally:
            self.open -= 1


@pytest.mark.parametrize("way", ["end", "close", "with", "break", "forgotten", "error"])
def test_nothing_stays_open(way):
    """However reading ends, while it reads what is there and what comes later."""
    for at in (1, 3):
        held, later = Opened([release(1), release(2)]), Opened([release(3), release(4)])
        found = Releases(held(), later, Choosing(HOUR))
        if way == "with":
            with found:
                assert [next(found) for _ in range(at)]
        elif way == "end":
            assert len(list(found)) == 4
        elif way == "break":
            for each in found:
                if each.slot == at:
                    break
            assert held.open + later.open == 1
        elif way == "error":
            with pytest.raises(ZeroDivisionError), found:
                next(found)
                1 / 0  # noqa: B018
        else:
            assert [next(found) for _ in range(at)]
            assert held.open + later.open == 1
        if way == "close":
            found.close()
            found.close()
            assert list(found) == []
        del found  # without the garbage collector
        assert (held.open, later.open) == (0, 0)


def test_closed_before_it_was_begun():
    found = read([release(1)])
    found.close()
    assert list(found) == []


def test_a_table():
    """Flat rows, sorted, whatever the order of partitions; the same table again."""
    found = read([release(2), shares(1, [0.2, 0.8], categories=["a", "b"]), release(1)])
    table = found.table()
    assert table is found.table()
    assert table.schema.equals(SCHEMA, check_metadata=True)
    columns = table.select(["slot", "statistic", "position", "category", "value"]).to_pylist()
    assert [tuple(row.values()) for row in columns] == [
        (1, "frequencies", 0, "a", 0.2),
        (1, "frequencies", 1, "b", 0.8),
        (1, "mean", 0, None, 10.0),
        (2, "mean", 0, None, 10.0),
    ]
    for name, wanted in (("slot_start", [1, 1, 1, 2]), ("slot_end", [2, 2, 2, 3])):
        assert table[name].cast("int64").to_pylist() == [hour * HOUR for hour in wanted]
    assert read([]).table().num_rows == 0


def test_others_take_it_as_arrow():
    """By the PyCapsule interface, as pandas and polars do; more than once, and as another type."""
    found = read([release(1), release(2)])
    assert pa.table(found).equals(found.table())
    assert pa.RecordBatchReader.from_stream(found).read_all().num_rows == 2
    wanted = found.table().schema
    at = wanted.get_field_index("slot")
    narrow = wanted.set(at, pa.field("slot", pa.int32(), nullable=False))
    assert pa.RecordBatchReader.from_stream(found, schema=narrow).read_all()["slot"].type == "int32"


def test_rows():
    """The same as dicts, one a number."""
    rows = list(read([shares(1, [0.2, 0.8])]).rows())
    assert [row["position"] for row in rows] == [0, 1]
    assert json.loads(rows[0]["guarantee"])["epsilon"] == 2.0


def test_releases_of_an_earlier_version_get_their_labels():
    """What the topology knows; what a release says itself stays."""
    labels = {"frequencies": {"categories": ["x", "y"]}, "above": {}, "distribution": {}}
    old, new = shares(1, [0.2, 0.8]), shares(2, [0.2, 0.8], categories=["a", "b"])
    found = list(read([old, new, release(3)], labels=labels))
    assert [each.categories for each in found] == [["x", "y"], ["a", "b"], None]


def test_its_repr():
    found = read([release(1)])
    next(found)
    assert repr(found) == "Releases(1 so far)"
