"""A raw topic that is deleted and made anew on a real broker while workers run: they halt, and have
acknowledged nothing behind the new topic's id.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.worker.exits import RETRY
from tests.broker.flow import TEXT, Flow
from tests.broker.relays import event
from tests.broker.watching import until

RELAYED = TEXT.replace("input:\n", "input:\n  topic: {name}.theirs\n  relay: true\n")
TEXTS = {
    "ours": TEXT,
    "relayed": RELAYED,
    "re-keyed": RELAYED.replace("relay: true", "relay: rekey\n  sources: 2"),
}


def theirs(topology, _=None):
    """Their topic, and ours."""
    boot = {"bootstrap.servers": topology.edge_kafka.bootstrap_servers}
    admin.ensure(boot, [admin.TopicSpec(topology.input.topic, topology.input.partitions)])
    return prepare(topology)


def write(flow, slots, users=20):
    """Events, one a message, of these slots in each partition, behind each other."""
    producer = Producer({"bootstrap.servers": flow.boot})
    for slot in slots:
        for number in range(users):
            for partition in range(flow.topology.input.partitions):
                made = event(slot, f"u{partition}-{number}", value=50)
                producer.produce(flow.topology.input.topic, made, partition=partition)
    assert producer.flush(20) == 0


def committed(flow):
    """How far each group has come that reads what the topic holds."""
    role, agent = flow.edge
    places = [(role.group, agent.topic)]
    if role.relay is not None:
        places.append((role.relay.group, role.relay.reads.name))
    numbers = range(flow.topology.input.partitions)
    return [admin.committed({"bootstrap.servers": flow.boot}, *each, numbers) for each in places]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_is_acknowledged_behind_it(kafka, tmp_path, prefix, text, at_once):
    """The new topic is filled past the old one's end at once, so that no offset tells."""
    with Flow(kafka, tmp_path, prefix, text=TEXTS[text], ready=theirs) as flow:
        client, topic = AdminClient({"bootstrap.servers": kafka}), flow.topology.input.topic
        flow.start("collect")
        worker = flow.start("perturb")
        write(flow, range(4))
        until(lambda: all(sum(n or 0 for n in each.values()) >= 160 for each in committed(flow)))
        before = committed(flow)
        client.delete_topics([topic])[topic].result(20)
        if not at_once:
            time.sleep(3)
        remade(client, topic)
        write(flow, range(10, 20))
        code = worker.wait(60)
        if code == RETRY:  # it has met no topic at all: its supervisor starts it again
            code = flow.start("perturb").wait(60)
        assert code == 1, flow.log_path.read_text()
        assert "the raw topic was made anew" in flow.log_path.read_text()
        # a broker forgets the offsets of a topic that is deleted
        for each, was in zip(committed(flow), before, strict=True):
            assert all(each[number] in (None, was[number]) for number in each), (each, was)


def remade(client, topic):
    """Make it, as soon as the broker has let go of the old one."""

    def made():
        try:
            client.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
        except KafkaException:  # it is still there
            return False
        return True

    until(made)
