"""Ticks for idle partitions: what a worker tells them, and whom it asks where its own partitions
know nothing newer.
"""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from confluent_kafka import Producer

from ldp_kafka.records import Tick
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.policies import ClockTicks
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.worker.watch import Watch
from ldp_kafka.topology import loads
from tests.fold.epochs import folded, opened

TEXT = """
topology: t
kafka: {{bootstrap_servers: "{servers}"}}
input: {{slot: 1m, partitions: 4, idle: 1s}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""
T = 1_760_000_000_000


class Fake:
    """A worker that owns some partitions of four: {number: (event time or None before its first
    message, seconds of silence)}.
    """

    def __init__(self, owned, elsewhere=-1):
        self.asked, self.sent = [], {}
        now = time.monotonic()
        topology = loads(TEXT.format(servers="127.0.0.1:1"))
        (spec,) = topology.role("perturb").agents
        self.epochs = {
            number: SimpleNamespace(
                seen=now - silent,
                state=SimpleNamespace(watermark=mark),
                stage=SimpleNamespace(watermark=lambda state: state.watermark),
            )
            for number, (mark, silent) in owned.items()
            if mark is not None
        }
        self.agent = SimpleNamespace(epochs=self.epochs, spec=spec, seal=None)
        self.assigned = {("t.raw", number) for number in owned}
        self.watch = Watch(
            [self.agent],
            lambda: self.assigned,
            SimpleNamespace(
                latest=lambda _, numbers, seal: self.asked.append(set(numbers)) or elsewhere
            ),
            None,
            lambda records: self.sent.update({each.partition: each.value for each in records}),
            idle_ms=topology.input.idle_ms,
        )
        self.watch.ticks["perturb"]._ticked |= {
            number: now - silent for number, (mark, silent) in owned.items() if mark is None
        }

    def tick(self):
        asyncio.run(self.watch.tick(self.agent, self.assigned))
        return self.sent


def told(times):
    return {number: encode_json(Tick(time)) for number, time in times.items()}


def test_its_own_busy_partition_is_enough():
    """Nobody is asked."""
    fake = Fake({0: (T + 5, 0), 1: (T, 60), 2: (None, 60)}, T + 100)
    assert fake.tick() == told({1: T + 5, 2: T + 5})
    assert fake.asked == []


@pytest.mark.parametrize(
    "idle", [{1: (T, 60)}, {1: (None, 60)}, {1: (T, 60), 3: (T, 60)}, {1: (T, 60), 3: (None, 60)}]
)
def test_an_owner_of_idle_partitions_only_asks_for_the_others(idle):
    """And is told what their owners have folded, once in a while."""
    fake = Fake(idle, T + 7)
    assert fake.tick() == told(dict.fromkeys(idle, T + 7))
    assert fake.asked == [{0, 1, 2, 3} - idle.keys()]
    fake.sent.clear()
    for number, epoch in fake.epochs.items():
        epoch.seen, epoch.state.watermark = float("-inf"), T + 7
        assert number in idle
    fake.watch.ticks["perturb"]._ticked.clear()
    if fake.epochs.keys() == idle.keys():
        assert fake.tick() == {}, "nothing is newer"
    assert len(fake.asked) == 1, "not again at once"


@pytest.mark.parametrize("elsewhere", [-1, T - 1, T])
def test_without_anything_newer_there_is_no_tick(elsewhere):
    """Never the time of day."""
    assert Fake({1: (T, 60)}, elsewhere).tick() == {}
    assert Fake({1: (T, 0)}, T + 9).tick() == {}, "not idle"
    whole = Fake(dict.fromkeys(range(4), (T, 60)), T + 9)
    assert whole.tick() == {}
    assert whole.asked == [], "there are no others"


def test_the_others_event_time_is_in_the_changelog(tmp_path):
    """In the meta records at the ends of other partitions' logs, whatever lies around them."""
    with EmbeddedBroker() as broker:
        topology = loads(TEXT.format(servers=broker.bootstrap_servers))
        config = {"bootstrap.servers": broker.bootstrap_servers}
        name = topology.changelog("perturb", "perturb")
        broker.create_topic(name, 4)
        broker.create_topic(topology.raw_topic, 4)
        producer = Producer(config)
        noise = edge_randomness(topology, bytes(32), "here")
        for number, times in {0: [T, T + 60_000], 1: [T + 30_000], 2: [T + 10**9]}.items():
            epoch = opened(make_perturb(topology, number, noise), number)
            for offset, when in enumerate(times, 1):
                event = json.dumps({"user": "a", "value": 1, "time": when}).encode()
                folded(epoch, [Message(offset, when, event)])
                for key, value in epoch.snapshot().records.items():
                    producer.produce(name, value, json.dumps(key), partition=number)
            producer.produce(name, None, json.dumps(f"{number}/meta/0123"), partition=number)
        assert producer.flush(10) == 0
        standing = GroupOffsets(
            topology, "perturb", topology.role("perturb").agents, config, config
        )
        (spec,), seal = topology.role("perturb").agents, noise.seal
        assert standing.latest(spec, {0, 1, 3}, seal) == T + 60_000
        assert standing.latest(spec, {1, 3}, seal) == T + 30_000
        assert standing.latest(spec, {3}, seal) == -1
        for other in (None, edge_randomness(topology, bytes(range(32)), "here").seal):
            assert standing.latest(spec, {0, 1}, other) == -1, "it is sealed"


