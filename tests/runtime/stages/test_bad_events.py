"""The mistakes that producers make, each with the dead letter that it becomes and with what the
cure printed for it makes of the message. `test_bad_input` has what else a message may hold, and
that nothing of it shows.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import Reason
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.topology import loader

README = Path(__file__).parents[3] / "topologies" / "README.md"
KEY = bytes(range(32))
loads = cache(loader.loads)
NOW = 1_700_000_000  # seconds

METERS = """
topology: meters
input: {slot: 1h, partitions: 1, user: $.meter_id, value: $.kwh, time: $.ts}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 100]}
output: {statistics: [mean]}
"""
APPS = """
topology: apps
input: {slot: 1h, partitions: 1, user: $.meter_id, value: $.app, time: $.ts}
privacy: {method: lpu, epsilon: 2.0, window: 1, categories: [mail, maps, music]}
output: {statistics: [frequencies]}
"""
ARROW = METERS.replace("slot: 1h", "slot: 1h, format: arrow")


def text(leave="", **fields):
    """An event as JSON, with other fields, or without one."""
    record = {"meter_id": "m-1", "kwh": 2.5, "ts": NOW} | fields
    return json.dumps({name: value for name, value in record.items() if name != leave}).encode()


def app(name):
    return text("kwh", app=name)


def table(write, **columns):
    """One event as Arrow, by one of its writers."""
    given = {"meter_id": ["m-1"], "kwh": [2.5], "ts": [NOW]} | columns
    rows = pa.record_batch(list(map(pa.array, given.values())), list(given))
    sink = pa.BufferOutputStream()
    with write(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


def compressed(sink, schema):
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    return pa.ipc.new_stream(sink, schema, options=options)


GOOD = text()
# what somebody sends: (the message, the reason, the message as the cure says)
JSON = {
    "a deletion": (None, "empty", GOOD),
    "nothing": (b"", "empty", GOOD),
    "a CSV line": (b"m-1,2.5,1700000000", "not_json", GOOD),
    "a Python dict's text": (b"{'meter_id': 'm-1', 'kwh': 2.5}", "not_json", GOOD),
    "XML": (b'<meter id="m-1">2.5</meter>', "not_json", GOOD),
    "Avro behind a schema registry's framing": (b"\0\0\0\0\7\6m-1\0\0", "not_json", GOOD),
    "JSON behind a schema registry's framing": (b"\0\0\0\0\7" + GOOD, "not_json", GOOD),
    "compressed JSON": (gzip.compress(GOOD), "not_json", GOOD),
    "UTF-16": (GOOD.decode().encode("utf-16"), "not_json", GOOD),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "not_json", GOOD),
    "two lines of JSON": (GOOD + b"\n" + GOOD, "not_json", GOOD),
    "a comma at the end": (GOOD + b",", "not_json", GOOD),
    "half a message": (GOOD[:-9], "not_json", GOOD),
    "null": (b"null", "not_a_record", GOOD),
    "a bare number": (b"2.5", "not_a_record", GOOD),
    "a list of lists": (b'[["m-1", 2.5, 1700000000]]', "not_a_record", GOOD),
    "3 MiB": (text(note="x" * (3 << 20)), "too_large", GOOD),
    "a later version's event": (
        b'{"ldp_kafka":9,"type":"event","user":"m-1","time":1,"value":1}',
        "version",
        GOOD,
    ),
    "half a tick": (
        b'{"ldp_kafka":1,"type":"tick"}',
        "wrong_fields",
        lk.encode(lk.Tick(1000 * NOW)),
    ),
    "no user": (text("meter_id"), "user", GOOD),
    "a user of null": (text(meter_id=None), "user", GOOD),
    "an empty user": (text(meter_id=""), "user", GOOD),
    "a user with a decimal point": (text(meter_id=17.0), "user", text(meter_id=17)),
    "a user of 300 letters": (text(meter_id="m" * 300), "user", text(meter_id="m" * 256)),
    "fields one level deeper": (b'{"payload":' + GOOD + b"}", "user", GOOD),
    "no value": (text("kwh"), "value", GOOD),
    "a value of null": (text(kwh=None), "value", GOOD),
    "true": (text(kwh=True), "value", text(kwh=1)),
    "a number as text": (text(kwh="2.5"), "value", GOOD),
    "a decimal comma": (text(kwh="2,5"), "value", GOOD),
    "a number with its unit": (text(kwh="2.5 kWh"), "value", GOOD),
    "a list of one number": (text(kwh=[2.5]), "value", GOOD),
    "NaN": (text(kwh=float("nan")), "not_finite", GOOD),
    "a sensor's infinity": (text(kwh=float("-inf")), "not_finite", GOOD),
    "1e999": (GOOD.replace(b"2.5", b"1e999"), "not_finite", GOOD),
    "no time": (text("ts"), "time", GOOD),
    "a date as people write it": (
        text(ts="14.11.2023 22:13"),
        "time",
        text(ts="2023-11-14T22:13:00Z"),
    ),
    "the 30th of February": (text(ts="2023-02-30T00:00:00Z"), "time", GOOD),
    "nanoseconds": (text(ts=NOW * 10**9), "time", text(ts=NOW * 1000)),
    "a time before 1970": (text(ts=-1), "time", GOOD),
    "a clock that is a year ahead": (text(ts=NOW + 365 * 86_400), "ahead", GOOD),
}
NAMES = {
    "another category": (app("games"), "category", app("maps")),
    "a category in capitals": (app("Maps"), "category", app("maps")),
    "a category's number where it has a name": (app(1), "category", app("maps")),
    "no category": (app(None), "value", app("maps")),
}
STREAM = table(pa.ipc.new_stream)
BATCHES = {
    "Arrow's file format": (table(pa.ipc.new_file), "not_json", STREAM),
    "a compressed batch": (table(compressed), "not_arrow", STREAM),
    "half a batch": (STREAM[: len(STREAM) // 2], "not_arrow", STREAM),
    "a column of text": (table(pa.ipc.new_stream, kwh=["2.5"]), "value", STREAM),
    "a column's cell without a value": (
        table(pa.ipc.new_stream, kwh=[np.nan]),
        "not_finite",
        STREAM,
    ),
}
SENT = {
    **{name: (METERS, *each) for name, each in JSON.items()},
    **{name: (APPS, *each) for name, each in NAMES.items()},
    **{name: (ARROW, *each) for name, each in BATCHES.items()},
}


def letters(topology, *messages):
    """The dead letters that a log becomes, as `ldp_kafka.decode` has them."""
    raw = [Message(offset, 1000 * NOW, message) for offset, message in enumerate(messages)]
    done = local.run(topology, edge_randomness(topology, KEY, "here"), [raw])
    return [letter for record in done.dead_letters for letter in lk.decode(record.value)]


@pytest.mark.parametrize("kind", SENT)
def test_each_mistake_is_one_dead_letter_and_its_cure_cures_it(kind):
    """Mended as it is said, the message is none."""
    topology, bad, reason, mended = SENT[kind]
    found = letters(loads(topology), mended, bad, mended)
    name = loads(topology).raw_topic
    assert found == [lk.DeadLetter(name, 0, 1, 0, Reason(reason))]


@pytest.mark.parametrize("reason", sorted({reason for _, _, reason, _ in SENT.values()}))
def test_whoever_looks_a_reason_up_finds_its_meaning_and_its_cure(reason):
    """In the list of the documentation, and in what is raised."""
    page = " ".join(README.read_text("utf-8").split())
    (line,) = re.findall(rf"- `{reason}`: (.*?)\*(?= - `| ## )", page)
    meaning, cure = line.split(". *")
    assert str(lk.errors.BadRecord(Reason(reason))) == f"{reason}: {meaning}; {cure.rstrip('.')}"
