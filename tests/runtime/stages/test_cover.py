"""Presence does not leave the edge: of raw logs that differ in which slots of one user have events,
from its first one on, nothing differs but what that user's reports of these slots say.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import count
from random import Random

import numpy as np
import pytest

from ldp_kafka.methods.base import SENT, Step
from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.roles import make
from ldp_kafka.runtime.stages.gates import AtClose
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads
from tests.depth import depth
from tests.fold.cases import HERE, KEY, SLOT, START, batch
from tests.runtime.stages.crashes import of_kind
from tests.runtime.stages.test_settle import reports

TEXT = """
topology: covered
input: {{slot: 1m, lateness: 1, partitions: 1, max_ahead: 1d, per_slot: {per_slot}, {more}}}
privacy: {{epsilon: 3.0, window: {window}, cover: true, method: {privacy}}}
output: {{statistics: [{statistic}]}}
runtime: {{shards: 3, report_rows: 4}}
"""
FIRST, SLOTS, WINDOW = START // SLOT, 14, 3
COVERED = {
    "sw_direct": ("sw_direct, domain: [0, 10]", "first", "mean"),
    "sampling": ("sampling, segment: 2, domain: [0, 10]", "mean", "mean"),
    "position": ("sampling, segment: 2, position: 0, domain: [0, 10]", "sum", "mean"),
    "lpu": ("lpu, categories: 10", "last", "frequencies"),
    "lpu of bits": ("lpu, mechanism: oue, categories: 10", "first", "frequencies"),
}
SEEDS = range(depth(2, 40))


@cache
def stage_of(name, window=WINDOW, more="gaps: strict"):
    privacy, per_slot, statistic = COVERED[name]
    text = TEXT.format(
        privacy=privacy, per_slot=per_slot, statistic=statistic, window=window, more=more
    )
    topology = loads(text)
    return make(topology, "perturb", 0, edge_randomness(topology, KEY, HERE))


def events_of(seed, users):
    """Rows (user, slot, value): of each user one in its first slot, and several or none in later
    ones; all of one user in the window that is changed are apart.
    """
    random = Random(seed)
    first = {f"u{at}": random.choice((0, 0, 2)) for at in range(users)}
    first["u0"] = 1
    kept = [(user, slot, random.randrange(10)) for user, slot in first.items()]
    begin = random.randrange(3, SLOTS - WINDOW)
    window = range(begin, begin + WINDOW)
    for user, since in first.items():
        for slot in range(since + 1, SLOTS):
            if user != "u0" or slot not in window:
                kept += [
                    (user, slot, random.randrange(10)) for _ in range(random.choice((0, 1, 2)))
                ]
    changed = [
        [("u0", slot, random.randrange(10)) for slot in window for _ in range(random.choice(odds))]
        for odds in ((0,), (1,), (0, 1, 2), (1, 3))
    ]
    return kept, changed, window


def log_of(rows, seed, *, ticked=True):
    """A raw log of these events, those of the others in the same order, some late, with a tick as
    each slot begins, at the same times whatever the events.
    """
    random, due = Random(seed), {}
    for user, slot, value in rows:
        late = random.choice((0, 0, 0, 1)) if user != "u0" else 0
        due.setdefault(slot + late, []).append((user, START + slot * SLOT + 5, value))
    messages, number = [], count(1)

    def put(value, time):
        messages.append(Message(next(number), time, value))

    for slot in range(SLOTS + 4):
        now = START + slot * SLOT
        if ticked and slot not in (6, 7):  # an outage
            put(encode_json(Tick(now)), now)
        every = due.get(slot, [])
        mine = [each for each in every if each[0] != "u0"]
        theirs = [each for each in every if each[0] == "u0"]
        places = sorted(random.randint(0, len(mine)) for _ in theirs)
        for place, each in zip(reversed(places), reversed(theirs), strict=True):
            mine.insert(place, each)
        for user, time, value in mine:
            text = json.dumps({"user": user, "time": time, "value": value})
            put(text.encode(), now + 10)
    return messages


def left(stage, messages, together):
    """What leaves the edge, but for what reports say, and where messages are folded one by one
    behind which tick; and what they say, by their ids.
    """
    shown, said, state, ticks = [], {}, stage.fresh(), 0
    for at in range(0, len(messages), together):
        run = messages[at : at + together]
        ticks += together == 1 and b'"tick"' in run[0].value
        for record in stage.fold(state, run).records:
            if record.topic != stage.reports_topic:
                continue
            batch = read_reports(record.value)
            said |= {one.id: (one.slot, np.asarray(one.value).tolist()) for one in batch.singles()}
            blank = replace(batch, values=np.zeros_like(batch.values))
            frame = record.key, record.headers, record.partition, repr(vars_of(blank))
            shown.append((ticks, *frame))
    return shown, said


def vars_of(batch):
    """All columns and numbers of a batch, as what can be compared."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in ((each, getattr(batch, each)) for each in batch.__dataclass_fields__)
    }


