"""Topics, header records and first offsets: made once, verified for ever after."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin, setup
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.topology import loads

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {servers}}}
input: {{partitions: 2, slot: {slot}, lateness: {lateness}, {more}}}
privacy: {{method: sw_direct, epsilon: {epsilon}, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""


def topology(name="meters", servers="embedded", slot="1h", lateness=1, epsilon="1.0", more=""):
    return loads(
        TEXT.format(
            name=name, servers=servers, slot=slot, lateness=lateness, epsilon=epsilon, more=more
        )
    )


@pytest.fixture
def broker(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with EmbeddedBroker() as broker:
        yield broker


def offsets(broker, made):
    config = {"bootstrap.servers": broker.bootstrap_servers}
    found = {
        (made.raw_topic, p): admin.committed(config, made.group("perturb"), made.raw_topic, [p])[p]
        for p in range(2)
    }
    for topic, count in ((made.reports_topic, 2), (made.partials_topic, 1)):
        found |= {
            (topic, p): admin.committed(config, made.group("collect"), topic, [p])[p]
            for p in range(count)
        }
    return found


def test_it_makes_all_that_is_missing_once(broker):
    """Every topic, a header in each partition our groups read, offset 1 committed; the second time
    there is nothing to do.
    """
    made = topology()
    done = setup.prepare(made, broker)
    assert {line.removeprefix("created topic ") for line in done if line.startswith("created")} == {
        topic.name for topic in made.topics()
    }
    assert sum(line.startswith("wrote the header") for line in done) == 5
    assert set(offsets(broker, made).values()) == {1}
    config = {"bootstrap.servers": broker.bootstrap_servers}
    for topic, count in (
        (made.raw_topic, 2),
        (made.reports_topic, 2),
        (made.partials_topic, 1),
        (made.releases_topic, 2),
    ):
        expected = (0, 0) if topic == made.releases_topic else (0, 1)
        assert [admin.watermarks(config, topic, p) for p in range(count)] == [expected] * count
    assert setup.prepare(made, broker) == []


def test_offsets_of_a_group_that_has_some_are_left(broker):
    """A worker that has gone on is not set back."""
    made = topology()
    setup.prepare(made, broker)
    config = {"bootstrap.servers": broker.bootstrap_servers}
    Producer(config).produce(made.raw_topic, b"x", partition=0)
    other = topology(name="again")
    for topic in other.topics():
        broker.create_topic(topic.name, topic.partitions)
    admin.commit_first(config, other.group("perturb"), other.raw_topic, [0], offset=7)
    setup.prepare(other, broker)
    assert offsets(broker, other)[other.raw_topic, 0] == 7


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": "2.0"}, "privacy.method, its parameters"),
        ({"slot": "15m"}, "input.slot"),
        ({"lateness": 2}, "lateness or max_ahead"),
    ],
)
def test_a_changed_topology_is_refused(broker, change, said):
    """With the parameters that may have changed, and what to do."""
    setup.prepare(topology(), broker)
    with pytest.raises(ConfigurationError, match=said) as error:
        setup.prepare(topology(**change), broker)
    assert "another name" in str(error.value)
    setup.prepare(topology(), broker)


def test_a_changed_partition_count_is_refused(broker):
    """Before anything is written."""
    setup.prepare(topology(), broker)
    wrong = loads(
        TEXT.format(
            name="meters", servers="embedded", slot="1h", lateness=1, epsilon="1.0", more=""
        ).replace("partitions: 2", "partitions: 4")
    )
    with pytest.raises(ConfigurationError, match=r"meters\.raw must have 4 partitions, found 2"):
        setup.prepare(wrong, broker)


def test_another_partition_count_comes_with_a_cure(broker):
    """The key where the topic is the input, ours or someone else's; elsewhere another name."""
    for name in ("theirs", "meters.raw", "metres.reports"):
        broker.create_topic(name, 3)
    key = r"found 3 at .*: set input\.partitions to 3 \(where"
    with pytest.raises(ConfigurationError, match=key):
        setup.prepare(topology(more="topic: theirs, create: false"), broker)
    with pytest.raises(ConfigurationError, match=key):
        setup.prepare(topology(), broker)
    other = r"metres\.reports must have 2 .*: give the topology a new name"
    with pytest.raises(ConfigurationError, match=other):
        setup.prepare(topology("metres"), broker)


