"""The collector's fold over devices' reports: each id counts once, slots close by time."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import numpy as np
import pytest
from confluent_kafka import Producer

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Release, Tick
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json, header
from ldp_kafka.runtime.worker.exits import RETRY
from ldp_kafka.runtime.worker.supervisor import SUPERVISED, run
from ldp_kafka.runtime.worker.watch import Watch
from ldp_kafka.topology import loader
from tests.cases import cases
from tests.runtime.device.lives import SLOT, loads
from tests.runtime.stages.devices import MEAN, PER_USER, Fed, name_of
from tests.runtime.stages.test_collector import partial


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
    assert fed.state.phases[0].meta()["second_reports"] == [1, 50], "for `ldp-kafka status`"


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
    assert fed.state.phases[0].crowd == (2, 14, 98)
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
