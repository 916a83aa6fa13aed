"""What may be copied of a partition, and what ticks are due, over lists: against the fold that
comes after it.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from ldp_kafka.records import Request, Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.stages.relaying import Extent, Mark, relaying_of, source_of
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.broker.relays import FIRST, SLOT, TEXT, batch, event
from tests.cases import cases

KEY = bytes(range(32))


def made(method="lpa", more=""):
    return loads(
        TEXT.format(
            name="m", boot="h:1", key="k", session="6s", method=method, idle="off", more=more
        )
    )


def line(topology, mark=None):
    return relaying_of(topology, 0, mark or Mark(0, -1, None))


def at(value, offset=0, stamp=-1):
    return Message(offset, stamp, value)


@cases("mark", [Mark(0, -1, None), Mark(12, 1_600_000_000_000, 26_666_666), Mark(5, 0, -1)])
def test_marks_are_read_as_they_were_written(mark):
    assert Mark.read(mark.text) == mark


@cases("text", [None, "", "ldp_kafka: log x time 0 decided -", "ldp_kafka: nothing folded yet"])
def test_other_metadata_is_no_mark(text):
    assert Mark.read(text) == Mark(0, -1, None)


@cases(
    ("headers", "offset"),
    [
        ([], None),
        ([("trace", b"1")], None),
        ([("ldp-source", b"7")], 7),
        ([("ldp-source", b"99"), ("x", None), ("ldp-source", b"7")], 7),  # the last is ours
        ([("ldp-source", b"-1")], None),
        ([("ldp-source", None)], None),
        ([("ldp-source", b"7 ")], None),
    ],
)
def test_the_offset_that_a_record_had(headers, offset):
    assert source_of(headers) == offset


def test_no_value_is_shown():
    extent = line(made()).extent(at(event(3)))
    assert repr(extent) == "Extent()" and extent.slots.tolist() == [FIRST + 3]


@cases(
    ("value", "stamp", "slots"),
    [
        (event(3), -1, [3]),
        (event(3), (FIRST + 3) * SLOT, [3]),
        (event(3), (FIRST + 3) * SLOT - 86_400_000 - 1, []),  # a dead letter: ahead
        (batch([5, 3, 9]), -1, [5, 3, 9]),
        (encode_json(Tick((FIRST + 4) * SLOT)), -1, []),
        (b"junk", -1, []),
        (None, -1, []),
    ],
)
def test_an_extent_is_what_the_fold_reads(value, stamp, slots):
    """The same times, of the same events."""
    topology = made(more=", format: arrow")
    found = line(topology).extent(at(value, stamp=stamp))
    assert (found.slots - FIRST).tolist() == slots
    fold = make_perturb(made("lpu"), 0, edge_randomness(made("lpu"), KEY, "here"))
    assert found.time == fold.latest([at(value, stamp=stamp)])


def test_an_extent_of_an_array_is_that_of_its_elements():
    """Those that are events; a partition's users are looked at one by one."""
    array = b'{"r":[' + b",".join([event(5), b"7", event(3), b"{}", event(9)]) + b"]}"
    topology = made(more=", events: $.r")
    found = line(topology).extent(at(array))
    assert (found.slots - FIRST).tolist() == [5, 3, 9]
    assert found.time == line(made()).extent(at(event(9))).time
    homes = made(more=", events: $.r, partitioning: murmur2")
    many = b'{"r":[' + b",".join(event(1, user) for user in "abcdef") + b"]}"
    parts = [relaying_of(homes, n, Mark(0, -1, None)).extent(at(many)) for n in (0, 1)]
    assert sum(len(each.slots) for each in parts) == 6
    assert all(len(each.slots) for each in parts)


def test_a_user_who_is_not_at_home_says_nothing():
    """As in the fold, which knows where users belong."""
    topology = made(more=", partitioning: murmur2")
    homes = {
        user: [
            relaying_of(topology, n, Mark(0, -1, None)).extent(at(event(1, user))) for n in (0, 1)
        ]
        for user in "abcdef"
    }
    assert all(sum(len(each.slots) for each in found) == 1 for found in homes.values())
    assert all(min(each.time for each in found) == -1 for found in homes.values())


def test_nothing_is_held_back_where_nobody_asks():
    relaying = line(made("lpu"))
    assert all(relaying.passes(relaying.extent(at(event(slot)))) for slot in (0, 1000, 5))


