"""What must not make a difference to a fold, and what must."""

from __future__ import annotations

import json
from random import Random
from zlib import crc32

import pytest

from ldp_kafka.errors import GapError, StateError
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.epoch import OffsetAction
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads
from tests.depth import depth
from tests.fold import cases, epochs
from tests.fold.epochs import opened, saved
from tests.fold.judge import by_topic, shard

SW = "{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}"
LPU = "{method: lpu, epsilon: 2.0, window: 3, categories: 12}"
METHODS = {
    "capp": (cases.CAPP, "[mean, per_user], shrinkage: false"),
    "sw_direct": (SW, "[mean]"),
    "lpu": (LPU, "[frequencies]"),
}


def wild(method, seed):
    """One partition's log with everything in it; whole numbers where the method is for
    categories.
    """
    log = cases.wild(seed)[0]
    return cases.singly(log, int) if method == "lpu" else log


def edge_of(method, partitions=1):
    topology = cases.topology(partitions, *METHODS[method])
    return make_perturb(topology, 0, cases.randomness(topology))


def state_of(stage, state):
    """All that a state says."""
    shards = {
        name: shard(payload) for name, payload in stage.dump(state, stage.shards_of(state)).items()
    }
    return json.dumps(stage.meta(state)), {name: users for name, users in shards.items() if users}


def folded(stage, log, sizes):
    """Records, counts and state of a log that is folded in runs of these sizes."""
    state, records, counts, at = stage.fresh(), [], {}, 0
    for size in sizes:
        result = stage.fold(state, log[at : at + size])
        records += result.records
        for name, count in result.counts.items():
            counts[name] = counts.get(name, 0) + count
        at += size
    assert at == len(log)
    return by_topic(records), counts, state_of(stage, state)


def splits(length, random):
    """Any runs that make up the length."""
    left = length
    while left:
        size = random.randint(1, min(left, random.choice((2, 5, left))))
        left -= size
        yield size


def in_time(method, slots=7, users=11):
    """(user, event) of users, none of them late: half of them lag one slot behind the others, which
    is allowed.
    """
    random = Random(5)
    found = []
    for slot in range(slots + 1):
        now = [
            (user, slot - user % 2)
            for user in range(users)
            if 0 <= slot - user % 2 < slots and random.random() < 0.9
        ]
        random.shuffle(now)
        for user, when in now:
            value = random.randrange(12) if method == "lpu" else random.uniform(-1, 11)
            found.append(
                (
                    f"user {user}",
                    cases.START + when * cases.SLOT + random.randrange(cases.SLOT),
                    value,
                )
            )
    return found


@pytest.mark.parametrize("method", METHODS)
def test_partitions_make_no_difference(method):
    """The same events on 1, 2 and 4 partitions give the same reports and, bit for bit, the same
    releases; nothing of it depends on how they come together in messages. (What is shrunk does: by
    the crowd of its partition so far.)
    """
    events = in_time(method)
    seen = {}
    for partitions in (1, 2, 4):
        topology = cases.topology(partitions, *METHODS[method])
        random = Random(partitions)
        logs = []
        for number in range(partitions):
            rows = [row for row in events if crc32(row[0].encode()) % partitions == number]
            values = []
            while rows:
                size = 1 if method == "lpu" else random.randint(1, 4)
                values.append(cases.batch(rows[:size]))
                rows = rows[size:]
            logs.append(cases.log([*values, cases.closing(8)]))
        run = local.run(topology, cases.randomness(topology), logs, together=partitions)
        assert run.counts["late"] == 0
        assert not run.dead_letters
        assert all(len(log) > 2 for log in logs)
        reports = {
            one.id: one
            for records in run.reports
            for record in records
            for one in read_reports(record.value).singles()
        }
        seen[partitions] = (
            reports,
            {(record.key, record.value) for record in run.releases},
            len(run.releases),
        )
    assert len(seen[1][1]) == seen[1][2] > 5
    assert seen[1] == seen[2] == seen[4]


