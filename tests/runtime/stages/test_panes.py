"""Panes: several values of a slot become one, whatever order of folds and crashes they came in."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.errors import BadRecord, StateError
from ldp_kafka.methods.grid import MOST, grid_of
from ldp_kafka.randomness import Ids, Keyed
from ldp_kafka.runtime.stages import panes as module
from ldp_kafka.runtime.stages.panes import PaneOf, Panes, look_at_panes
from ldp_kafka.runtime.stages.per_slot import PER_SLOT
from ldp_kafka.runtime.stages.users import Users
from ldp_kafka.runtime.wire.arrow import write_batch
from ldp_kafka.topology.sections import ADDED, COUNT
from tests.depth import depth
from tests.exact import mean_of, sum_of, total_of

SHARDS = 3
LOOSE = grid_of((-1e9, 1e9))
WANTED = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "mean": lambda values: mean_of(values, LOOSE),
    "sum": lambda values: sum_of(values, LOOSE),
    "min": min,
    "max": max,
    "count": len,
}


def made(per_slot, width=0, grid=LOOSE):
    """Panes without streams, of numbers, or of lists of so many."""
    users = Users({"last": Field("i8", initial=NEVER)}, ("last",), Keyed(bytes(32)), SHARDS)
    taking = PER_SLOT[per_slot]
    if per_slot in ADDED:
        taking = taking._replace(grid=grid._replace(dimension=width))
    return users, Panes(users, taking)


LISTS = [(per_slot, 3) for per_slot in PER_SLOT if per_slot != COUNT]
"""Of lists, each coordinate by itself; lists of one number too."""


def events(seed, width=0, count=400, streams=9, slots=4):
    """(stream, slot, value, offset) of events that come in any order; some in one message.

    Parameters
    ----------
    width : of values that are lists; 0: they are numbers
    """
    rng = np.random.default_rng(seed)
    shape = (count, width) if width else count
    values = rng.normal(0, 1, shape) * 10.0 ** rng.integers(-9, 9, shape)
    return [
        (f"s{rng.integers(streams)}", int(rng.integers(slots)), value, at // 3)
        for at, value in enumerate(values.tolist())
    ]


def add(users, panes, part):
    if not part:
        return
    ids, slots, values, offsets = zip(*part, strict=True)
    rows = users.rows(Ids.of(ids))
    panes.add(rows, np.array(slots), np.array(values), np.array(offsets))


def taken(users, panes):
    """{(digest, slot): value} of all that is open."""
    found = {}
    for slot in panes.slots():
        folded = panes.close(slot)
        digests = users.state.digests(folded.rows)
        for digest, value in zip(digests.tolist(), panes.of(folded).tolist(), strict=True):
            found[tuple(digest), slot] = value
    return found


def wanted(per_slot, every):
    users, _ = made(per_slot)
    by = {}
    for stream, slot, value, _ in every:
        by.setdefault((stream, slot), []).append(value)
    out = {}
    for (stream, slot), values in by.items():
        [digest] = users.state.digests(users.rows(Ids.of([stream]))).tolist()
        taking = WANTED[per_slot]
        out[tuple(digest), slot] = (
            [taking(each) for each in zip(*values, strict=True)]
            if isinstance(values[0], list)
            else taking(values)
        )
    return out


@pytest.mark.parametrize(
    ("per_slot", "width"), [*((each, 0) for each in PER_SLOT), *LISTS, ("sum", 1)]
)
def test_one_value_a_slot_whatever_the_cuts(per_slot, width, monkeypatch):
    """Bit by bit as all at once, also where values are taken together in between."""
    monkeypatch.setattr(module, "AGAIN", 20)
    for seed in range(5):
        every, rng = events(seed, width), np.random.default_rng(seed)
        users, panes = made(per_slot, width)
        at = 0
        while at < len(every):
            size = int(rng.integers(1, 60))
            add(users, panes, every[at : at + size])
            at += size
        assert taken(users, panes) == wanted(per_slot, every)


@pytest.mark.parametrize("per_slot", ADDED)
def test_sums_in_another_order_are_the_same_sums(per_slot):
    """To the last bit: those of floats would not be."""
    every = events(1)
    found = []
    for part in (every, every[::-1]):
        users, panes = made(per_slot)
        add(users, panes, [(*each[:3], 0) for each in part])
        found.append(taken(users, panes))
    assert found[0] == found[1]
    floats = Counter(), Counter()
    for sums, part in zip(floats, (every, every[::-1]), strict=True):
        for stream, slot, value, _ in part:
            sums[stream, slot] += value
    assert floats[0] != floats[1]


@pytest.mark.parametrize(
    ("per_slot", "width"),
    [("first", 0), ("mean", 0), ("sum", 0), ("count", 0), ("last", 2), ("mean", 2)],
)
def test_a_snapshot_whose_records_are_of_different_moments(per_slot, width):
    """Each record has folded the log up to its own offset; the rest comes again."""
    for seed in range(6):
        every, rng = events(seed, width, 120), np.random.default_rng(seed)
        users, panes = made(per_slot, width)
        last = every[-1][3]
        covers, held = {}, {}
        for offset in sorted({each[3] for each in every}):
            add(users, panes, [each for each in every if each[3] == offset])
            for name, payload in panes.dump(panes.dirty()).items():
                # written now, or not any more
                if offset <= last // 2 or rng.random() < 0.1:
                    covers[name], held[name] = offset, payload
        least = min(covers.values())
        again, copy = made(per_slot, width)
        copy.load({name: (covers[name], held[name]) for name in held}, NEVER)
        add(again, copy, [each for each in every if each[3] > least])
        # those that changed before `least` and not since are whole; each other one is made whole
        assert taken(again, copy) == wanted(per_slot, every)


def test_what_came_before_a_record_was_written_is_not_counted_twice():
    users, panes = made("count")
    add(users, panes, [("a", 0, 1.0, 5), ("a", 0, 1.0, 6)])
    [(name, payload)] = panes.dump(panes.dirty()).items()
    again, copy = made("count")
    copy.load({name: (6, payload)}, NEVER)
    add(again, copy, [("a", 0, 1.0, 6), ("a", 0, 1.0, 7)])
    assert list(taken(again, copy).values()) == [3.0]


def test_a_closed_slot_ends_its_records():
    users, panes = made("first")
    add(users, panes, [(f"s{at}", 7, 1.0, 0) for at in range(20)])
    names = panes.dirty()
    assert names == panes.names() == {PaneOf(7, shard).name for shard in range(SHARDS)}
    held = panes.dump(names)
    assert held.keys() == names and panes.dirty() == set()
    panes.close(7)
    assert panes.dirty() == names and panes.names() == set() and panes.dump(names) == {}
    again, copy = made("first")
    copy.load({name: (0, payload) for name, payload in held.items()}, 7)
    assert not len(copy) and not again.state.count


def test_values_are_held_at_what_sums_can_bear():
    """And a sum of them is beyond the domain, on their side."""
    users, panes = made("sum")
    add(users, panes, [("a", 0, 1.7e308, 0)] * 50 + [("b", 0, -1.7e308, 0)] * 50)
    assert sorted(panes.close(0).values.tolist()) == [[0, MOST], [MOST, 0]]
    users, panes = made("sum")
    add(users, panes, [("a", 0, 1.7e308, 0)] * 50 + [("b", 0, -1.7e308, 0)] * 50)
    low, high = sorted(taken(users, panes).values())
    assert low < -1e9 and high > 1e9


HOSTILE = (1e308, -1e308, 2.0**62, 2.0**53, 5e-324, 1e-310, 0.0, 40.0, -40.0, 513.0, 1e-3)


@pytest.mark.parametrize("low", [0.0, -1600.0])
def test_one_event_moves_a_sum_by_its_contribution(low):
    """Whatever the others are, in whatever messages they come, and wherever a state is written and
    read in between.
    """
    grid = grid_of((low, 1600.0), contribution=40.0)
    moves = grid.high - grid.low
    reached = 0
    for seed in range(depth(60, 1000)):
        rng = np.random.default_rng(seed)
        values = rng.choice(HOSTILE, int(rng.integers(2, 12))).tolist()
        at = int(rng.integers(len(values)))
        other = [*values[:at], float(rng.choice(HOSTILE)), *values[at + 1 :]]
        less = [*values[:at], *values[at + 1 :]]
        totals = []
        for mine in (values, other, less):
            [value] = torn(mine, grid, rng)
            assert value == sum_of(mine, grid)
            totals.append(round(value * 2.0**-grid.exponent))
        assert totals == [total_of(mine, grid) for mine in (values, other, less)]
        assert abs(totals[0] - totals[1]) <= moves and abs(totals[0] - totals[2]) <= grid.high
        reached = max(reached, abs(totals[0] - totals[1]))
    assert reached == moves  # hostile enough


def torn(values, grid, rng):
    """What the events of one stream come to, over owners of the state that end at random."""
    users, panes = made("sum", grid=grid)
    for offset, value in enumerate(values):
        add(users, panes, [("a", 0, value, offset)])
        if rng.random() < 0.4:
            held = panes.dump(panes.names())
            users, panes = made("sum", grid=grid)
            panes.load({name: (offset, payload) for name, payload in held.items()}, NEVER)
            add(users, panes, [("a", 0, each, at) for at, each in enumerate(values[: offset + 1])])
    return list(taken(users, panes).values())


def test_a_pane_is_written_in_these_columns():
    """What a release has written, the next one reads: numbers as ever, and lists of one length."""
    for value, kind in ((2.5, pa.float64()), ([2.5, -1.0], pa.list_(pa.float64(), 2))):
        users, panes = made("last")
        add(users, panes, [("a", 7, value, 0)])
        [(name, payload)] = panes.dump(panes.dirty()).items()
        shard = int(users.shard[0])
        row = pa.array([users.state.users[0].tobytes()], pa.binary(16))
        columns = [row, pa.array([value], kind), pa.array([1], pa.int64())]
        assert name == f"7.{shard}"
        assert payload == write_batch("state", ["user", "value", "number"], columns)


def test_a_pane_of_sums_is_written_in_whole_numbers():
    """Steps above 0 and below it; one of floats, of an older version, is refused."""
    users, panes = made("sum")
    add(users, panes, [("a", 7, 2.5, 0), ("a", 7, -1.0, 0)])
    [(name, payload)] = panes.dump(panes.dirty()).items()
    row = pa.array([users.state.users[0].tobytes()], pa.binary(16))
    steps = [round(each * 2.0**-LOOSE.exponent) for each in (2.5, 1.0)]
    value = pa.array([steps], pa.list_(pa.int64(), 2))
    columns = [row, value, pa.array([2], pa.int64())]
    assert payload == write_batch("state", ["user", "value", "number"], columns)
    columns[1] = pa.array([1.5])
    older = write_batch("state", ["user", "value", "number"], columns)
    with pytest.raises(BadRecord):
        made("sum")[1].load({name: (0, older)}, NEVER)


def test_panes_of_lists_are_looked_at():
    users, panes = made("last")
    add(users, panes, [(f"s{at}", 7, [1.0, 2.0], 0) for at in range(9)])
    held = panes.dump(panes.dirty())
    assert look_at_panes(held, SHARDS, 6) == (1, 0, 0, 0)
    assert look_at_panes(held, SHARDS, 7).ended == SHARDS
    nulls = pa.FixedSizeListArray.from_arrays(pa.array([1.0, None]), 2)
    other = write_batch(
        "state",
        ["user", "value", "number"],
        [pa.array([bytes(16)], pa.binary(16)), nulls, pa.array([1])],
    )
    assert look_at_panes({"7.0": other}, SHARDS, 6).unreadable == 1


def test_another_record_is_none():
    users, panes = made("first")
    add(users, panes, [("a", 0, 1.0, 0)])
    [payload] = panes.dump(panes.dirty()).values()
    for name, other in (("x", payload), ("0.x", payload)):
        with pytest.raises(StateError):
            made("first")[1].load({name: (0, other)}, NEVER)
    with pytest.raises(BadRecord):
        made("first")[1].load({"0.0": (0, b"{}")}, NEVER)
    assert "1.0" not in repr(panes) + repr(panes.close(0))