class Log:
    """A partition of the other topic, what is copied of it into ours, and a coordinator that
    decides each slot as soon as the edge has closed it; and what the fold makes of our log.
    """

    def __init__(self, topology, values):
        self.values = values
        self.relaying = line(topology)
        self.stage = roles.make(topology, "perturb", 0, edge_randomness(topology, KEY, "here"))
        self.state = self.stage.fresh()
        self.ours, self.counts = [], {}
        self.decided = None
        slots = [slot for value in values for slot in self.relaying.extent(at(value)).slots]
        self.first = int(min(slots))

    def add(self, value):
        message = at(value, len(self.ours) + 1)
        self.ours.append(message)
        output = self.stage.fold(self.state, [message])
        for name, count in output.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count

    def decide(self):
        """The next slot, if all of it is there; whether there was one."""
        closed = self.state.closed
        following = self.first if self.decided is None else self.decided + 1
        if following > closed:
            return False
        self.decided = following
        self.add(encode_json(Request("x", following, 1, 0, following + 4)))
        self.relaying.hear(following)
        return True

    def run(self, dice):
        """All of it; decisions come when dice say, and when nothing else can happen."""
        for value in self.values:
            extent = self.relaying.extent(at(value))
            while not self.relaying.passes(extent):
                due = self.relaying.due(extent)
                if due is not None:
                    self.add(encode_json(Tick(due)))
                    self.relaying.written(due)
                else:
                    assert self.decide(), "nothing can be decided, and nothing copied"
            self.add(value)
            self.relaying.written(extent.time)
            while dice.random() < 0.5 and self.decide():
                pass


def streams(dice, wide):
    """Events of one partition, late and early ones, with holes; wide batches among them."""
    slot, found = 0, []
    for n in range(60):
        slot += dice.choice([0, 0, 1, 1, 2, 3, 40 if dice.random() < 0.1 else 0])
        late = dice.choice([0, 0, 0, 1])
        if wide and dice.random() < 0.1:
            found.append(batch(list(range(max(0, slot - late), slot + dice.randrange(1, 12)))))
            slot += 11
        else:
            found.append(event(max(0, slot - late), f"u{n}"))
    return found


@pytest.mark.parametrize("how", ["first", "last"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("wide", [False, True])
def test_pacing_loses_no_event_and_comes_to_an_end(seed, wide, how):
    """Whatever the streams: the fold finds late what it finds late without a relay, and no more;
    and where each message fits into what can be asked, every request comes in time.
    """
    dice = random.Random(seed)
    topology = made(more=f", format: arrow, per_slot: {how}")
    values = streams(dice, wide)
    log = Log(topology, values)
    log.run(dice)
    plain = Log(topology, values)
    for value in values:
        plain.add(value)
    assert log.counts.get("late", 0) == plain.counts.get("late", 0)
    assert log.counts["events"] == plain.counts["events"]
    assert log.counts["duplicates"] == plain.counts["duplicates"]
    if not wide:
        assert log.counts["requests_late"] == 0
    ticked = [each for each in log.ours if each.value.startswith(encode_json(Tick(0))[:20])]
    assert ticked  # else nothing was tried


@pytest.mark.parametrize("seed", range(10))
def test_records_twice_change_no_report(seed):
    """As a process leaves them that goes on when another has its partition: from any record on all
    once more, between what the other writes. What is reported is the same, in the same order.
    """
    dice = random.Random(seed)
    topology = made("lpu", more=", format: arrow")
    values = streams(dice, wide=True)
    again = []
    zombie = iter(values[dice.randrange(20) :])
    for n, value in enumerate(values):
        again.append(value)
        if n > 25 and dice.random() < 0.7:
            again += [each for each in [next(zombie, None)] if each is not None]
    assert len(again) > len(values) + 10
    stage = make_perturb(topology, 0, edge_randomness(topology, KEY, "here"))

    def reports(of):
        from ldp_kafka.runtime.wire.reports import read_reports

        output = stage.fold(stage.fresh(), [at(value, n) for n, value in enumerate(of)])
        batches = [read_reports(record.value) for record in output.records]
        return [(one.id, one.slot, one.value) for each in batches if each for one in each.singles()]

    assert sorted(reports(again)) == sorted(reports(values))
    assert len(reports(values)) > 5


def test_what_is_known_after_a_start():
    """From what lies in our log: how far event time is, and what was decided."""
    relaying = line(made())
    relaying.found(at(encode_json(Tick((FIRST - 3) * SLOT))))
    assert relaying.decided is None and relaying.time == (FIRST - 3) * SLOT
    relaying.found(at(event(4)))
    assert relaying.decided == FIRST + 3
    relaying.found(at(event(2)))
    assert (relaying.decided, relaying.time) == (FIRST + 3, (FIRST + 4) * SLOT)
    relaying.found(at(encode_json(Request("x", FIRST + 9, 1, 0, FIRST + 12))))
    relaying.found(at(encode_json(Request("x", FIRST + 8, 1, 0, FIRST + 12))))
    assert relaying.decided == FIRST + 9
    assert relaying.news((FIRST + 4) * SLOT) is None
    assert relaying.news((FIRST + 5) * SLOT) == (FIRST + 5) * SLOT


def test_late_rows_do_not_open_the_way():
    """A stray old row in a batch is late whatever is done: it says nothing of what is decided."""
    relaying = line(made(more=", format: arrow"), Mark(0, (FIRST + 50) * SLOT, FIRST + 47))
    stray = relaying.extent(at(batch([2, 90])))
    assert not relaying.passes(stray)
    assert relaying.due(stray) == (FIRST + 47 + 4) * SLOT
    assert isinstance(stray, Extent) and np.array_equal(stray.slots - FIRST, [2, 90])
