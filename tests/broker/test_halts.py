"""Every line of the list of halts in how-to/operate.md that `test_state_tools.py` and
`test_supervisor.py` do not have, on a real broker: the worker ends, says which rule, and writes no
report.
"""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ldp_kafka.records import Tick
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.wire.codec import encode
from tests.broker.asking import configure
from tests.broker.flow import KEY, SLOT, START, Flow
from tests.broker.forks import Life
from tests.broker.watching import until
from tests.keys import OTHER

USERS = 40


@pytest.fixture(scope="module")
def flow(kafka, tmp_path_factory):
    """A topology that was at work, with events that wait; its workers are stopped. The tests below
    change one thing at a time, and all but the last two put it back.
    """
    made, rnd = (
        Flow(
            kafka,
            tmp_path_factory.mktemp("halts"),
            "test-halts-" + random.SystemRandom().randbytes(6).hex(),
        ),
        random.Random(9),
    )
    made.start("collect"), made.start("perturb")
    for t in range(5):
        made.slot(rnd, t, USERS)
    made.until_acknowledged()
    made.stop()
    for t in range(5, 8):
        made.slot(rnd, t, USERS)
    yield made
    made.close()


def halted(flow: Flow, code: int = 1, *words: str) -> str:
    """What the edge's worker says, which must end with this code and without a word in the topic of
    reports.
    """
    before, told = flow.log_path.stat().st_size, len(flow.read(flow.topology.reports_topic))
    process = Life(["run", str(flow.path), "--role", "perturb", *words], flow.log_path)
    ended = process.wait(60)
    said = flow.log_path.read_bytes()[before:].decode(errors="replace")
    assert ended == code, said
    assert len(flow.read(flow.topology.reports_topic)) == told, said
    return said


def test_another_key(flow):
    key = flow.path.with_suffix(".key")
    key.write_bytes(OTHER)
    try:
        assert "another key" in halted(flow)
    finally:
        key.write_bytes(KEY)


def test_no_key(flow):
    key = flow.path.with_suffix(".key")
    key.unlink()
    try:
        said = halted(flow, 2)
    finally:
        key.write_bytes(KEY)
        key.chmod(0o600)
    assert str(key) in said and "ldp-kafka key new" in said


def test_a_key_that_others_may_read(flow):
    key = flow.path.with_suffix(".key")
    key.chmod(0o644)
    try:
        assert "chmod 600" in halted(flow, 2)
    finally:
        key.chmod(0o600)


def test_other_fields(flow):
    """Another field for the user is another user in every line."""
    text = flow.path.read_text()
    flow.path.write_text(text.replace("  format: json", "  format: json\n  user: $.who"))
    try:
        assert "Change it back, or give the topology another name" in halted(flow, 2)
    finally:
        flow.path.write_text(text)


def test_another_deployment(flow):
    """Every value that came again would be drawn again."""
    text = flow.path.read_text()
    flow.path.write_text(text.replace("edge:", "edge:\n  deployment: elsewhere"))
    try:
        assert "written under another deployment" in halted(flow)
    finally:
        flow.path.write_text(text)


@pytest.mark.parametrize("more", ["", "\n  create: false\n  gaps: allow"])
def test_a_compacted_log(flow, more):
    """It is refused where its gaps are allowed, too: what was reported on may be gone after a
    crash, and the rest of its user and slot would be reported on again.
    """
    text = flow.path.read_text()
    flow.path.write_text(text.replace("input:", f"input:{more}", 1))
    client = AdminClient({"bootstrap.servers": flow.boot})
    configure(client, flow.topology.raw_topic, "cleanup.policy", "compact")
    try:
        said = halted(flow, 2)
    finally:
        configure(client, flow.topology.raw_topic, "cleanup.policy", None)
        flow.path.write_text(text)
    assert "cleanup.policy=delete" in said and "compact" in said


def test_it_goes_on_as_if_nothing_had_been(flow):
    """What was put back is enough."""
    process = flow.start("perturb")
    flow.until_acknowledged()
    process.terminate()
    assert process.wait(30) == 0
    flow.workers.clear()
    assert "second reports" not in flow.judge(flow.expected()).wrong


def test_another_key_is_said_although_nothing_waits(flow):
    """At the start, not with the first event: with ``--until-idle`` there would be none."""
    key = flow.path.with_suffix(".key")
    key.write_bytes(OTHER)
    try:
        assert "another key" in halted(flow, 1, "--until-idle", "1s")
    finally:
        key.write_bytes(KEY)


def test_a_record_that_somebody_changed(flow):
    """One byte of one shard; then two shards under each other's names."""
    table = flow.topology.changelog("perturb", "perturb")
    held = {m.key(): m.value() for m in flow.read(table)}
    shards = [key for key, value in held.items() if value and b"/meta/" not in key]
    first = next(key for key in shards if json.loads(key).startswith("0/"))
    second = next(key for key in shards if json.loads(key).startswith("0/") and key != first)
    flow.put(0, encode(Tick((START + 9) * SLOT)))
    altered = held[first][:-1] + bytes([held[first][-1] ^ 1])
    for value, says in ((altered, "altered after it was sealed"), (held[second], "was moved")):
        flow.producer.produce(table, value, first, partition=0)
        flow.producer.flush(10)
        assert says in halted(flow)
        flow.producer.produce(table, held[first], first, partition=0)
        flow.producer.flush(10)


def test_a_log_that_was_cut_behind_the_state(flow):
    """Events that nobody has folded are gone."""
    rnd = random.Random(10)
    for t in range(8, 12):
        flow.slot(rnd, t, USERS)
    client = AdminClient({"bootstrap.servers": flow.boot})
    flow.read(flow.topology.raw_topic)  # for the judge of other tests, while it is there
    cut = [TopicPartition(flow.topology.raw_topic, number, -1) for number in (0, 1)]  # all of it
    for answer in client.delete_records(cut).values():
        answer.result(20)
    flow.slot(rnd, 12, USERS)
    assert "were lost before they were read" in halted(flow)


def test_more_partitions(flow):
    """Keys would go elsewhere, and with them users away from their ledgers."""
    client = AdminClient({"bootstrap.servers": flow.boot})
    for answer in client.create_partitions([NewPartitions(flow.topology.raw_topic, 3)]).values():
        answer.result(20)
    until(
        lambda: (
            len(
                client.list_topics(flow.topology.raw_topic, timeout=10)
                .topics[flow.topology.raw_topic]
                .partitions
            )
            == 3
        )
    )
    said = halted(flow, 2)
    assert "must have 2 partitions, found 3" in said


def test_a_raw_topic_that_was_made_anew(kafka, tmp_path, prefix):
    """With the same events in it: their noise would be fresh, a second draw for the same values."""
    made, rnd = Flow(kafka, tmp_path, prefix), random.Random(11)
    with made:
        made.start("collect"), made.start("perturb")
        made.slot(rnd, 0, USERS)
        made.until_acknowledged()
        made.stop()
        topic = made.topology.raw_topic
        records = made.read(topic)
        client = AdminClient({"bootstrap.servers": kafka})
        client.delete_topics([topic])[topic].result(20)
        until(lambda: topic not in client.list_topics(timeout=10).topics)
        prepare(made.topology)
        before = made.deployment
        assert read_deployment(made.topology, {"bootstrap.servers": kafka}) != before
        for message in records:
            made.put(message.partition(), message.value())
        made.producer.flush(20)
        assert "the raw topic was made anew" in halted(made)