BASE = """
topology: {topology}
input:
  topic: {topic}
  partitions: {partitions}
  user: {user}
  value: {value}
  time: {time}
  slot: {slot}
  lateness: {lateness}
  partitioning: {partitioning}
  max_ahead: {max_ahead}
privacy:
  method: {method}
  epsilon: {epsilon}
  window: {window}
  calibration: {calibration}
  {domain}
  {more}
output: {{statistics: {statistics}}}
runtime: {{shards: {shards}, snapshot_messages: {snapshot}, report_rows: {rows}}}
"""
OLD = {
    "topology": "old",
    "topic": "raw",
    "partitions": 2,
    "user": "$.user",
    "value": "$.value",
    "time": "$.time",
    "slot": "1m",
    "lateness": 1,
    "partitioning": "trusted",
    "max_ahead": "1h",
    "method": "capp",
    "epsilon": 2.0,
    "window": 3,
    "calibration": "sound",
    "domain": "domain: [0, 10]",
    "more": "block: 2",
    "statistics": "[mean]",
    "shards": 3,
    "rows": 5,
    "snapshot": 100,
}
CATEGORIES = {
    "method": "lpu",
    "more": "",
    "statistics": "[frequencies]",
    "domain": "categories: [a, b, c]",
}

FINGERPRINT = [
    {"epsilon": 2.000001},
    {"window": 4},
    {"more": "block: 3"},
    {"calibration": "published"},
    {"domain": "domain: [0, 10.5]"},
    {"domain": "domain: [-1, 10]"},
    {"method": "sw_direct", "more": ""},
    {"slot": "2m"},
    {"topology": "other"},
    CATEGORIES,
]
FINGERPRINT_CATEGORIES = [
    {"domain": "categories: [a, b, d]"},
    {"domain": "categories: [b, a, c]"},
    {"domain": "categories: 3"},
    {"domain": "categories: [a, b, c, d]"},
    {"epsilon": 1.0},
    {"window": 2},
]
LAYOUT = [
    {"topic": "raw2"},
    {"partitions": 3},
    {"user": "$.id"},
    {"value": "$.kwh"},
    {"time": "$.at"},
    {"lateness": 2},
    {"partitioning": "murmur2"},
    {"max_ahead": "2h"},
    {"shards": 4},
    {"rows": 7},
]
HARMLESS = [{}, {"more": ""}, {"snapshot": 5}]


def state_under(settings, role):
    """A changelog written by a stage of a topology with these settings."""
    epoch = opened(stage_under(settings, role))
    epochs.folded(epoch, cases.log([b"{}"]))
    return saved(epoch)


def stage_under(settings, role):
    topology = loads(BASE.format(**settings))
    if role == "edge":
        return make_perturb(topology, 0, cases.randomness(topology))
    return (
        roles.make(topology, "collect", 0)
        if role == "collect"
        else roles.make(topology, "merge", 0)
    )


CHANGES = [
    *[
        pytest.param(OLD, change, "fingerprint: a privacy parameter or the slot", id=f"{change}")
        for change in FINGERPRINT
    ],
    *[
        pytest.param(
            OLD | CATEGORIES,
            change,
            "fingerprint: a privacy parameter or the slot",
            id=f"lpu {change}",
        )
        for change in FINGERPRINT_CATEGORIES
    ],
    *[
        pytest.param(OLD, change, f"layout: .*{word}", id=f"{change}")
        for change, word in zip(
            LAYOUT,
            [
                "topic",
                "partitions",
                "fields",
                "fields",
                "fields",
                "lateness",
                "partitioning",
                "max_ahead",
                "shards",
                "report_rows",
            ],
            strict=True,
        )
    ],
]


@pytest.mark.parametrize("role", ["edge", "collect", "merge"])
@pytest.mark.parametrize(("old", "change", "words"), CHANGES)
def test_changed_topology_refuses_the_old_state(old, change, words, role):
    """A state is of one topology: another one says that it is not its own, and what may have
    changed.
    """
    table = state_under(old, role)
    with pytest.raises(
        StateError, match=f"partition 0: the state was written under another {words}"
    ):
        opened(stage_under(old | change, role), 0, table, 2, committed=True)


