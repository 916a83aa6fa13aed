"""What a worker finds before it starts: real brokers and the embedded one, asked the same
questions.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import FrozenInstanceError

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker, is_embedded
from ldp_kafka.runtime.brokers.local_kafka import KafkaServer, start, status, stop
from ldp_kafka.runtime.kafka.admin import (
    TopicSpec,
    commit_first,
    committed,
    ensure,
    lag,
    partitions_of,
    produce_once,
    settings_of,
    verify,
    watermarks,
)
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.topology import loads


@pytest.fixture(params=["embedded", "kafka", "kafka_3_9"])
def broker(request):
    """Each kind: its client configuration, and what `ensure` needs beside it."""
    found = request.getfixturevalue(request.param)
    if isinstance(found, EmbeddedBroker):
        return {"bootstrap.servers": found.bootstrap_servers}, found
    return {"bootstrap.servers": found}, None


@pytest.fixture(params=["kafka", "kafka_3_9"])
def real(request):
    """A real broker's client configuration."""
    return {"bootstrap.servers": request.getfixturevalue(request.param)}


def partition_count(config, topic):
    return len(AdminClient(config).list_topics(timeout=10).topics[topic].partitions)


def produce(config, topic, partition, values):
    producer = Producer({**config, "acks": "all"})
    errors = []
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(20) == 0
    assert errors == [None] * len(values)


