"""The collector's fold over devices' reports: each id counts once, slots close by event time, and a
crash changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Release, Reports, Tick
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.log import Message, Record
from ldp_kafka.runtime.stages.collect_devices import (
    CollectDevices,
    make_collect_devices,
    partition_of,
)
from ldp_kafka.runtime.stages.parts import Counted, PartOf
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json, header
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.runtime.worker.exits import RETRY
from ldp_kafka.runtime.worker.supervisor import SUPERVISED, run
from ldp_kafka.runtime.worker.watch import Watch
from ldp_kafka.topology import loader
from tests.cases import cases
from tests.runtime.device.lives import SLOT, TEXT, loads
from tests.runtime.stages.crashes import of_kind, over_crashes
from tests.runtime.stages.test_collector import partial

MEAN = (TEXT % ("sw_direct", "domain: [0, 100]", "mean")).replace("lateness: 1000", "lateness: 1")
PER_USER = (TEXT % ("capp", "domain: [0, 100]", "mean, per_user")).replace(
    "lateness: 1000", "lateness: 1"
)
BITS = (TEXT % ("lpu", "mechanism: oue, categories: 40", "frequencies")).replace(
    "lateness: 1000", "lateness: 1"
)


def name_of(number, at=1, partitions=2):
    """An id that lies in partition ``at``; ids of other numbers are spread over the parts of a
    slot.
    """
    name = bytearray(np.random.default_rng(number).bytes(16))
    name[7] += (
        (at - partition_of(bytes(name), partitions)) % partitions
        if name[7] < 254
        else -(1 if partition_of(bytes(name), partitions) != at else 0)
    )
    assert partition_of(bytes(name), partitions) == at
    return bytes(name)


class Fed:
    """The stage of partition 1, its state and its log."""

    def __init__(self, text=MEAN, source=3):
        self.topology = loads(text)
        self.stage = replace(make_collect_devices(self.topology, 1), source=source)
        self.state, self.offset, self.counts = self.stage.fresh(), 0, {}

    def report(self, number, slot, index=7, **changes):
        """A device's message; the same number and slot are the same report."""
        method = self.topology.method
        blank = method.blank(1)
        values = np.array([index]) if blank.ndim == 1 else np.full_like(blank, index)
        single = stages_single(self.topology, name_of(1000 * number + slot), slot, values)
        return write_reports(replace(single, **changes))

    def put(self, *values, at=None):
        """Messages, folded together, at a slot of the broker's clock (default: far ahead)."""
        time = 10**12 if at is None else at * SLOT
        folded = self.stage.fold(
            self.state, [Message(self.offset + i, time, value) for i, value in enumerate(values)]
        )
        self.offset += len(values)
        self.counts = folded.counts
        return folded.records

    def partials(self, *values, at=None):
        """The (slot, number of reports) of the partials that messages gave."""
        records = self.put(*values, at=at)
        assert all(
            record.topic == self.topology.partials_topic and record.key == b"3"
            for record in records
        )
        assert all(partial(record).source == 3 for record in records)
        return [
            (found.slot, found.support[0] if found.support else None)
            for found in map(partial, records)
        ]

    def refused(self, value, at=None):
        """The reason of the dead letter of a message that changes nothing."""
        before = (
            self.stage.meta(self.state),
            self.stage.dump(self.state, self.stage.shards_of(self.state)),
        )
        [record] = self.put(value, at=at)
        assert (
            self.stage.meta(self.state),
            self.stage.dump(self.state, self.stage.shards_of(self.state)),
        ) == before
        assert record.topic == self.topology.collector_dead_letters_topic
        body = json.loads(record.value)
        assert (body["topic"], body["partition"], body["offset"]) == (
            "d.device-reports",
            1,
            self.offset - 1,
        )
        return body["reason"]


def stages_single(topology, name, slot, values):
    """One report as a device makes it."""
    ids = np.frombuffer(name, np.uint64).reshape(1, 2)
    series = np.frombuffer(name_of(1), np.uint64).reshape(1, 2) if topology.per_user else None
    return Reports(
        ids,
        np.array([slot]),
        values,
        topology.method.scale,
        topology.fingerprint,
        -1,
        None,
        series=series,
    )


def test_each_id_counts_once():
    """However often it comes, before its slot closes and after."""
    fed = Fed()
    once = fed.report(1, 50)
    assert fed.partials(
        header("d", "0" * 32, "0" * 32), once, once, fed.report(2, 50, 9), once
    ) == [(48, None)]
    assert (fed.counts["reports"], fed.counts["repeated"], fed.counts["second_reports"]) == (
        2,
        2,
        0,
    )
    assert fed.partials(fed.report(1, 51)) == [(49, None)]
    assert fed.partials(once, fed.report(1, 52)) == [(50, 2)]
    assert fed.refused(once) == "closed"
    assert not [at for at in fed.state.parts if at.slot == 50]


