"""Records are frozen, and batches of them are their rows."""

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

IDS = np.array([[1, 7], [2, 3]], np.uint64)
TIMES = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
ALL = [
    Event("a", 5, 0.5),
    Events(Ids.of(["a"]), np.array([5]), np.array([0.5])),
    Ids.of(["a"]),
    Tick(5),
    Report("0" * 32, 3, 0, 7, "f" * 32),
    Reports(IDS, np.array([3, 4]), np.array([7, 7]), 1.0, "f" * 32, 7, 2),
    Partial(0, 3, 1, (1, 2)),
    Request("r", 3, 0, 1000, 5),
    Sums(3, 1, 1000, (1, 2)),
    DeadLetter("raw", 0, 7, 2, Reason.USER),
    Release("t", 1, *TIMES, "mean", 0.5, 0.1, [0.3, 0.7], 10, "publish", {}),
]


@cases("record", ALL)
def test_frozen(record):
    """No field can be set or added; a repr says what it is of."""
    assert type(record).__name__ in repr(record)
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
    rows = IDS, np.array([3, 4]), np.array([5, -6])
    batch = Reports(*rows, scale, "f" * 32, 7, None, phase=2, series=IDS[::-1])
    one, two = batch.singles()
    assert one == Report(hexadecimal(IDS)[0], 3, 2, value, "f" * 32, hexadecimal(IDS)[1])
    assert type(one.value) is type(value)
    assert (two.slot, two.value) == (4, -6 * scale)
    assert len(batch) == 2
    alone = Reports(*rows, scale, "f" * 32, 7, None)
    assert [single.series for single in alone.singles()] == [None, None]


def test_hexadecimal():
    """32 digits a row, the bytes in memory order, also of a strided view."""
    assert hexadecimal(np.array([[1, 2]], "<u8")) == ["01" + "00" * 7 + "02" + "00" * 7]
    assert hexadecimal(IDS[::-1]) == hexadecimal(IDS)[::-1]
    assert hexadecimal(np.empty((0, 2), np.uint64)) == []


def reports(n, series=True):
    """A batch of ``n`` rows in no order."""
    rng = np.random.default_rng(n)
    ids = rng.integers(0, 2**63, (n, 2)).astype(np.uint64)
    linked = ids[:, ::-1].copy() if series else None
    return Reports(
        *(ids, np.arange(n), np.arange(10, 10 + n)), 0.5, "f" * 32, 7, 3, 2, 1, series=linked
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
        assert (other.scale, other.bound, other.closed) == (0.5, 7, 3)
        assert (other.chunk, other.phase) == (2, 1)
    stamped = batch.stamp(bound=70, chunk=20, phase=0, closed=None)
    assert (stamped.bound, stamped.chunk, stamped.phase, stamped.closed) == (70, 20, 0, None)
    assert [(row.id, row.slot, row.value) for row in stamped.singles()] == [
        (row.id, row.slot, row.value) for row in rows
    ]


def test_what_a_batch_of_events_does():
    """Taken and joined, rows stay whole."""
    one = Events(Ids.of(["a", "b", "c"]), np.array([1, 2, 3]), np.array([0.1, 0.2, 0.3]))
    two = one.take(np.array([2, 0]))
    assert (two.users.texts(), two.times.tolist()) == (["c", "a"], [3, 1])
    assert two.values.tolist() == [0.3, 0.1]
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