def consume(config, topic, partition, number):
    consumer = Consumer({**config, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    messages = consumer.consume(number, timeout=20)
    consumer.close()
    return messages


def test_topics_are_created_once(broker, prefix):
    """The second call finds what the first has made."""
    config, embedded = broker
    specs = [
        TopicSpec(f"{prefix}.raw", 2),
        TopicSpec(f"{prefix}.state", 3, {"cleanup.policy": "compact"}),
    ]
    assert ensure(config, specs, embedded=embedded) == {f"{prefix}.raw", f"{prefix}.state"}
    assert [partition_count(config, spec.name) for spec in specs] == [2, 3]
    assert ensure(config, specs, embedded=embedded) == set()


def test_other_partitions_are_refused_before_anything_is_created(broker, prefix):
    """The text names the topic, what it must have and what it has."""
    config, embedded = broker
    ensure(config, [TopicSpec(f"{prefix}.raw", 2)], embedded=embedded)
    for other in (1, 3):
        with pytest.raises(
            ConfigurationError, match=rf"{prefix}\.raw must have {other} partitions, found 2"
        ):
            ensure(
                config,
                [TopicSpec(f"{prefix}.new", 1), TopicSpec(f"{prefix}.raw", other)],
                embedded=embedded,
            )
    assert f"{prefix}.new" not in AdminClient(config).list_topics(timeout=10).topics


def test_another_cleanup_policy_is_refused(real, prefix):
    """Checked where it is asked for, whatever the order of its words."""
    name = f"{prefix}.state"
    ensure(real, [TopicSpec(name, 1, {"cleanup.policy": "compact,delete"})])
    assert ensure(
        real, [TopicSpec(name, 1, {"cleanup.policy": "delete, compact"}), TopicSpec(name + "2", 1)]
    ) == {name + "2"}
    assert ensure(real, [TopicSpec(name, 1)]) == set()
    with pytest.raises(
        ConfigurationError,
        match=rf"{prefix}\.state must have cleanup.policy=compact, found compact,delete",
    ):
        ensure(real, [TopicSpec(name, 1, {"cleanup.policy": "compact"})])


def test_a_topic_that_takes_less_than_is_written_is_refused(real, prefix):
    """By the least that it must take, and with what to do where the cluster takes no more."""
    small = TopicSpec(prefix, 1, {"max.message.bytes": "5000"})
    ensure(real, [small])
    ensure(real, [TopicSpec(prefix, 1, takes=5000)])
    for ask in (ensure, verify):
        with pytest.raises(
            ConfigurationError,
            match=rf"{prefix} must have max.message.bytes=5001 or more, found 5000 .*: 5000 in",
        ):
            ask(real, [TopicSpec(prefix, 1, takes=5001)])
    ensure(real, [TopicSpec(f"{prefix}.usual", 1, takes=1_000_000)])


def test_topic_configuration_arrives_and_a_wrong_one_halts(real, prefix):
    """What the broker refuses for good is no reason to try again."""
    ensure(real, [TopicSpec(prefix, 1, {"cleanup.policy": "compact"})])
    with pytest.raises(ConfigurationError, match="INVALID_RECORD"):
        produce_once(real, prefix, 0, b"a compacted topic wants keys")
    with pytest.raises(ConfigurationError, match=rf"{prefix}-bad.*no\.such\.thing"):
        ensure(real, [TopicSpec(f"{prefix}-bad", 1, {"no.such.thing": "1"})])


def test_two_at_once_both_succeed(broker, prefix):
    """Whoever is second verifies; each topic is in the result of one."""
    config, embedded = broker
    specs = [TopicSpec(f"{prefix}.{i}", 2) for i in range(8)]
    results, barrier = [], threading.Barrier(4)

    def worker():
        barrier.wait()
        results.append(ensure(config, specs, embedded=embedded))

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert sorted(name for result in results for name in result) == sorted(
        spec.name for spec in specs
    )


def test_guests_of_an_embedded_broker_verify_only(embedded, prefix):
    """It creates no topics for clients: the text says who can."""
    config = {"bootstrap.servers": embedded.bootstrap_servers}
    embedded.create_topic(prefix, 2)
    assert ensure(config, [TopicSpec(prefix, 2, {"cleanup.policy": "compact"})]) == set()
    with pytest.raises(
        BrokerError, match=rf"only its host can create topics, and it has no {prefix}-2"
    ):
        ensure(config, [TopicSpec(f"{prefix}-2", 2)])


def test_real_brokers_are_not_taken_for_embedded_ones(real):
    """Or their cleanup.policy would go unverified."""
    assert not is_embedded(AdminClient(real).list_topics(timeout=10).cluster_id)


def test_records_come_back(broker, prefix):
    """Produced and consumed, in order, from the partition they went to."""
    config, embedded = broker
    ensure(config, [TopicSpec(prefix, 2)], embedded=embedded)
    values = [b"%d" % i for i in range(100)]
    produce(config, prefix, 1, values)
    assert [message.value() for message in consume(config, prefix, 1, 100)] == values
    assert (watermarks(config, prefix, 0), watermarks(config, prefix, 1)) == ((0, 0), (0, 100))


def test_first_commit_goes_where_there_is_none(broker, prefix):
    """A group that has been somewhere stays there."""
    config, embedded = broker
    ensure(config, [TopicSpec(prefix, 3)], embedded=embedded)
    assert committed(config, prefix, prefix, range(3)) == {0: None, 1: None, 2: None}
    assert commit_first(config, prefix, prefix, [1], offset=7) == {1}
    assert commit_first(config, prefix, prefix, range(3)) == {0, 2}
    assert commit_first(config, prefix, prefix, range(3)) == set()
    assert committed(config, prefix, prefix, range(3)) == {0: 1, 1: 7, 2: 1}
    assert committed(config, f"{prefix}-other", prefix, [0]) == {0: None}


def test_first_commit_does_not_set_back_a_started_group(broker, prefix):
    """The broker refuses it while the group has members."""
    config, embedded = broker
    ensure(config, [TopicSpec(prefix, 1)], embedded=embedded)
    member = Consumer(
        {**config, "group.id": prefix, "enable.auto.commit": False, "session.timeout.ms": 6000}
    )
    member.subscribe([prefix])
    end = time.monotonic() + 20
    while not member.assignment() and time.monotonic() < end:
        member.poll(0.1)
    assert member.assignment()
    try:
        with pytest.raises(
            BrokerError, match=rf"commit of offsets for group {prefix}.*UNKNOWN_MEMBER_ID"
        ):
            commit_first(config, prefix, prefix, [0])
    finally:
        member.close()
    assert committed(config, prefix, prefix, [0]) == {0: None}


def test_lag_counts_what_is_not_committed(broker, prefix):
    """From the commit, or from the beginning where there is none."""
    config, embedded = broker
    ensure(config, [TopicSpec(prefix, 3)], embedded=embedded)
    for partition in (0, 1):
        produce(config, prefix, partition, [b"x"] * 5)
    commit_first(config, prefix, prefix, [0])
    commit_first(config, prefix, prefix, [1], offset=5)
    assert lag(config, prefix, prefix, range(3)) == {0: 4, 1: 0, 2: 0}
    assert lag(config, f"{prefix}-other", prefix, range(3)) == {0: 5, 1: 5, 2: 0}


def test_first_record_is_written_once(broker, prefix):
    """At offset 0, with its headers; never behind another record."""
    config, embedded = broker
    ensure(config, [TopicSpec(prefix, 2)], embedded=embedded)
    assert produce_once(config, prefix, 0, b"header", [("ldp-type", b"header")]) is True
    assert produce_once(config, prefix, 0, b"other", []) is False
    (message,) = consume(config, prefix, 0, 1)
    assert (message.offset(), message.value(), message.headers()) == (
        0,
        b"header",
        [("ldp-type", b"header")],
    )
    assert watermarks(config, prefix, 0) == (0, 1)
    assert watermarks(config, prefix, 1) == (0, 0)


def test_topics_that_are_not_there_are_named_and_not_made(broker, prefix):
    """A question never creates a topic."""
    config, _ = broker
    for ask in (
        lambda: watermarks(config, prefix, 0),
        lambda: produce_once(config, prefix, 0, b"x"),
        lambda: lag(config, "g", prefix, [0]),
    ):
        with pytest.raises(BrokerError, match=prefix):
            ask()
    assert prefix not in AdminClient(config).list_topics(timeout=10).topics


def test_absence_is_named_in_time(capfd):
    """Where nothing listens, each question ends at its timeout and says where it went, why, and
    what to look at: once, and not at each attempt to connect.
    """
    with EmbeddedBroker() as gone:
        config = {"bootstrap.servers": gone.bootstrap_servers, "log_level": 3}
    capfd.readouterr()
    asks = (
        lambda: ensure(config, [TopicSpec("raw", 1)], timeout=1),
        lambda: partitions_of(config, "raw", timeout=1),
        lambda: committed(config, "g", "raw", [0], timeout=1),
        lambda: watermarks(config, "raw", 0, timeout=1),
        lambda: commit_first(config, "g", "raw", [0], timeout=1),
        lambda: produce_once(config, "raw", 0, b"x", timeout=1),
    )
    for ask in asks:
        begin = time.monotonic()
        with pytest.raises(BrokerError, match=config["bootstrap.servers"]) as caught:
            ask()
        assert time.monotonic() - begin < 5
        assert "\n" not in str(caught.value)
        assert "Connection refused" in str(caught.value)
        assert "do kafka.bootstrap_servers and kafka.client fit it?" in str(caught.value)
    time.sleep(0.2)
    assert "FAIL" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a" * 250, "ä", "a\n"])
def test_topic_names_are_legal(name):
    """Kafka's rule, before Kafka is asked."""
    with pytest.raises(ConfigurationError, match="topic's name"):
        TopicSpec(name, 1)


@pytest.mark.parametrize("partitions", [0, -1, True, 1.0])
def test_topic_partitions_are_positive(partitions):
    """Validated when constructed, then frozen."""
    with pytest.raises(ConfigurationError, match="positive integer"):
        TopicSpec("raw", partitions)
    with pytest.raises(FrozenInstanceError):
        TopicSpec("raw", 1).partitions = 2


def test_names_are_given_once():
    """Two wishes for one topic cannot both be true."""
    with pytest.raises(ConfigurationError, match="named once"):
        ensure({"bootstrap.servers": "127.0.0.1:1"}, [TopicSpec("raw", 1), TopicSpec("raw", 2)])


@pytest.mark.parametrize(
    "parameters",
    [
        {"version": "4.3"},
        {"version": "../4.3.1"},
        {"nodes": 2},
        {"port": -1},
        {"port": 65535},
        {"port": True},
    ],
)
def test_server_parameters_are_validated(parameters, tmp_path):
    """The version goes into a file name and a Maven file, the port needs a neighbour."""
    with pytest.raises(ConfigurationError, match=next(iter(parameters))):
        KafkaServer(directory=tmp_path, **parameters)


def test_missing_java_or_maven_is_named(monkeypatch, tmp_path):
    """The text says which program is missing; nothing is started or written."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LDP_KAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigurationError, match="java is not on the PATH"):
        start(directory=tmp_path / "broker")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(ConfigurationError, match=r"needs Java 17 or later, and .* is 11"):
        start(directory=tmp_path / "broker")
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.2\"' >&2\n")
    with pytest.raises(ConfigurationError, match="mvn is not on the PATH"):
        start(directory=tmp_path / "broker")
    assert status(tmp_path / "broker") is None
    assert stop(tmp_path / "broker") is False


def test_failing_maven_leaves_no_half_of_it(monkeypatch, tmp_path):
    """Where its log is, and no directory that looks like the artefacts."""
    for name, text in {
        "java": "echo 'openjdk version \"17.0.2\"' >&2",
        "mvn": "echo no route; /bin/mkdir libs; exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LDP_KAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    log = tmp_path / "cache" / "kafka-4.3.1" / "mvn.log"
    with pytest.raises(BrokerError, match=str(log)):
        start(directory=tmp_path / "broker")
    assert log.read_text() == "no route\n"
    assert list(log.parent.iterdir()) == [log]


def test_a_server_keeps_its_data_and_address(can_start, tmp_path):
    """Stopped, started, killed, started: the same port, the same records; each state
    is reported.
    """
    assert status(tmp_path) is None
    server = KafkaServer(directory=tmp_path)
    try:
        address = server.start().bootstrap_servers
        config = {"bootstrap.servers": address, "log_level": 0}
        ensure(config, [TopicSpec("raw", 1)])
        produce(config, "raw", 0, [b"kept"])
        assert (
            start(directory=tmp_path).pids == status(tmp_path).pids == tuple(server.pids().values())
        )
        with pytest.raises(ConfigurationError, match="already runs at"):
            start(directory=tmp_path, port=server.port + 100)
        with pytest.raises(ConfigurationError, match="is taken by another process"):
            start(directory=tmp_path / "other", port=server.port)
        assert stop(tmp_path) is True
        assert stop(tmp_path) is False
        assert (status(tmp_path).pids, status(tmp_path).ready) == ((None,), False)
        assert start(directory=tmp_path).bootstrap_servers == address
        os.kill(server.pids()[0], signal.SIGKILL)
        while server.pids():
            time.sleep(0.05)
        assert server.start().status().ready
        assert server.bootstrap_servers == address
        assert [message.value() for message in consume(config, "raw", 0, 1)] == [b"kept"]
    finally:
        server.stop()
    assert server.pids() == {}


def test_a_hanging_server_keeps_nobody(can_start, tmp_path):
    """Each question ends at its timeout, also a commit to a coordinator that fell silent in
    between; a stop ends by force.
    """
    with KafkaServer(directory=tmp_path) as server:
        config = {"bootstrap.servers": server.bootstrap_servers, "log_level": 0}
        ensure(config, [TopicSpec("raw", 1)])
        committed(config, "g", "raw", [0])
        (pid,) = server.pids().values()
        os.kill(pid, signal.SIGSTOP)
        asks = (
            lambda: ensure(config, [TopicSpec("new", 1)], timeout=1),
            lambda: commit_first(config, "g", "raw", [0], timeout=1),
            lambda: lag(config, "g", "raw", [0], timeout=1),
            lambda: produce_once(config, "raw", 0, b"x", timeout=1),
        )
        for ask in asks:
            begin = time.monotonic()
            with pytest.raises(BrokerError, match=server.bootstrap_servers):
                ask()
            assert time.monotonic() - begin < 5
        assert not server.status().ready
        server.stop(timeout=1)
        assert server.pids() == {}


def test_a_server_that_dies_says_where_its_log_is(can_start, tmp_path):
    """With the end of the log in the text; no process is left."""
    server = KafkaServer(directory=tmp_path, properties={"num.network.threads": "none"})
    with pytest.raises(BrokerError, match=r"(?s)log: .*server\.log.*num\.network\.threads"):
        server.start()
    assert server.pids() == {}


def test_a_stranger_with_the_servers_process_number_is_left_alone(tmp_path):
    """Process numbers are given out again: stop must not end another program."""
    server = KafkaServer(directory=tmp_path)
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "server.pid").write_text(str(os.getpid()))
    assert server.pids() == {}
    assert server.stop() is False


@pytest.mark.long
def test_three_nodes_survive_the_death_of_one(can_start, tmp_path):
    """Replication 3 with 2 in sync: writes go on with a node killed, and it comes back."""
    with KafkaServer(directory=tmp_path, nodes=3) as server:
        config = {"bootstrap.servers": server.bootstrap_servers, "log_level": 0}
        ensure(config, [TopicSpec("raw", 3)])
        topic = AdminClient(config).list_topics(timeout=10).topics["raw"]
        assert [len(partition.replicas) for partition in topic.partitions.values()] == [3, 3, 3]
        assert commit_first(config, "g", "raw", range(3)) == {0, 1, 2}
        produce(config, "raw", 0, [b"before"])
        pids = server.pids()
        os.kill(pids[2], signal.SIGKILL)
        while len(server.pids()) == 3:
            time.sleep(0.05)
        assert not status(tmp_path).ready
        for partition in range(3):
            produce(config, "raw", partition, [b"after"])
        server.start()
        assert server.status().ready
        assert {node: pid for node, pid in server.pids().items() if node != 2} == {
            0: pids[0],
            1: pids[1],
        }
        assert [message.value() for message in consume(config, "raw", 0, 2)] == [
            b"before",
            b"after",
        ]
        assert committed(config, "g", "raw", range(3)) == {0: 1, 1: 1, 2: 1}
    assert server.pids() == {}


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def test_a_topic_is_described_while_one_node_of_three_is_away(can_start, tmp_path, number):
    """A worker that starts then asks for its id and its settings. Each client asks the controller
    that it knows, which is the node that is away for about a third of them.
    """
    with KafkaServer(directory=tmp_path, nodes=3) as server:
        config = {"bootstrap.servers": server.bootstrap_servers, "log_level": 0}
        ensure(config, [TopicSpec("raw", 3)])
        topology = loads(
            "topology: meters\ninput: {topic: raw, slot: 60s}\noutput: {statistics: [mean]}\n"
            "privacy: {method: capp, epsilon: 1.0, window: 3, domain: [0, 1]}\n"
            f"kafka: {{bootstrap_servers: '{server.bootstrap_servers}'}}\n"
        )
        here = read_deployment(topology, config)
        os.kill(server.pids()[2], number)
        try:
            with ThreadPoolExecutor(12) as pool:
                ids = [pool.submit(read_deployment, topology, config) for _ in range(12)]
                kept = [pool.submit(settings_of, config, "raw") for _ in range(12)]
                assert [each.result() for each in ids] == [here] * 12
                assert [each.result()["cleanup.policy"] for each in kept] == ["delete"] * 12
        finally:
            with suppress(KeyError):
                os.kill(server.pids()[2], signal.SIGCONT)


def test_rights_where_there_is_no_authorizer(kafka, tmp_path, capsys):
    """None can be made: everybody may do everything."""
    path = tmp_path / "meters.yaml"
    path.write_text(
        "topology: meters\ninput: {slot: 60s}\noutput: {statistics: [mean]}\n"
        "privacy: {method: capp, epsilon: 1.0, window: 3, domain: [0, 1]}\n"
        f"kafka: {{bootstrap_servers: '{kafka}'}}\n"
    )
    principals = ["--principal", "edge=User:edge", "--principal", "collector=User:collector"]
    assert main(["topics", str(path), "--acls", *principals, "--apply"]) == 2
    assert f"{kafka} has no authorizer" in capsys.readouterr().err