def test_sums_are_those_of_the_mechanism():
    """In a partial, with the first ids."""
    fed = Fed()
    [_, *_, record] = fed.put(
        *(fed.report(number, 50, number) for number in range(40)), encode(Tick(52 * SLOT))
    )
    found = partial(record)
    method = fed.topology.method
    assert list(found.support) == method.support(np.arange(40) * method.scale).tolist()
    assert (
        list(found.sample) == sorted(name_of(1000 * number + 50).hex() for number in range(40))[:32]
    )


def test_an_id_that_says_something_else_raises_the_alarm():
    """And does not count."""
    fed = Fed()
    fed.put(fed.report(1, 50, 7), fed.report(1, 50, 8))
    assert (fed.counts["reports"], fed.counts["repeated"], fed.counts["second_reports"]) == (
        1,
        0,
        1,
    )
    assert fed.state.source.meta()["second_reports"] == [1, 50], "for `ldp-kafka status`"


def test_the_brokers_clock_holds_the_watermark_back():
    """A device whose clock is ahead counts, and closes nothing for the others; too far ahead it is
    a dead letter.
    """
    fed = Fed()
    assert fed.partials(fed.report(1, 50), at=50) == [(48, None)]
    assert fed.partials(fed.report(2, 60), fed.report(3, 50), at=50) == []
    assert fed.counts["reports"] == 2
    assert fed.refused(fed.report(4, 50 + 24 * 60 + 1), at=50) == "ahead"
    assert fed.refused(encode(Tick((50 + 24 * 60 + 1) * SLOT)), at=50) == "ahead"
    assert fed.partials(encode(Tick(61 * SLOT)), at=62) == [(49, None), (50, 2), (59, None)]
    assert fed.partials(encode(Tick(62 * SLOT)), at=62) == [(60, 1)]


@cases(
    ("changes", "reason"),
    [
        ({"fingerprint": "0" * 32}, "fingerprint"),
        ({"bound": 3}, "wrong_fields"),
        ({"closed": 40}, "wrong_fields"),
        ({"chunk": 1}, "wrong_fields"),
        ({"phase": 1}, "wrong_fields"),
        ({"scale": 1.0}, "wrong_fields"),
        ({"values": np.array([2**40])}, "range"),
        ({"ids": np.frombuffer(name_of(5, at=0), np.uint64).reshape(1, 2)}, "partition"),
        ({"slots": np.array([49])}, "closed"),
    ],
)
def test_what_is_no_device_report_never_counts(changes, reason):
    """Each with its reason."""
    fed = Fed()
    fed.put(fed.report(1, 51))
    assert fed.refused(fed.report(2, 51, **changes)) == reason


def test_batches_and_other_records_are_refused():
    """A device sends one report at a time."""
    fed = Fed()
    both = lk.decode(fed.report(1, 50)) + lk.decode(fed.report(2, 50))
    assert fed.refused(lk.encode(both)) == "not_a_report"
    assert fed.refused(lk.encode(lk.Event("m", 1, 1.0))) == "not_a_report"
    assert fed.refused(b"{") == "not_json"
    assert fed.refused(b"") == "empty"


def test_releases_per_user_come_once():
    """With the sums of all that counted."""
    fed = Fed(PER_USER)
    records = fed.put(fed.report(1, 50), fed.report(1, 50), fed.report(2, 50))
    releases = [
        found
        for record in records
        if isinstance(found := decode_json(parse_json(record.value)), Release)
    ]
    assert len(releases) == 2
    assert fed.state.source.crowd == (2, 14, 98)
    assert fed.refused(fed.report(3, 50, series=None)) == "wrong_fields"


def test_the_watermark_is_what_idle_partitions_are_told(monkeypatch):
    """By the broker's clock at most; it survives a snapshot."""
    fed = Fed()
    fed.put(fed.report(1, 50), fed.report(2, 48), at=60)
    assert fed.state.watermark == 50 * SLOT
    fed.put(fed.report(3, 90), at=60)
    assert fed.state.watermark == 60 * SLOT
    kept = fed.stage.load(json.loads(json.dumps(fed.stage.meta(fed.state))), {})
    assert kept.watermark == 60 * SLOT
    asked = []
    topology, told = loads(MEAN), []
    agent = SimpleNamespace(
        epochs={1: SimpleNamespace(seen=100.0, state=fed.state, stage=fed.stage)},
        spec=topology.role("collect").agents[0],
    )
    watch = Watch(
        [agent],
        set,
        SimpleNamespace(latest=asked.append),
        None,
        told.extend,
        idle_ms=1000,
        until_idle=None,
        stop=None,
    )
    watch.ticks["collect"]._ticked[0] = 0.0
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    asyncio.run(watch.tick(agent, {("d.device-reports", 0), ("d.device-reports", 1)}))
    assert told == [Record("d.device-reports", 0, None, encode(Tick(60 * SLOT)))]
    assert not asked
    assert fed.partials(told[0].value, at=60) == []


