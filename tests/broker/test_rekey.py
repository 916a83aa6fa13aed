"""Someone else's topic of any key on a real broker, re-keyed by workers that are killed and
revived: what is reported and released is what a topic gives that is keyed by the user.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from contextlib import contextmanager
from random import Random

import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.keys import edge_randomness, read_key
from ldp_kafka.runtime.log import Message, Record
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.sources import Sources
from ldp_kafka.runtime.wire.copies import place_of
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.broker.alone import Alone
from tests.broker.chaos.run import seed
from tests.broker.flow import Flow
from tests.broker.passed import note
from tests.broker.watching import stopped, until
from tests.fold.judge import said

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{topic: {name}.theirs, relay: rekey, sources: 4, partitions: {partitions}, slot: 1m,
  events: $, lateness: 1, idle: 2s, per_slot: mean}}
privacy: {{method: {method}, {shape}, epsilon: 2.0, window: 4}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime: {{shards: 4, snapshot_seconds: 1, session_timeout: {session}}}
"""
KEYED = "create: false, partitioning: murmur2"
SOURCES, PARTITIONS = 4, 6
SLOT = 60_000
FIRST = 1_600_000_000_000 // SLOT
SLOTS, USERS = 12, 300
HOURS = 60  # slots in one
LONG = 240  # seconds
FAULTS = 6  # of one test