def test_a_raw_topic_with_records_of_others_is_read_as_it_is(broker):
    """No header is written behind their records, and no offset is committed."""
    made = topology()
    broker.create_topic(made.raw_topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(made.raw_topic, b'{"user": "a", "value": 1, "time": 1700000000}', partition=0)
    assert producer.flush(10) == 0
    setup.prepare(made, broker)
    config = {"bootstrap.servers": broker.bootstrap_servers}
    assert [admin.watermarks(config, made.raw_topic, p) for p in range(2)] == [(0, 1), (0, 1)]
    assert offsets(broker, made)[made.raw_topic, 0] is None
    assert offsets(broker, made)[made.raw_topic, 1] == 1


def test_reports_of_someone_else_are_refused(broker):
    """A reports topic that begins with something else is not ours."""
    made = topology()
    broker.create_topic(made.reports_topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(made.reports_topic, b"31337", partition=1)
    assert producer.flush(10) == 0
    with pytest.raises(
        ConfigurationError, match=r"meters\.reports is not ours: partition 1"
    ) as error:
        setup.prepare(made, broker)
    assert "31337" not in str(error.value)


def test_a_foreign_topic_gets_no_header_and_no_offset(broker):
    """It is verified, and read from wherever its log begins."""
    made = topology(more="topic: theirs, create: false")
    setup.prepare(made, broker)  # on an embedded broker only the host can make it
    config = {"bootstrap.servers": broker.bootstrap_servers}
    assert admin.watermarks(config, "theirs", 0) == (0, 0)
    assert offsets(broker, made)["theirs", 0] is None
    assert setup.prepare(made, broker) == []


def test_embedded_topics_are_made_by_the_host_only(broker):
    """Another process that is too early is told so; once they are there it finds them."""
    made = topology()
    publish(made.name, broker)
    with pytest.raises(BrokerError, match="only its host can create topics"):
        setup.prepare(made)
    setup.prepare(made, broker)
    assert setup.prepare(made) == []
    foreign = topology(name="foreign", more="topic: theirs, create: false")
    publish(foreign.name, broker)
    with pytest.raises(ConfigurationError, match="theirs does not exist"):
        setup.prepare(foreign)


def test_addresses_are_resolved(broker):
    """A given address stands; embedded is the run file's."""
    assert setup.resolve(topology(servers="'kafka-1:9092'")) == ("kafka-1:9092", "kafka-1:9092")
    with pytest.raises(BrokerError, match="no embedded broker runs for topology meters"):
        setup.resolve(topology())
    publish("meters", broker)
    assert setup.resolve(topology()) == (broker.bootstrap_servers, broker.bootstrap_servers)


def test_client_options_go_to_their_side():
    """Each side has its own, and the address."""
    both = loads("""
topology: meters
kafka:
  client: {client.id: both}
  edge: {bootstrap_servers: "edge:9092", client: {ssl.ca.location: e}}
  collector: {bootstrap_servers: "collector:9092"}
input: {slot: 1h}
privacy: {method: sw_direct, epsilon: 1.0, window: 3, domain: [0, 10]}
output: {statistics: [mean]}
""")
    assert setup.client_config(both, "edge") == {
        "log_level": 3,
        "socket.connection.setup.timeout.ms": 10_000,
        "reconnect.backoff.ms": 1000,
        "reconnect.backoff.max.ms": 1000,
        "client.id": "both",
        "ssl.ca.location": "e",
        "bootstrap.servers": "edge:9092",
    }
    assert setup.client_config(both, "collector") == {
        "log_level": 3,
        "socket.connection.setup.timeout.ms": 10_000,
        "reconnect.backoff.ms": 1000,
        "reconnect.backoff.max.ms": 1000,
        "client.id": "both",
        "bootstrap.servers": "collector:9092",
    }


def test_a_topic_that_a_broker_does_not_know_has_no_partitions_to_compare(broker):
    """One that is just back may not know every topic yet: a worker asks again, and halts
    nothing.
    """
    config = {"bootstrap.servers": broker.bootstrap_servers}
    made = topology(servers=broker.bootstrap_servers)
    group = GroupOffsets(made, "perturb", (), config, config)
    with pytest.raises(BrokerError, match="did not say what partitions it has"):
        group.partitions(made.raw_topic)
    broker.create_topic(made.raw_topic, 3)
    assert group.partitions(made.raw_topic) == 3


@pytest.mark.parametrize("more", ["", "edge: {budget_file: edge.yaml}\n"])
@pytest.mark.parametrize("source", ["", "topic: theirs, create: false"])
def test_new_raw_records_are_stamped_by_the_broker_where_a_budget_file_limits_them(
    broker, monkeypatch, more, source
):
    """A producer's clock would have retired topologies count for ever. A topic that is there need
    not be so, and no other topic is made so.
    """
    made = loads(
        TEXT.format(
            name="meters", servers="embedded", slot="1h", lateness=1, epsilon="1.0", more=source
        )
        + more
    )
    specs, ensure = [], admin.ensure

    def noted(config, wanted, **how):
        specs.extend(wanted)
        return ensure(config, wanted, **how)

    monkeypatch.setattr(admin, "ensure", noted)
    setup.prepare(made, broker)
    stamped = {"message.timestamp.type": "LogAppendTime"}
    ours = [made.raw_topic] if more and not source else []
    assert [spec.name for spec in specs if spec.made] == ours
    assert all(spec.made in ({}, stamped) for spec in specs)
    assert not any("message.timestamp.type" in spec.config for spec in specs)
