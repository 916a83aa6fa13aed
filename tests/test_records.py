"""Records are frozen, and their reprs hold no value of the data."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import get_args

import numpy as np
import pytest

from ldp_kafka import records
from ldp_kafka.errors import Reason
from ldp_kafka.records import (
    RADIX,
    TWO_PASSES,
    DeadLetter,
    Event,
    Events,
    Ids,
    Partial,
    Release,
    Report,
    Reports,
    Request,
    Sums,
    Tick,
    ascending,
    hexadecimal,
)
from tests.cases import cases

SECRET = 987654321
USER = "alice-the-user"
IDS = np.array([[1, SECRET], [2, 3]], np.uint64)
RELEASE = Release(
    "t",
    1,
    "2026-01-01T00:00:00Z",
    "2026-01-01T01:00:00Z",
    "mean",
    0.5,
    0.1,
    [0.3, 0.7],
    10,
    "publish",
    {},
)

ALL = [
    Event(USER, SECRET, float(SECRET)),
    Event(USER, SECRET, str(SECRET)),
    Events(Ids.of([USER]), np.array([SECRET]), np.array([float(SECRET)])),
    Ids.of([USER]),
    Tick(5),
    Report("0" * 32, 3, 0, SECRET, "f" * 32),
    Reports(IDS, np.array([3, 4]), np.array([SECRET, SECRET]), 1.0, "f" * 32, 7, 2),
    Partial(0, 3, 1, (1, 2)),
    Request("r", 3, 0, 1000, 5),
    Sums(3, 1, 1000, (1, 2)),
    Sums(3, 0, 0, (1, 2), twice=True),
    DeadLetter("raw", 0, 7, 2, Reason.USER),
    RELEASE,
]


@cases("record", ALL)
def test_repr_hides_the_data(record):
    """What ends in a log or a traceback says what it is, not what it holds; partials, releases and
    requests are public.
    """
    for text in (repr(record), str(record), f"{record}", f"{[record]}"):
        assert str(SECRET) not in text
        assert USER not in text
        assert type(record).__name__ in text


@cases("record", ALL)
def test_frozen(record):
    """No field can be set or added."""
    for field in fields(record):
        with pytest.raises(FrozenInstanceError):
            setattr(record, field.name, None)
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        record.other = 1


def test_every_record_is_tested():
    """Whatever `records` defines is above."""
    defined = {
        kind for kind in vars(records).values() if isinstance(kind, type) and is_dataclass(kind)
    }
    assert defined == {type(record) for record in ALL}
    assert {kind.__name__ for kind in defined} | {"Record"} == set(records.__all__)
    assert defined - set(get_args(records.Record)) == {Events, Ids, Reports}, "batches are none"


@pytest.mark.parametrize(("scale", "value"), [(1.0, 5), (2.0**-10, 5 * 2.0**-10)])
def test_singles(scale, value):
    """A batch is its reports, one by one; whole scales give whole numbers."""
    batch = Reports(
        IDS,
        np.array([3, 4]),
        np.array([5, -6]),
        scale,
        "f" * 32,
        7,
        None,
        phase=2,
        series=IDS[::-1],
    )
    one, two = batch.singles()
    assert one == Report(hexadecimal(IDS)[0], 3, 2, value, "f" * 32, hexadecimal(IDS)[1])
    assert type(one.value) is type(value)
    assert (two.slot, two.value) == (4, -6 * scale)
    assert len(batch) == 2
    assert [
        single.series
        for single in Reports(IDS, batch.slots, batch.values, scale, "f" * 32, 7, None).singles()
    ] == [None, None]


def test_hexadecimal():
    """32 digits a row, the bytes in memory order, also of a strided view."""
    assert hexadecimal(np.array([[1, 2]], "<u8")) == ["01" + "00" * 7 + "02" + "00" * 7]
    assert hexadecimal(IDS[::-1]) == hexadecimal(IDS)[::-1]
    assert hexadecimal(np.empty((0, 2), np.uint64)) == []


def reports(n, series=True):
    """A batch of ``n`` rows in no order."""
    rng = np.random.default_rng(n)
    ids = rng.integers(0, 2**63, (n, 2)).astype(np.uint64)
    return Reports(
        ids,
        np.arange(n),
        np.arange(10, 10 + n),
        0.5,
        "f" * 32,
        7,
        3,
        2,
        1,
        series=ids[:, ::-1].copy() if series else None,
    )


@cases("series", [True, False])
@cases("n", [0, 1, 2, 7])
def test_what_a_batch_of_reports_does(n, series):
    """Taken and put into another order, rows stay whole, and all else is the batch's."""
    batch = reports(n, series)
    rows = batch.singles()
    assert batch.take(np.arange(n)[::-1]).singles() == rows[::-1]
    assert batch.take(slice(1, 3)).singles() == rows[1:3]
    assert batch.take(slice(0, n)) is batch
    order = np.random.default_rng(n).permutation(n)
    assert batch.gather(order).singles() == [rows[at] for at in order]
    changed = (batch.take(np.arange(n)[:1]), batch.gather(order))
    for other in changed:
        assert (other.scale, other.bound, other.closed, other.chunk, other.phase) == (
            0.5,
            7,
            3,
            2,
            1,
        )
    stamped = batch.stamp(bound=70, chunk=20, phase=0, closed=None)
    assert (stamped.bound, stamped.chunk, stamped.phase, stamped.closed) == (70, 20, 0, None)
    assert [(row.id, row.slot, row.value) for row in stamped.singles()] == [
        (row.id, row.slot, row.value) for row in rows
    ]


def test_what_a_batch_of_events_does():
    """Taken and joined, rows stay whole."""
    one = Events(Ids.of(["a", "b", "c"]), np.array([1, 2, 3]), np.array([0.1, 0.2, 0.3]))
    two = one.take(np.array([2, 0]))
    assert (two.users.texts(), two.times.tolist(), two.values.tolist()) == (
        ["c", "a"],
        [3, 1],
        [0.3, 0.1],
    )
    both = Events.join([one, two])
    assert both.users.texts() == ["a", "b", "c", "c", "a"]
    assert both.times.tolist() == [1, 2, 3, 3, 1]
    assert both.values.tolist() == [0.1, 0.2, 0.3, 0.3, 0.1]
    assert Events.join([one]) is one


SIZES = [0, 1, RADIX - 1, RADIX, 5000, TWO_PASSES, TWO_PASSES + 1, 3 * TWO_PASSES]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bits", [64, 40, 33, 16, 0])
def test_the_order_by_radix_is_the_plain_one(n, bits):
    """Also where the highest bits do not tell the keys apart, or nothing does."""
    keys = np.random.default_rng(n + bits).integers(0, 2**64, n, np.uint64)
    if bits < 64:  # only the lowest ones differ: what decides is anywhere
        keys &= np.uint64(2**bits - 1)
    order = ascending(keys)
    assert (order == np.argsort(keys)).all()
    assert (keys[order] == np.sort(keys)).all()
    keys[: n // 2] = keys[n - n // 2 :]  # repeats
    assert (ascending(keys) == np.argsort(keys)).all()
