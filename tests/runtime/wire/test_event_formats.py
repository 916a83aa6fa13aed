"""A format of events is a file of its own and a line in each of two tables, the topology's and the
reader's: shown with one that nobody ships.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ldp_kafka.errors import BadRecord, Reason, TopologyError
from ldp_kafka.records import Events, Ids
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire import event_json
from ldp_kafka.runtime.wire.arrow import ARROW, write_batch
from ldp_kafka.runtime.wire.events import FORMATS, EventFormat, EventReader
from ldp_kafka.runtime.wire.fields import Decoded
from ldp_kafka.topology import plan, schema
from ldp_kafka.topology.formats import INPUT_FORMATS, InputFormat
from tests.runtime.stages.test_bad_input import KEY, NUMERIC, loads

BEGINS = b"#csv\n"


def read(message, fields):
    """Rows ``user,value,time``, by the same rules for each field as JSON has."""
    good, bad = [], []
    for row, line in enumerate(message.removeprefix(BEGINS).decode().splitlines()):
        user, value, time = line.split(",")
        try:
            good.append((row, *fields.of({"user": user, "value": float(value), "time": int(time)})))
        except BadRecord as error:
            bad.append((row, error.reason))
    rows, users, times, values = zip(*good, strict=True)
    found = Events(Ids.of(users), np.array(times), np.array(values, fields.dtype))
    return Decoded(found, np.array(rows), bad)


@pytest.fixture
def _toy(monkeypatch):
    monkeypatch.setitem(FORMATS, "toy", EventFormat(BEGINS, read))
    monkeypatch.setitem(INPUT_FORMATS, "toy", InputFormat("lines", batches=True, columns=True))


def reader():
    return EventReader(("user",), ("value",), ("time",))


@pytest.mark.usefixtures("_toy")
def test_a_new_format_is_a_line():
    """Its events are folded, its bad rows are dead letters, and the other formats are read as
    before.
    """
    text = b"a,1.5,1700000000\n,2,1700000000\nb,nan,1700000000\nc,3,1700000001\n"
    decoded = reader().read(BEGINS + text)
    assert decoded.events.users.texts() == ["a", "c"]
    assert decoded.events.times.tolist() == [1_700_000_000_000, 1_700_000_001_000]
    assert decoded.events.values.tolist() == [1.5, 3.0]
    assert decoded.bad == [(1, Reason.USER), (2, Reason.NOT_FINITE)]
    assert reader().read(b'{"user":"a","value":1,"time":1700000005}').events.users.texts() == ["a"]
    topology = loads(NUMERIC.format(format="toy"))
    assert not any("one event a message" in line for line in plan(topology).warnings)
    told = schema()["$defs"]["input"]["properties"]["format"]
    assert told["enum"] == ["json", "arrow", "toy"]
    assert "toy: lines" in told["description"]
    with pytest.raises(TopologyError, match=r"one column such as [^;]* where format is toy"):
        loads(NUMERIC.format(format="toy, user: $.a.b"))
    stage = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))
    folded = stage.fold(stage.fresh(), [Message(0, -1, BEGINS + text)])
    assert (folded.counts["events"], folded.counts["reports"]) == (2, 2)
    assert {name for name in folded.counts if name.startswith("dead_letters:")} == {
        "dead_letters:user",
        "dead_letters:not_finite",
    }


@pytest.mark.usefixtures("_toy")
def test_what_a_format_cannot_read_is_a_dead_letter():
    """Whatever its parser says of it: a worker must not stop at the same message for ever."""
    assert reader().read(BEGINS + b"\xff").bad == [(0, Reason.NOT_JSON)]
    assert reader().read(BEGINS + b"a,b,c,d").bad == [(0, Reason.NOT_JSON)]


def test_what_is_of_no_other_format_is_json():
    """So there is a format for every message, and no two begin alike."""
    assert list(FORMATS) == list(INPUT_FORMATS) == ["json", "arrow"]
    assert [one.begins for one in FORMATS.values()] == [b"", ARROW]
    assert reader().read(BEGINS).bad == [(0, Reason.NOT_JSON)]


@pytest.mark.parametrize("others", [[], [b'{"user":"a","value":1,"time":1700000005}']])
def test_a_message_is_asked_of_its_own_format_only(monkeypatch, others):
    """A run of Arrow batches was tried as single JSON events first, which they never are."""
    tried = []

    def plain(messages, fields):
        tried.extend(messages)
        return event_json.read_plain(messages, fields)

    monkeypatch.setitem(FORMATS, "json", FORMATS["json"]._replace(read_plain=plain))
    batch = event_batch(["b", "c"], [1_700_000_005, 1_700_000_006], [1.5, 2.5])
    found = reader().read_run([batch, *others, None, batch])
    assert tried == others
    assert found.events.users.texts() == ["b", "c", *["a" for _ in others], "b", "c"]
    assert [(at, row) for at, row, _ in found.bad] == [(1 + len(others), 0)]


def event_batch(users, times, values):
    columns = [pa.array(users), pa.array(times), pa.array(values)]
    return write_batch("event", ["user", "time", "value"], columns)
