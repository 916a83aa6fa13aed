"""Real streams end to end, two partitions and two workers a role: the releases are those of
`runtime.local`, byte for byte.
"""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.evaluation import data, streams
from ldp_kafka.runtime import local
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay.messages import messages
from ldp_kafka.runtime.replay.source import from_arrays, from_slots
from tests import needs
from tests.broker.asking import Reader
from tests.broker.flow import KEY, Flow
from tests.broker.flow import TEXT as flow_text
from tests.broker.watching import until
from tests.depth import depth

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {boot}}}
input: {{partitions: {partitions}, format: arrow, slot: 1h, lateness: 1}}
privacy: {{method: {method}, mechanism: {mechanism}, {shape}, epsilon: 1.0, window: {window}}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime: {{shards: 32, snapshot_seconds: 1, session_timeout: {session}}}
"""
START = 1_600_000_000_000 // 3_600_000 * 3_600_000


def sliced(name: str, users: int, slots: int) -> tuple[np.ndarray, str]:
    """A series in slices, one a user, and the domain for the topology; the whole of it in the long
    run.
    """
    with needs.data():
        values = data.series(name)
    table = streams.slice_series(values, users)
    lo, hi = data.SERIES[name].domain
    return table[:, : depth(slots, None)], f"domain: [{lo}, {hi}]"


def through(flow: Flow, source, *, batch: int, workers: int = 2, limit: float = 90.0):
    """Send a source through a flow's workers; the judge's verdict and the seconds it took."""
    for role in ("perturb", "collect"):
        for _ in range(workers):
            flow.start(role)
    begin = time.time()
    for raw in messages(flow.topology, source, batch):
        flow.put(raw.partition, raw.value)
        while len(flow.producer) > 1000:
            flow.producer.poll(0.05)
    flow.producer.flush(30)
    expected = flow.expected()
    flow.wait(expected, limit)
    return flow.judge(expected), time.time() - begin


CASES = [
    ("volume", 402, 24, "capp", "mean, per_user"),
    ("c6h6", 155, 24, "sw_direct", "mean"),
    ("c6h6", 155, 24, "capp", "per_user"),
    ("volume", 402, 24, "sw_direct", "mean, per_user"),
]


def run(boot, tmp_path, prefix, case, *, embedded=None, session="6s"):
    name, users, slots, method, statistics = case
    values, shape = sliced(name, users, slots)
    with Flow(
        boot,
        tmp_path,
        prefix,
        method=method,
        mechanism="square_wave",
        shape=shape,
        statistics=statistics,
        text=TEXT,
        window=10,
        embedded=embedded,
        session=session,
    ) as flow:
        verdict, seconds = through(flow, from_arrays(flow.topology, values, START), batch=64)
    print(f"{case} {values.shape}: {seconds:.0f} s, {verdict}")
    assert verdict.clean, verdict
    assert verdict.reports == values.size, "every user reports in every slot"
    crowd, single = (
        ("mean" in statistics) * values.shape[1],
        ("per_user" in statistics) * values.size,
    )
    assert verdict.releases >= crowd + single > 0


@pytest.mark.parametrize("case", depth(CASES[:2], CASES), ids=lambda case: f"{case[0]}-{case[3]}")
def test_real_streams_on_kafka(kafka, tmp_path, prefix, case):
    run(kafka, tmp_path, prefix, case)


@pytest.mark.parametrize("case", depth(CASES[2:3], CASES), ids=lambda case: f"{case[0]}-{case[3]}")
def test_real_streams_on_kafka_3_9(kafka_3_9, tmp_path, prefix, case):
    run(kafka_3_9, tmp_path, prefix, case)


@pytest.mark.parametrize("case", depth(CASES[2:3], CASES), ids=lambda case: f"{case[0]}-{case[3]}")
def test_real_streams_on_the_embedded_broker(embedded, tmp_path, prefix, case):
    run(embedded.bootstrap_servers, tmp_path, prefix, case, embedded=embedded, session="2s")


def binary(
    boot, tmp_path, prefix, users: int, slots: int, limit: float, mechanism: str = "grr"
) -> None:
    with Flow(
        boot,
        tmp_path,
        prefix,
        method="lpu",
        mechanism=mechanism,
        shape="categories: 2",
        statistics="frequencies",
        text=TEXT,
        window=20,
    ) as flow:
        shares = streams.lns(slots, seed=1)
        source = from_slots(
            flow.topology, streams.binary(shares, users, seed=2), users, slots, start_ms=START
        )
        verdict, seconds = through(flow, source, batch=2048, limit=limit)
    print(f"LNS, {users} users x {slots} slots: {seconds:.0f} s, {verdict}")
    assert verdict.clean and verdict.releases == slots, verdict
    assert 0.9 * users * slots / 20 < verdict.reports < 1.1 * users * slots / 20, (
        "one report in twenty slots"
    )


@pytest.mark.parametrize("mechanism", ["grr", "oue"])
def test_lns_of_the_ldp_ids_paper(kafka, tmp_path, prefix, mechanism):
    """A report is a number, or packed bits."""
    binary(kafka, tmp_path, prefix, 20_000, 25, 60, mechanism)


@pytest.mark.long
def test_lns_with_200_000_users(kafka, tmp_path, prefix):
    binary(kafka, tmp_path, prefix, 200_000, 100, 600)


def remove(boot: str, flow: Flow) -> None:
    """Topics and groups of a topology, so that its name can be used again."""
    client = AdminClient({"bootstrap.servers": boot})
    names = [topic.name for topic in flow.topology.topics()]
    for answer in client.delete_topics(names).values():
        answer.result(20)
    for role in ("perturb", "collect"):
        end = time.time() + 30
        while True:
            try:
                client.delete_consumer_groups([flow.topology.group(role)])[
                    flow.topology.group(role)
                ].result(20)
                break
            except (
                KafkaException
            ) as error:  # who left while others were joining stays for a session
                if error.args[0].code() != KafkaError.NON_EMPTY_GROUP or time.time() > end:
                    raise
                time.sleep(0.5)
    while set(names) & set(client.list_topics(timeout=10).topics):
        time.sleep(0.1)


def test_partitions_do_not_matter(kafka, tmp_path, prefix):
    """The same input without late events over 1 and 3 partitions (1, 2 and 4 without a broker:
    `tests/fold`): the same mean in every slot, bit for bit, where the two raw topics are given one
    deployment. As they lie at the broker they are two, and share no release.
    """
    values = np.random.default_rng(7).uniform(0, 100, (300, 20))
    found, folded = [], []
    for partitions in (1, 3):
        folder = tmp_path / str(partitions)
        folder.mkdir()
        with Flow(
            kafka,
            folder,
            prefix,
            method="capp",
            mechanism="square_wave",
            statistics="mean",
            text=TEXT,
            window=10,
            partitions=partitions,
        ) as flow:
            verdict, _ = through(flow, from_arrays(flow.topology, values, START), batch=32)
            assert verdict.clean, verdict
            found.append({m.key(): m.value() for m in flow.read(flow.topology.releases_topic)})
            # each raw topic has noise of its own; with one for both, what lies in them
            noise = edge_randomness(flow.topology, KEY, "here")
            again = local.run(flow.topology, noise, flow.raw(), together=50)
            folded.append({record.key: record.value for record in again.releases})
            flow.stop()
        remove(kafka, flow)
    assert folded[0] == folded[1]
    assert len(folded[0]) == 20
    assert found[0].keys() == found[1].keys() == folded[0].keys()
    assert not set(found[0].values()) & set(found[1].values()), "two deployments share no release"


@pytest.mark.parametrize("gaps", ["strict", "allow"])
def test_a_foreign_topic_is_read_as_it_is(kafka, tmp_path, prefix, gaps):
    """No header, no ticks, nothing written to it; a worker is killed before it has committed
    anything, and one later. Where offsets may be missing nothing is lost either.
    """
    name = f"{prefix}.theirs"
    admin.ensure(
        {"bootstrap.servers": kafka}, [admin.TopicSpec(name, 2, {"cleanup.policy": "delete"})]
    )
    text = flow_text.replace(
        "  partitions: {partitions}",
        "  partitions: {partitions}\n  topic: " + name + "\n  create: false\n  gaps: " + gaps,
    )
    with Flow(kafka, tmp_path, prefix, statistics="mean", text=text) as flow:
        rnd = random.Random(6)
        for role in ("perturb", "perturb", "collect"):
            flow.start(role)
        for t in range(24):
            flow.slot(rnd, t, 200, tick=False)
            time.sleep(0.5)
            if t in (6, 16):
                flow.start(flow.kill(0))
        verdict = flow.settled()
        raw = flow.raw()
    assert verdict.clean, verdict
    assert verdict.releases >= 20
    assert raw[0][0].offset == 0
    assert not any(
        b"ldp_kafka" in message.value[:40] and b"tick" in message.value[:60]
        for log in raw
        for message in log
    )


@pytest.mark.parametrize("create", ["true", "false"])
def test_a_topic_that_has_lost_its_beginning_before_we_came(kafka, tmp_path, prefix, create):
    """Retention took the first records of a topic that others write: a first start begins where it
    begins, also when the first worker dies before it has kept anything.
    """
    name, config = f"{prefix}.theirs", {"bootstrap.servers": kafka}
    admin.ensure(config, [admin.TopicSpec(name, 2, {"cleanup.policy": "delete"})])
    producer = Producer(config)
    for partition in (0, 1):
        for _ in range(7):
            producer.produce(name, b"before our time", partition=partition)
    assert producer.flush(10) == 0
    retention = AdminClient(config)  # its answers come while it lives
    for answer in retention.delete_records([TopicPartition(name, p, 5) for p in (0, 1)]).values():
        assert answer.result(20).low_watermark == 5
    text = flow_text.replace(
        "  partitions: {partitions}",
        "  partitions: {partitions}\n  topic: " + name + "\n  create: " + create,
    )
    flow = Flow(kafka, tmp_path, prefix, statistics="mean", text=text)
    flow.readers[name] = Reader(kafka, name, 5)
    with flow:
        flow.start("perturb"), flow.start("collect")
        rnd = random.Random(6)
        for t in range(12):
            flow.slot(rnd, t, 100, tick=False)
            time.sleep(0.5)
            if t == 0:
                until(
                    lambda: any(
                        admin.watermarks(config, flow.topology.reports_topic, p)[1] > 1
                        for p in (0, 1)
                    )
                )
                flow.start(flow.kill(0))
        verdict = flow.settled()
        raw = flow.raw()
    assert verdict.clean, verdict
    assert not verdict.exits, "no worker ended by itself"
    assert verdict.releases >= 8
    assert [log[0].offset for log in raw] == [5, 5]
