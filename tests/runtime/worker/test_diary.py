"""What a worker says of its life, by a clock of the tests'."""

from __future__ import annotations

import json

import pytest

from ldp_kafka.runtime.log import Output
from ldp_kafka.runtime.recovery.snapshot import Snapshot
from ldp_kafka.runtime.wire.dead_letters import DeadLetters
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.diary import Diary


class Life:
    """A diary with its clock, and what it has written since the last look."""

    def __init__(self, capsys):
        self.now, self.capsys = 1000.0, capsys
        self.diary = Diary("t", "perturb", clock=lambda: self.now)

    def said(self):
        found = [json.loads(line) for line in self.capsys.readouterr().err.splitlines()]
        strange = {"time", "level", "topology", "role"}
        assert all((line["topology"], line["role"]) == ("t", "perturb") for line in found)
        return [{n: value for n, value in line.items() if n not in strange} for line in found]


@pytest.fixture
def life(capsys):
    with logs.writing("json", "t", "perturb", verbose=True):
        yield Life(capsys)


def folded(counts=(), **gauges):
    """What a fold gives."""
    made = Output(DeadLetters("dead", "t.raw", 0))
    made.counts |= dict(counts)
    made.gauges |= gauges
    return made


def test_from_an_assignment_to_the_state(life):
    """What the tables took is said with each partition's state: it is as late as both."""
    life.diary.assigned({("t.raw", 1), ("t.raw", 0), ("t.other", 3)})
    life.now += 2
    life.diary.ready(12)
    life.now += 500  # until an event came
    life.diary.recovered("t.raw", 1, users=40, offset=7, seconds=0.5)
    assert life.said() == [
        {"event": "assigned", "partitions": {"t.other": [3], "t.raw": [0, 1]}},
        {"event": "ready", "seconds": 2.0, "records": 12},
        {"event": "recovered", "partition": 1, "topic": "t.raw", "seconds": 2.5, "users": 40,
         "offset": 7},
    ]  # fmt: skip


def test_what_is_read_again_is_said(life):
    life.diary.read_again("t.raw", 1, 404)
    (line,) = life.said()
    assert line == {"event": "read_again", "partition": 1, "topic": "t.raw", "offset": 404}


def test_the_first_release_alone_is_said(life):
    life.diary.folded(0, folded({"releases": 0}))
    assert life.said() == []
    life.now += 3
    life.diary.folded(2, folded({"releases": 2}, released=17.0))
    life.diary.folded(0, folded({"releases": 1}, released=18.0))
    (line,) = life.said()
    assert line == {"event": "first_release", "partition": 2, "slot": 17, "seconds": 3.0}


def test_the_first_release_of_windows_has_no_slot(life):
    life.diary.folded(0, folded({"releases": 2}))
    assert life.said()[0]["slot"] is None


def test_what_is_no_good_is_said_once_a_minute(life):
    """And only where there is any."""
    life.diary.look()
    for partition in (0, 1):
        counts = {"late": 2, "events": 50, "dead_letters:wrong_type": 3, "dead_letters:no_user": 0}
        life.diary.folded(partition, folded(counts))
        life.now += 30
    life.diary.folded(0, folded({"dead_letters:no_user": 1}))
    assert life.said() == []
    life.diary.look()
    assert life.said() == [
        {"event": "late", "events": 4, "seconds": 60.0},
        {"event": "dead_letters", "reasons": {"wrong_type": 6, "no_user": 1}, "seconds": 60.0},
    ]
    life.now += 60
    life.diary.look()
    assert life.said() == []


def test_second_reports_and_fast_clocks_are_said_with_what_to_do(life):
    """Once a minute, too."""
    life.diary.folded(0, folded({"second_reports": 20, "late": 7, "late_by_clocks": 5}))
    life.diary.folded(1, folded({"second_reports": 4}))
    life.now += 60
    life.diary.look()
    late, clock, second = life.said()
    assert (late["event"], late["events"]) == ("late", 7)
    assert (clock["event"], clock["events"], clock["seconds"]) == ("clock", 5, 60.0)
    assert "closed the slots of all others" in clock["message"]
    assert "input.max_ahead" in clock["message"]
    assert (second["event"], second["reports"], second["seconds"]) == ("second_reports", 24, 60.0)
    assert "several partitions" in second["message"]


def test_at_the_end_what_is_left_is_said(life):
    life.diary.folded(0, folded({"late": 2}))
    life.now += 1
    life.diary.look(everything=True)
    assert life.said() == [{"event": "late", "events": 2, "seconds": 1.0}]


def test_a_snapshot(life):
    kept = Snapshot({"3/0/e": b"abc", "3/1/e": b"d"}, ("3/meta/e", b"ef"), [], [])
    life.diary.saved("t.raw", kept, 0.25)
    assert life.said() == [
        {"event": "snapshot", "partition": 3, "topic": "t.raw", "records": 3, "bytes": 6,
         "seconds": 0.25},
    ]  # fmt: skip


def test_idle_partitions_are_said_when_they_change(life):
    """Log by log; an assignment begins anew."""
    for idle in ([], [1], [1], [0, 1], []):
        life.diary.idle("t.raw", idle, 60)
    life.diary.idle("t.other", [1], 60)
    assert life.said() == [
        {"event": "idle", "topic": "t.raw", "partitions": [1], "seconds": 60},
        {"event": "idle", "topic": "t.raw", "partitions": [0, 1], "seconds": 60},
        {"event": "busy", "topic": "t.raw"},
        {"event": "idle", "topic": "t.other", "partitions": [1], "seconds": 60},
    ]
    life.diary.assigned([])
    life.diary.idle("t.other", [1], 60)
    assert [line["event"] for line in life.said()] == ["assigned", "idle"]


def test_an_outage_begins_and_ends_once(life):
    """However often it is noticed; its seconds are those from the first."""
    life.diary.back()
    for seconds in (0, 5, 5):
        life.now += seconds
        life.diary.away("no answer")
    life.now += 2
    life.diary.back()
    life.diary.back()
    life.diary.away("again")
    assert life.said() == [
        {"event": "outage", "reason": "no answer"},
        {"event": "outage_over", "seconds": 12.0},
        {"event": "outage", "reason": "again"},
    ]


def test_a_revocation_is_said_once(life):
    """Though every agent says so; of nothing, nothing is said."""
    life.diary.revoked()
    life.diary.assigned({("t.raw", 1), ("t.raw", 0)})
    life.diary.revoked()
    life.diary.revoked()
    life.diary.assigned([])
    life.diary.revoked()
    events = [(line["event"], line["partitions"]) for line in life.said()]
    both = {"t.raw": [0, 1]}
    assert events == [("assigned", both), ("revoked", both), ("assigned", {})]