def events(seed, apart):
    """Of each partition of the topic, whose events they are and of when, in their order: of any
    users, so many slots behind the partition before it.
    """
    dice, made = Random(seed), []
    for source in range(SOURCES):
        found = []
        for slot in range(source * apart, source * apart + SLOTS):
            some = dice.sample(range(USERS), USERS // 2)
            found += [(f"u{at}", (FIRST + slot) * SLOT + at, dice.uniform(0, 100)) for at in some]
        made.append(found)
    return made


def last(apart):
    """A time that closes all of these slots."""
    return (FIRST + SLOTS + SOURCES * apart + 5) * SLOT


@contextmanager
def rekeyed(boot, tmp_path, prefix, method="sw_direct"):
    """A topology, and the topic that it relays."""

    def ready(topology, _):
        admin.ensure({"bootstrap.servers": boot}, [TopicSpec(topology.input.topic, SOURCES)])
        return prepare(topology)

    with Flow(
        boot,
        tmp_path,
        f"{prefix}-rekey",
        method=method,
        statistics="mean",
        partitions=PARTITIONS,
        text=TEXT,
        ready=ready,
    ) as flow:
        yield flow


def write(flow, source, rows, key=None):
    """One message of theirs: an array of events."""
    value = json.dumps([{"user": u, "time": time, "value": value} for u, time, value in rows])
    flow.producer.produce(flow.topology.input.topic, value.encode(), key=key, partition=source)
    flow.producer.poll(0)


def fill(flow, made, keys):
    """All of it, in arrays of any length; and junk between them."""
    dice = Random(str(made[0][0]))
    for source, found in enumerate(made):
        left = list(found)
        while left:
            size = dice.choice((1, 3, 20))
            key = f"bike-{source}-{dice.randrange(5)}" if keys else None
            write(flow, source, left[:size], key)
            left = left[size:]
            if dice.random() < 0.02:
                flow.producer.produce(flow.topology.input.topic, b"junk", partition=source)
    flow.producer.flush(30)


def close(flow, at):
    """An event of a stranger a good while later, of each partition."""
    for source in range(SOURCES):
        write(flow, source, [("z", at, 1.0)])
    flow.producer.flush(30)


def of_keyed(flow, made, at):
    """What comes of the same events in a topic that is keyed by the user."""
    text = flow.path.read_text().replace("relay: rekey, sources: 4", KEYED)
    topology = loads(text.replace("idle: 2s, ", ""), str(flow.path))
    key = read_key(topology.edge.key_file)
    whole = sorted(((*one,) for found in made for one in found), key=lambda one: one[1])
    homes = partitions_of([user for user, *_ in whole], PARTITIONS).tolist()
    logs = [[] for _ in range(PARTITIONS)]
    for (user, time_ms, value), home in zip(whole, homes, strict=True):
        text = json.dumps([{"user": user, "time": time_ms, "value": value}])
        logs[home].append(Message(len(logs[home]) + 1, -1, text.encode()))
    for log in logs:
        log.append(Message(len(log) + 1, -1, encode_json(Tick(at))))
    return local.run(topology, edge_randomness(topology, key, flow.deployment), logs, together=200)


def same(flow, expected):
    """Each report once or more and always alike, and each release: those of the keyed topic, and no
    other.
    """
    seen = {
        each
        for message in flow.read(flow.topology.reports_topic)
        for each in said(message.partition(), [Record("", 0, None, message.value())])
    }
    due = {each for at, records in enumerate(expected.reports) for each in said(at, records)}
    assert len(due) > 1000 and len(due) == len({name for name, _ in due})
    assert seen == due
    released = {
        (each["slot"], each["value"])
        for message in flow.read(flow.topology.releases_topic)
        if (each := json.loads(message.value()))["type"] == "release"
    }
    wanted = {(each["slot"], each["value"]) for each in map(decoded, expected.releases)}
    assert released == wanted and len(wanted) >= SLOTS


def decoded(record):
    return json.loads(record.value)


@pytest.mark.parametrize(("keys", "apart"), [(False, 0), (True, 3 * HOURS)])
def test_a_topic_without_keys_or_of_other_keys(kafka, tmp_path, prefix, request, keys, apart):
    """Of arrays, with junk among them, its partitions hours apart: workers relay and fold it, are
    killed, and stopped for longer than a session. The same reports and releases as of a topic that
    is keyed by the user.
    """
    print(f"seed {(number := seed())}")
    made, at, dice = events(number, apart), last(apart), Random(number)
    with rekeyed(kafka, tmp_path, prefix) as flow:
        fill(flow, made, keys)
        close(flow, at)
        expected = of_keyed(flow, made, at)
        for role in ("perturb", "perturb", "collect"):
            flow.start(role)
        for turn in range(FAULTS):
            time.sleep(dice.uniform(2, 5))
            flow.revive()
            mine = [place for place, (role, _) in enumerate(flow.workers) if role == "perturb"]
            if turn % 3 == 2:
                _, zombie = flow.workers[dice.choice(mine)]
                zombie.send_signal(signal.SIGSTOP)
                time.sleep(9)
                zombie.send_signal(signal.SIGCONT)
            else:
                flow.start(flow.kill(dice.choice(mine)))
        flow.wait(expected, LONG)
        same(flow, expected)
        assert {code for _, code in flow.exits} <= {75}, flow.log_path.read_text()
    note(request.node.name, FAULTS, f"seed {number}")


class Relayers(Alone):
    """Processes that do nothing but relay."""

    def __init__(self, flow):
        super().__init__(flow.path, "relay")
        self.flow = flow
        self.config = {"bootstrap.servers": flow.boot, "log_level": 0}

    def left(self):
        """What the group has not committed."""
        relay = self.flow.topology.role("perturb").relay
        partitions = range(SOURCES)
        return sum(admin.lag(self.config, relay.group, relay.reads.name, partitions).values())

    def ours(self):
        """Our log."""
        found = [[] for _ in range(PARTITIONS)]
        for each in sorted(read_records(self.config, self.flow.topology.raw_topic)):
            found[each.partition].append(Message(each.offset, each.timestamp, each.value))
        return found


def folded(logs):
    """Places of events that the fold does not drop, in order, and how many it drops."""
    places, dropped = [], 0
    for log in logs:
        run, _ = Sources(SOURCES).new(Run.of(log))
        dropped += len(log) - len(run)
        found = [place_of(value) for value in run.values]
        mine = [each for each in found if each is not None and not each.is_tick]
        assert all(
            [each for each in mine if each.source == source]
            == sorted(each for each in mine if each.source == source)
            for source in range(SOURCES)
        )
        places += mine
    return places, dropped


def test_killed_again_and_again_and_a_zombie(kafka, tmp_path, prefix, request):
    """Two processes relay; they die behind some record, which may have arrived or not, in any
    partition; one is stopped with records in its hands, and woken when all is copied. What the fold
    does not drop is each row once, and each source's in its order.
    """
    print(f"seed {(number := seed())}")
    made = events(number, HOURS)
    with rekeyed(kafka, tmp_path, prefix) as flow, Relayers(flow) as all_:
        fill(flow, made, False)
        for dies in (1, 30, 500):
            assert all_.start(dies).wait(LONG) == -signal.SIGKILL
        zombie = all_.start(900, signal.SIGSTOP)
        until(lambda: stopped(zombie.pid), LONG)
        two = [all_.start(), all_.start()]
        until(lambda: all_.left() == 0, LONG)
        zombie.send_signal(signal.SIGCONT)
        time.sleep(5)
        close(flow, last(HOURS))
        until(lambda: all_.left() == 0, LONG)
        places, dropped = folded(all_.ours())
        assert dropped > 500 and len(places) == len(set(places))
        rows = Counter(place[:2] for place in places)
        written = Counter()
        for message in flow.read(flow.topology.input.topic):
            junk = message.value() == b"junk"
            count = 1 if junk else len(json.loads(message.value()))
            written[message.partition(), message.offset()] = count
        assert rows == written
        for process in (zombie, *two):
            process.terminate()
            assert process.wait(60) == 0
    note(request.node.name, 4, f"seed {number}")
