"""Arrow batches that are read together: the same events, bad rows and ticks as one by one."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from ldp_kafka.errors import Reason
from ldp_kafka.runtime.wire import event_arrow
from ldp_kafka.runtime.wire.events import EventReader
from tests.depth import depth
from tests.runtime.wire.test_event_columns import OURS, READERS, _one_by_one, _said, mutated
from tests.runtime.wire.test_events import arrow

RUNS = depth(200, 400)  # of some seven batches
NOON = 1_700_000_000_000
SHAPES = (
    "flat", "names", "numbers", "vector", "codes", "coerced", "coerced numbers", "coerced vector",
    "seconds", "microseconds", "parts",
)  # fmt: skip
USERS = {
    pa.string(): ["m1", "é", "", None, "x" * 256, "x" * 257, "a\0b"],
    pa.large_string(): ["m1", "m2", ""],
    pa.int64(): [1, -7, None],
    pa.uint8(): [3],
    pa.dictionary(pa.int8(), pa.string()): ["m1", "m2", None],
    pa.float64(): [1.0],
}
TIMES = {
    pa.int64(): [NOON, 1_700_000_000, 0, -1, None, 2**47 - 1, 2**47, 2**62],
    pa.uint64(): [NOON, 2**64 - 1],
    pa.float64(): [float(NOON), 1_700_000_000.3, -1.0, None, float("nan"), 1e300],
    pa.timestamp("us"): [NOON * 1000 + 999, -1, None],
    pa.timestamp("s", "UTC"): [NOON // 1000, None],
    pa.string(): ["2023-11-14T22:13:20Z", "x", None, "1700000000", "1.7e15"],
    pa.date32(): [19000],
}
NUMBERS = {
    pa.float64(): [1.5, -0.0, None, float("nan"), float("inf"), 1e308],
    pa.float32(): [1.5, float("-inf")],
    pa.int64(): [0, 6, 7, -1, None, 2**53 + 1],
    pa.uint64(): [1, 2**64 - 1],
    pa.decimal128(5, 1): [Decimal("2.5"), None],
    pa.string(): ["on", "off", "é", "other", None, "2.5", "6", "1e999"],
    pa.dictionary(pa.int8(), pa.string()): ["on", "é", "other", None],
    pa.list_(pa.float64()): [[1.0, 2.0], [1.0], None, [1.0, None], [float("nan"), 2.0]],
    pa.list_(pa.int64(), 2): [[1, 2], None, [0, 2]],
    pa.list_(pa.string()): [["1", "2.5"], ["1"], None, ["1", None], ["1", "x"], ["1", "1e999"]],
    pa.bool_(): [True],
}
USUAL = {
    "names": pa.string(), "numbers": pa.int64(), "coerced numbers": pa.int64(),
    "coerced vector": pa.list_(pa.string()),
}  # fmt: skip
DECLARED = {"seconds": pa.timestamp("s", "UTC"), "microseconds": pa.timestamp("us")}


def _column(dice, kinds, usual, n):
    """Values of one type, most of them good."""
    kind = usual if dice.random() < 0.85 else dice.choice(list(kinds))
    pool = kinds[kind]
    good = dice.random() < 0.8
    return pa.array([pool[0] if good else dice.choice(pool) for _ in range(n)], kind)


def _batch(dice, shape):
    n = dice.choice([0, 1, 2, 5, 40])
    value = USUAL.get(shape, pa.list_(pa.int64(), 2) if READERS[shape]._fields.dimension else None)
    columns = {
        "user": _column(dice, USERS, pa.string(), n),
        "time": _column(dice, TIMES, DECLARED.get(shape, pa.int64()), n),
        "value": _column(dice, NUMBERS, value or pa.float64(), n),
    }
    if dice.random() < 0.05:
        columns[dice.choice(["user", "time", "value"])] = pa.array(["x"] * n)
    if dice.random() < 0.05:
        del columns[dice.choice(list(columns))]
    if shape == "parts":
        columns["more"] = _column(dice, USERS, pa.int64(), n)
    elif dice.random() < 0.3:
        columns["more"] = pa.array(range(n))
    marks = [None] * 8 + [{"ldp_kafka": "1", "type": "event"}, {"ldp_kafka": "2"}]
    if not columns:
        return arrow({"more": pa.array([1])})
    return arrow(columns, dice.choice([*marks, {"ldp_kafka": "1", "type": "report"}]))


@pytest.mark.parametrize("shape", SHAPES)
def test_batches_read_together_are_batches_read_one_by_one(shape, monkeypatch):
    """Of any types and with any bad rows among them, cut short or altered; beside what is JSON."""
    seed = secrets.randbits(32)
    dice, reader, together, reasons, found = random.Random(seed), READERS[shape], [], Counter(), 0
    inner = event_arrow._together
    monkeypatch.setattr(
        event_arrow,
        "_together",
        lambda group, fields: together.append(len(group)) or inner(group, fields),
    )
    for _ in range(RUNS):
        messages = [
            dice.choice([*OURS, None]) if dice.random() < 0.1 else _batch(dice, shape)
            for _ in range(dice.choice([1, 2, 3, 8, 20]))
        ]
        messages = [
            mutated(dice, message) if message and dice.random() < 0.1 else message
            for message in messages
        ]
        run, expected = reader.read_run(messages), _one_by_one(reader, messages)
        assert _said(run) == _said(expected), (seed, messages)
        reasons.update(reason for _, _, reason in expected.bad)
        found += len(expected.row)
    if not reader._fields.dimension:
        assert sum(together) > RUNS
    assert found > 5 * RUNS
    assert reasons.keys() >= {Reason.USER, Reason.TIME, Reason.VALUE, Reason.NOT_ARROW}


def test_a_message_with_a_bad_row_is_read_by_itself():
    """Its neighbours are not."""
    good = arrow({"user": ["a", "b"], "time": [NOON, NOON], "value": [1.0, 2.0]})
    bad = arrow({"user": ["c", ""], "time": [NOON, NOON], "value": [3.0, 4.0]})
    fields = READERS["flat"]._fields
    [run] = event_arrow.read_plain([good, bad, good], fields)
    assert run.events.users.texts() == ["a", "b", "a", "b"]
    assert (run.places.tolist(), run.sizes.tolist()) == ([0, 2], [2, 2])
    assert event_arrow.read_plain([good], fields) == ()
    assert repr(run) == "PlainRun(4 events)"


def test_what_is_checked_of_a_whole_message_is_checked_of_it_alone():
    """A dictionary's texts are counted as they are written out: those of many messages are more
    than one may say.
    """
    text = pa.array(["x" * 200] * 3).dictionary_encode()
    batch = arrow({"user": text, "time": [NOON] * 3, "value": [1.0] * 3})
    reader = EventReader(("user",), ("value",), ("time",))
    assert event_arrow.read_plain([batch, batch], reader._fields) == []
    assert len(reader.read_run([batch, batch]).row) == 6
    numbers = arrow({"user": ["a"], "time": [NOON], "value": np.ones(1)})
    [run] = event_arrow.read_plain([batch, numbers, b"", b"\xff\xff\xff\xff"], reader._fields)
    assert (run.places.tolist(), run.sizes.tolist()) == ([1], [1])