def told_apart(stage, seed, users, together=1):
    """Whether logs of neighbours differ in anything but reports of the changed window; how many
    reports there were, and how many differed.
    """
    kept, changed, window = events_of(seed, users)
    logs = [log_of(kept + rows, seed) for rows in changed]
    found = [left(stage, log, together) for log in logs]
    shown, said = found[0]
    differ = {
        slot
        for _, other in found[1:]
        for name in said.keys() | other.keys()
        if said.get(name) != other.get(name)
        for slot in {each[name][0] for each in (said, other) if name in each}
    }
    # the mean of a segment is said in its last slot
    reached = {*window, window.stop}
    apart = any(other != shown for other, _ in found) or not differ <= {
        FIRST + slot for slot in reached
    }
    return apart, len(said), len(differ)


@pytest.mark.parametrize("users", [1, 5])
@pytest.mark.parametrize("name", COVERED)
def test_presence_does_not_leave_the_edge(name, users):
    """Also of who is alone in a partition, and over an outage of the ticks."""
    differed = 0
    for seed in SEEDS:
        for together in (1, 9):
            apart, said, differ = told_apart(stage_of(name), seed, users, together)
            assert not apart and said >= users
            differed += differ
    assert differed


class ClosedByEvents:
    """Slots close by events."""

    @property
    def _ticked(self):
        return False


class CoversNobody:
    """Who has no value is silent."""

    PART = "gate"
    _closed = AtClose._closed


class PassesEmptySlotsOver:
    """A slot in which nobody has a value is not reported."""

    PART = "gate"

    def _closed(self, state, *more):
        for placed in super()._closed(state, *more):
            if (placed.values != self.nothing).any():
                yield placed


class CountsEvents:
    """How many events there were, in a header."""

    def fold(self, state, messages):
        folded = super().fold(state, messages)
        seen = str(int(folded.counts["events"])).encode()
        folded.sent = [
            each._replace(headers=(*each.headers, ("events", seen))) for each in folded.records
        ]
        return folded


class SaysWhereItIs:
    """Numbers bounds by offsets, which count events."""

    def _send(self, state, bounds, drawn, output):
        state.bound = int(bounds.offsets[0]) - 1
        super()._send(state, bounds, drawn, output)


@pytest.mark.parametrize(
    "twin",
    [ClosedByEvents, CoversNobody, PassesEmptySlotsOver, CountsEvents, SaysWhereItIs],
    ids=lambda twin: twin.__name__,
)
def test_an_edge_that_shows_presence_is_found(twin):
    stage = of_kind(twin, stage_of("sw_direct"))
    assert any(
        told_apart(stage, seed, users, together)[0]
        for seed in SEEDS
        for users in (1, 5)
        for together in (1, 9)
    )


ONE = {"first": lambda each: each[0], "last": lambda each: each[-1], "mean": np.mean, "sum": sum}