CURATED = """
topology: t
input: {slot: 1m, partitions: 4, lateness: 2}
privacy:
  {trust: curator, level: event, method: naive, epsilon: 2.0, delay: 2, domain: [0, 10]}
output: {statistics: [per_stream]}
"""


def test_where_ticks_alone_close_slots_each_partition_gets_one_a_slot(monkeypatch):
    """By the clock, whatever the events say: not twice, and not before the next slot begins."""
    topology, sent = loads(CURATED), []
    (spec,) = topology.role("curate").agents
    marks = {0: T - 600_000, 1: -1, 2: T + 600_000}
    agent = SimpleNamespace(
        spec=spec,
        seal=None,
        epochs={
            number: SimpleNamespace(state=mark, stage=SimpleNamespace(watermark=lambda mark: mark))
            for number, mark in marks.items()
        },
    )
    watch = Watch(
        [agent],
        lambda: {("t.raw", number) for number in (0, 1, 2, 3)},
        None,
        None,
        lambda records: sent.extend((each.partition, each.value) for each in records),
        idle_ms=topology.input.idle_ms,
        clock_ms=topology.input.slot_ms,
    )
    begun = T // 60_000 * 60_000
    for now, found in (
        # partition 2 is ahead of the clock, and nothing has come of partition 3 yet
        (T, dict.fromkeys((0, 1, 3), begun)),
        (begun + 59_999, {}),
        (begun + 60_000, dict.fromkeys((0, 1, 3), begun + 60_000)),
    ):
        monkeypatch.setattr(time, "time", lambda now=now: now / 1000)
        watch.tick_by_clock(agent, watch.assigned())
        assert dict(sent) == told(found)
        sent.clear()
    watch.tick_by_clock(agent, {("t.raw", 2)})
    assert sent == []


def test_with_cover_a_tick_passes_over_few_slots():
    """Behind an outage too, whose length a partition shows once its fold has begun."""
    clock, slot = ClockTicks(60_000, 16), 60_000
    begun = T // slot * slot
    assert clock.due({0: None, 1: -1}, T) == {0: 0, 1: begun}
    assert clock.due({0: None, 1: begun}, T + 1000) == {}
    assert clock.due({0: None, 1: begun}, T + slot) == {0: 0, 1: begun + slot}
    mark, told = begun - 40 * slot + 7, []
    while due := clock.due({0: mark, 1: begun + slot}, T + slot):
        told.append(due.pop(0))
        assert not due
        mark = told[-1]
    assert np.diff([begun - 40 * slot, *told]).tolist() == [16 * slot, 16 * slot, 9 * slot]
    assert clock.due({0: None, 1: None}, T + slot) == {1: 0}  # given out anew
    assert ClockTicks(slot, 16).due({0: 0}, T) == {0: begun}  # nothing but the beginning was told


def test_a_worker_of_a_curator_has_the_clock_where_it_may_write():
    assert loads(CURATED).input.clock
    assert not loads(CURATED.replace("slot: 1m", "slot: 1m, closing: events")).input.clock
    foreign = CURATED.replace("slot: 1m", "slot: 1m, create: false, closing: ticks")
    assert loads(foreign).input.by_ticks and not loads(foreign).input.clock
