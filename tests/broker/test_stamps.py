"""What a real broker says of its topics' timestamps, and what it then takes."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ldp_kafka.cli import main
from ldp_kafka.runtime.kafka import admin, setup
from ldp_kafka.topology import load
from ldp_kafka.topology.stamps import Stamps
from tests.broker.watching import until

DAY = 86_400_000
TYPE = "message.timestamp.type"
AFTER = "message.timestamp.after.max.ms"
TEXT = """\
topology: {name}
kafka: {{bootstrap_servers: "{servers}"}}
input: {{topic: {name}.raw, slot: 1h{more}}}
privacy: {{method: sw_direct, epsilon: 1, window: 24, domain: [0, 10]}}
output: {{statistics: [mean]}}
edge: {{budget_file: edge.yaml}}
"""


def written(folder, servers, name, more=""):
    """A topology that a budget file limits; the file is not read here."""
    path = folder / f"{name}.yaml"
    path.write_text(TEXT.format(name=name, servers=servers, more=more))
    return load(path)


def configured(servers, topic, **settings):
    """A topic of somebody else's, with these settings, dots written as underscores."""
    config = {"bootstrap.servers": servers}
    admin.ensure(config, [admin.TopicSpec(topic, 2, {"cleanup.policy": "delete"})])
    if settings:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource("topic", topic, incremental_configs=entries)
        client = AdminClient(config)
        [done] = client.incremental_alter_configs([resource]).values()
        done.result(20)
        until(lambda: kept(client, topic, settings), 20)  # a broker takes it in a moment later


def kept(client, topic, settings):
    """Whether the broker says that a topic has these settings."""
    [asked] = client.describe_configs([ConfigResource("topic", topic)]).values()
    found = asked.result(20)
    return all(found[name.replace("_", ".")].value == value for name, value in settings.items())


def stamped_at(servers, topic, ahead_ms):
    """What comes of a record so far ahead of the clock: its timestamp, or the error's name."""
    producer, told = Producer({"bootstrap.servers": servers}), []
    producer.produce(
        topic,
        b"x",
        partition=0,
        timestamp=int(time.time() * 1000) + ahead_ms,
        on_delivery=lambda error, message: told.append(
            message.timestamp()[1] if error is None else error.code()
        ),
    )
    assert producer.flush(20) == 0
    return told[0]


def told(servers, topology):
    """What the broker says of the topology's raw topic."""
    return setup.read_stamps(topology, {"bootstrap.servers": servers})


def test_a_raw_topic_of_ours_is_stamped_by_the_broker(kafka, tmp_path, prefix, capsys):
    """`ldp-kafka topics` makes it so where a budget file limits it, and has nothing to warn of; an
    older one is left as it is, with a warning that says what to set.
    """
    topology = written(tmp_path, kafka, f"{prefix}new")
    assert main(["topics", topology.file]) == 0
    assert "warning" not in capsys.readouterr().err
    assert told(kafka, topology).type == "LogAppendTime"
    assert stamped_at(kafka, topology.raw_topic, 400 * DAY) < time.time() * 1000 + DAY
    older = written(tmp_path, kafka, f"{prefix}older")
    configured(kafka, older.raw_topic, message_timestamp_after_max_ms=str(2 * DAY))
    assert main(["topics", older.file]) == 0
    assert (
        f"warning: topic {older.raw_topic} has {TYPE}=CreateTime and {AFTER} {2 * DAY}: a"
        " producer's clock says how late a value may be, so a topology that is retired counts for"
        " ever; set"
    ) in capsys.readouterr().err


@pytest.mark.parametrize("version", ["kafka", "kafka_3_9"])
def test_how_far_ahead_a_record_may_be(version, request, tmp_path, prefix):
    """As the broker says it, by default and where it is set; and the broker keeps to it."""
    servers = request.getfixturevalue(version)
    default = 3_600_000 if version == "kafka" else None  # KIP-1030
    cases = [
        ("plain", {}, default),
        ("after", {"message_timestamp_after_max_ms": str(DAY)}, DAY),
        ("none", {"message_timestamp_after_max_ms": str(2**63 - 1)}, None),
    ]
    if version == "kafka_3_9":
        cases.append(("older", {"message_timestamp_difference_max_ms": "60000"}, 60_000))
    for name, settings, ahead_ms in cases:
        topology = written(tmp_path, servers, f"{prefix}{name}", ", create: false")
        configured(servers, topology.raw_topic, **settings)
        assert told(servers, topology) == Stamps("CreateTime", ahead_ms), name
        far = stamped_at(servers, topology.raw_topic, 400 * DAY)
        assert (far == KafkaError.INVALID_TIMESTAMP) == (ahead_ms is not None), name