def values_of(messages):
    """{user: {slot after the first one: its values, as they came}}"""
    found = {}
    for message in messages:
        if b'"tick"' not in message.value:
            event = json.loads(message.value)
            mine = found.setdefault(event["user"], {})
            mine.setdefault(event["time"] // SLOT - FIRST, []).append(event["value"])
    return found


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("name", COVERED)
def test_reports_are_those_of_the_method(name, window):
    """Of each user from the first slot on that has a value of it, once a slot; and all of them."""
    stage, how = stage_of(name, window), ONE[COVERED[name][1]]
    method, noise = stage.method, stage.randomness
    none = np.nan if method.kind == "numeric" else -1
    kept, changed, _ = events_of(3, 5)
    messages, told = log_of(kept + changed[2], 3), {}
    for user, mine in values_of(messages).items():
        since = min(mine)
        stream = [how(mine[at]) if at in mine else none for at in range(since, SLOTS + 2)]
        released = method.release(np.array(stream), noise, users=[user], first_slot=FIRST + since)
        slots = np.arange(FIRST + since, FIRST + SLOTS + 2)
        digests = np.repeat(noise.digests([user]), len(slots), axis=0)
        ids = noise.report_ids(digests, slots, 0)
        told |= {one.tobytes(): each for one, each in zip(ids, released, strict=True)}
        due = slots % getattr(method, "segment", 1) == (
            0 if getattr(method, "position", None) == 0 else getattr(method, "segment", 1) - 1
        )
        for one, each, is_due in zip(ids, released, due, strict=True):
            if not is_due or (method.kind == "categorical" and (each == -1).all()):
                del told[one.tobytes()]
    for record in stage.fold(stage.fresh(), messages).records:
        made = read_reports(record.value)
        published = method.published(
            Step(
                made.values * made.scale if made.values.ndim == 1 else made.values,
                np.full(len(made), SENT),
            )
        )
        for one, each in zip(made.ids, published, strict=True):
            assert np.allclose(told.pop(one.tobytes()), each)
    assert not told


def test_who_was_never_in_time_is_unknown():
    """A user begins with its first event that counts; one that is late by its record, or behind its
    tick, begins nothing, and after its end a user goes on.
    """
    stage, slot = stage_of("sw_direct"), SLOT
    tick = [encode_json(Tick(START + at * slot)) for at in range(12)]
    row = [batch([("u", START + at * slot, 4.0)]) for at in range(12)]
    for log, begins in (
        ([(-1, tick[4]), (-1, row[1]), (-1, tick[8])], None),
        ([(START + 3 * slot, row[1]), (START + 3 * slot, tick[8])], None),
        ([(START + slot, row[1]), (START, tick[0]), (START, tick[8])], 1),
        ([(START, row[3]), (START, row[1]), (START, tick[2]), (START, tick[8])], 1),
        ([(START, row[3]), (START, tick[2]), (START, tick[8])], 3),
    ):
        messages = [Message(at, stamp, value) for at, (stamp, value) in enumerate(log, 1)]
        said = reports(stage.fold(stage.fresh(), messages).records, stage.reports_topic)
        slots = sorted(slot - FIRST for slot, *_ in said.values())
        assert slots == ([] if begins is None else list(range(begins, 7)))


def test_releases_of_silent_users_are_of_the_midpoint():
    """And what is released of a slot is of all users who are known."""
    topology = loads(
        TEXT.format(
            privacy="sw_direct, domain: [0, 10]",
            per_slot="first",
            statistic="mean",
            window=1,
            more="gaps: strict",
        ).replace("epsilon: 3.0", "epsilon: 60.0")
    )
    rows = [batch([(f"u{at}", START, 9.0) for at in range(50)])]
    rows += [batch([(f"u{at}", START + SLOT, 9.0) for at in range(10)])]
    log = [Message(at, START, value) for at, value in enumerate(rows, 1)]
    log.append(Message(3, START, encode_json(Tick(START + 5 * SLOT))))
    run = local.run(topology, edge_randomness(topology, KEY, HERE), [log])
    found = [json.loads(each.value) for each in run.releases]
    assert [each["reports"] for each in found] == [50, 50, 50, 50]
    means = [each["value"] for each in found]
    assert means == pytest.approx([9.0, 0.2 * 9 + 0.8 * 5, 5.0, 5.0], abs=0.2)
    assert {each["guarantee"]["protects"] for each in found} == {"values and presence"}
    assert all("first event" in each["guarantee"]["within"] for each in found)