@pytest.mark.parametrize("role", ["edge", "collect", "merge"])
@pytest.mark.parametrize("change", HARMLESS, ids=str)
def test_harmless_change_takes_the_old_state(change, role):
    """What shapes neither reports nor the state's place may change; so may a default be left out
    (block: 2 is one).
    """
    table = state_under(OLD, role)
    assert opened(stage_under(OLD | change, role), 0, table, 2, committed=True).offset == 1


def test_another_key_refuses_the_old_state():
    """Under another key every user would look new, with the whole budget to spend again."""
    topology = cases.topology()
    stage = make_perturb(topology, 0, edge_randomness(topology, bytes(range(32)), cases.HERE))
    table = saved(opened(stage, want=0))
    other = make_perturb(topology, 0, edge_randomness(topology, bytes(range(1, 33)), cases.HERE))
    with pytest.raises(StateError, match="key changed"):
        opened(other, 0, table, 0)
    opened(
        make_perturb(topology, 0, edge_randomness(topology, bytes(range(32)), cases.HERE)),
        0,
        table,
        0,
    )


def test_where_offsets_may_be_missing_a_leftover_is_still_known():
    """What an earlier assignment left in the queue comes before what the log has next: neither
    folded nor acknowledged. From the first of this assignment on, a jump is a gap.
    """
    epoch = opened(stage_under(OLD, "perturb"), want=100, gaps=True, first=104)
    taken = [epoch.take(Message(offset, -1, b"{}"), None) for offset in (150, 151, 104, 107, 105)]
    assert taken == [
        OffsetAction.AHEAD,
        OffsetAction.AHEAD,
        OffsetAction.FOLD,
        OffsetAction.FOLD,
        OffsetAction.SKIP,
    ]
    fresh = opened(stage_under(OLD, "perturb"), want=100, gaps=True)
    assert fresh.take(Message(130, -1, b"{}"), None) is OffsetAction.FOLD, "the log had nothing yet"


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("first", [None, 104])
def test_a_run_is_taken_as_its_messages_would_be_one_by_one(gaps, first):
    """With gaps and without, whatever was taken before; ``first``: what the log has first."""
    random = Random(7)
    for _ in range(depth(60, 1000)):
        found = []
        runs = [
            sorted(random.sample(range(at, at + 9), random.randint(1, 6)))
            if random.random() < 0.5
            else list(range(at, at + random.randint(1, 6)))
            for at in random.choices(range(98, 112), k=3)
        ]
        for together in (False, True):
            epoch = opened(stage_under(OLD, "perturb"), want=100, gaps=gaps, first=first)
            for run in runs:
                messages = [Message(offset, -1, b"%d" % offset) for offset in run]
                if together:
                    epoch.take_run(messages, run[-1])
                else:
                    for message in messages:
                        epoch.take(message, message.offset)
            letters = epoch.output.records
            epoch.fold()
            offsets = [json.loads(letter.value)["offset"] for letter in letters]
            missing = epoch._ahead is None
            found.append((offsets, epoch.next_offset, epoch.offset, epoch.waiting, missing))
        assert found[0] == found[1], runs


def test_an_offset_that_is_missing_is_read_again_once_a_second():
    now = [0.0]
    epoch = opened(stage_under(OLD, "perturb"), want=100, gaps=False, first=None)
    epoch._patience = lambda: now[0]
    assert epoch.check() is None
    epoch.take(Message(103, -1, b""), 103)
    asked = []
    for quarter in range(120):
        now[0] = quarter / 4
        if (offset := epoch.check()) is not None:
            asked.append((now[0], offset))
    assert asked == [(float(second), 100) for second in range(1, 30)]
    epoch.take(Message(100, -1, b""), 100)
    now[0] = 60.0
    assert epoch.check() is None


def test_an_offset_that_does_not_come_is_read_again_before_that_ends_the_worker():
    """Also where nothing looked for long: a worker may have been held."""
    now = [0.0]
    epoch = opened(stage_under(OLD, "perturb"), want=100, gaps=False, first=None)
    epoch._patience = lambda: now[0]
    epoch.take(Message(107, -1, b""), 107)
    for _ in range(30):
        now[0] += 3600.0
        assert epoch.check() == 100
    now[0] += 1.0
    with pytest.raises(GapError, match="offset 100 did not come, though it was read 30 times"):
        epoch.check()