def test_a_device_may_be_faster_than_whoever_makes_its_topic():
    """Its report lies where the header would: it is read as it is. What is no report of this
    topology is somebody else's.
    """
    with EmbeddedBroker() as broker:
        topology = loader.loads(
            MEAN.replace("topology: d", "topology: fast")
            + f"kafka: {{bootstrap_servers: '{broker.bootstrap_servers}'}}"
        )
        for topic in topology.topics():
            broker.create_topic(topic.name, topic.partitions)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        text = Fed().report(1, 50, fingerprint=topology.fingerprint)
        producer.produce(topology.reports_topic, text, partition=0)
        producer.produce(topology.partials_topic, text, partition=0)
        assert producer.flush(10) == 0
        with pytest.raises(ConfigurationError, match=r"topic fast\.partials is not ours"):
            prepare(topology)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        assert admin.committed(
            config, topology.group("collect"), topology.reports_topic, range(2)
        ) == {0: None, 1: 1}
        other = loader.loads(
            MEAN.replace("topology: d", "topology: fast").replace("epsilon: 3.0", "epsilon: 2.0")
            + f"kafka: {{bootstrap_servers: '{broker.bootstrap_servers}'}}"
        )
        with pytest.raises(ConfigurationError, match=r"fast\.device-reports"):
            prepare(other)


def test_a_worker_without_a_broker_is_started_again(monkeypatch):
    """The supervisor is told that nothing is wrong but the moment."""
    monkeypatch.setenv(SUPERVISED, "1")
    assert (
        run(loader.loads(MEAN + "kafka: {bootstrap_servers: '127.0.0.1:1'}"), role="collect")
        == RETRY
    )


class NoOffset(CollectDevices):
    """Takes every id that is there for a repetition, also where a part is ahead of the rest."""

    def _report(self, state, one, message, output):
        super()._report(state, one, message._replace(offset=2**40), output)


class NoIds(CollectDevices):
    """Counts what comes again."""

    def _report(self, state, one, message, output):
        part = state.parts.get(PartOf.of(int(one.slots[0]), 0, one.ids.tobytes()))
        if part:
            part.ids.pop(one.ids.tobytes(), None)
        super()._report(state, one, message, output)


class OneWriting(CollectDevices):
    """Writes ids down without those of the last messages."""

    def dump(self, state, shards):
        held = {at: dict(part.ids) for at, part in state.parts.items()}
        for part in state.parts.values():
            for name in list(part.ids)[-1:]:
                part.ids[name] = Counted(-1, part.ids[name].said)
        found = super().dump(state, shards)
        for at, part in state.parts.items():
            part.ids.update(held[at])
        return found


def script(seed, text, n=60):
    """A log: devices report slot after slot, some late, some twice, some wrong; ticks."""
    rng, fed, log = np.random.default_rng(seed), Fed(text), []
    for at in range(n):
        slot = 50 + at // 6 + int(rng.integers(-2, 3))
        number = int(rng.integers(5))
        low, high = fed.topology.method.index_range if text != BITS else (0, 1)
        kind = rng.integers(12)
        value = (
            encode(Tick(slot * SLOT))
            if kind == 0
            else (
                b"{"
                if kind == 1
                else fed.report(
                    number, slot, int(np.random.default_rng([number, slot]).integers(low, high))
                )
            )
        )
        log.append(Message(at, (50 + at // 6) * SLOT, value))
    return log


def crashing(kind, text, log, cuts, ahead):
    """What comes out of the log of partition 1, over crashes."""
    stage = replace(make_collect_devices(loads(text), 1), source=3)
    return over_crashes(of_kind(kind, stage), log, cuts, ahead)


@given(
    st.integers(0, 2**32),
    st.sampled_from([MEAN, PER_USER, BITS]),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(0, 20),
)
@settings(max_examples=40)
def test_a_crash_changes_nothing(seed, text, cuts, ahead):
    """Parts of a snapshot without its meta are ahead of the rest; what comes out is what a calm
    owner gives.
    """
    log = script(seed, text)
    calm = crashing(CollectDevices, text, log, [], [])
    assert crashing(CollectDevices, text, log, sorted(cuts), [ahead] * len(cuts)) == calm


@pytest.mark.parametrize("kind", [NoOffset, NoIds, OneWriting])
def test_a_broken_fold_is_found(kind):
    """By the same comparison."""

    def differs(seed):
        log = script(seed, PER_USER)
        calm = crashing(CollectDevices, PER_USER, log, [], [])
        try:
            return crashing(kind, PER_USER, log, [20, 40], [10, 10]) != calm
        except AssertionError:
            return True

    assert any(differs(seed) for seed in range(5))


@given(st.integers(0, 2**32), st.integers(1, 60))
@settings(max_examples=20)
def test_together_or_one_by_one(seed, together):
    """It makes no difference."""
    log, fed = script(seed, MEAN), Fed()
    state, records = fed.stage.fresh(), []
    for start in range(0, len(log), together):
        records += fed.stage.fold(state, log[start : start + together]).records
    assert records == [
        record for made in crashing(CollectDevices, MEAN, log, [], []).values() for record in made
    ]
