"""The embedded broker serves clients, and its run files lead to it and to nothing else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers import run_files
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker, is_embedded
from ldp_kafka.runtime.brokers.run_files import address_of, publish
from tests.cases import cases


@pytest.fixture
def broker():
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def run_directory(monkeypatch, tmp_path):
    """No test writes where a user's run files are."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "ldp_kafka"


def test_topics_have_the_partitions_asked_for(broker):
    """Not the four that librdkafka's mock gives to a topic it makes up."""
    assert broker.create_topic("three", 3) is True
    assert broker.create_topic("three", 5) is False
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=5)
    assert {name: len(topic.partitions) for name, topic in metadata.topics.items()} == {"three": 3}
    assert is_embedded(metadata.cluster_id)


def test_records_come_back_from_their_partition_in_order(broker):
    """What is produced to a partition is what is read from it."""
    broker.create_topic("raw", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in (b"a", b"b", b"c"):
        producer.produce("raw", value, partition=1, headers=[("ldp-type", b"x")])
    assert producer.flush(5) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("raw", 1, 0)])
    messages = consumer.consume(3, timeout=5)
    consumer.close()
    assert [(m.value(), m.partition(), m.offset(), m.headers()) for m in messages] == [
        (v, 1, i, [("ldp-type", b"x")]) for i, v in enumerate((b"a", b"b", b"c"))
    ]


def test_two_brokers_are_two():
    """Brokers of one process share nothing."""
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        one.create_topic("here", 1)
        assert other.create_topic("here", 1) is True


def test_stop_is_final_and_may_be_repeated():
    """After stop nothing answers, and each use says what to do."""
    broker = EmbeddedBroker()
    with pytest.raises(BrokerError, match=r"start\(\) it first"):
        _ = broker.bootstrap_servers
    broker.start()
    address = broker.bootstrap_servers
    assert broker.start().bootstrap_servers == address
    broker.stop()
    broker.stop()
    assert not run_files._alive(address, os.getpid())
    with pytest.raises(BrokerError, match=r"start\(\) it first"):
        broker.create_topic("raw", 1)
    with broker:
        assert broker.create_topic("raw", 1) is True


@cases("partitions", [0, -1, True, 2**31])
def test_partitions_are_positive(broker, partitions):
    """The C library would take some of these for something else."""
    with pytest.raises(ConfigurationError, match="positive integer"):
        broker.create_topic("raw", partitions)


@pytest.mark.parametrize("delay", [-1, True, 2**31])
def test_delay_is_not_negative(delay):
    """Validated when constructed."""
    with pytest.raises(ConfigurationError, match="rebalance_delay_ms"):
        EmbeddedBroker(rebalance_delay_ms=delay)


def test_run_file_lives_as_long_as_its_broker(run_directory):
    """Published, found, and gone with the broker; only this user may look."""
    with EmbeddedBroker() as broker:
        path = publish("meters", broker)
        assert path.parent == run_directory
        assert stat.S_IMODE(run_directory.stat().st_mode) == 0o700
        assert json.loads(path.read_text()) == {
            "address": broker.bootstrap_servers,
            "pid": os.getpid(),
            "deployment": broker.deployment,
        }
        assert address_of("meters") == broker.bootstrap_servers
        with pytest.raises(BrokerError, match=r"topology other .*ldp-kafka run"):
            address_of("other")
    assert not path.exists()
    with pytest.raises(BrokerError, match=r"no embedded broker runs for topology meters"):
        address_of("meters")


def test_other_processes_find_it(broker):
    """The address works from another process: the broker is on a port, not in the reader."""
    broker.create_topic("raw", 2)
    publish("meters", broker)
    code = """if True:
        from confluent_kafka.admin import AdminClient
        from ldp_kafka.runtime.brokers.run_files import address_of
        client = AdminClient({"bootstrap.servers": address_of("meters")})
        print(list(client.list_topics(timeout=5).topics))
    """
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=30
        ).stdout.strip()
        == "['raw']"
    )


def test_a_second_host_is_refused(broker):
    """Two brokers for one topology would split its records."""
    publish("meters", broker)
    with EmbeddedBroker() as second:
        with pytest.raises(BrokerError, match=f"hosted by process {os.getpid()}"):
            publish("meters", second)
        assert publish("others", second)
    assert address_of("meters") == broker.bootstrap_servers


def test_the_file_of_a_killed_host_is_refused_then_replaced(broker):
    """A killed host cannot remove its file."""
    code = """if True:
        import os, signal
        from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
        from ldp_kafka.runtime.brokers.run_files import publish
        publish("meters", EmbeddedBroker().start())
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=30
    )
    assert killed.returncode == -9, killed.stderr
    with pytest.raises(
        BrokerError, match=r"is gone with its host, process \d+.*LDP_KAFKA_BOOTSTRAP"
    ):
        address_of("meters")
    publish("meters", broker)
    assert address_of("meters") == broker.bootstrap_servers


def test_a_process_number_given_out_again_is_no_host(run_directory):
    """Some process has the number, but nothing serves at the address."""
    with EmbeddedBroker() as broker:
        path = publish("meters", broker)
        content = path.read_text()
    path.write_text(content)
    with pytest.raises(BrokerError, match="is gone with its host"):
        address_of("meters")


def test_a_port_given_out_again_is_no_broker(broker):
    """Something serves at the address, but the host is dead."""
    path = publish("meters", broker)
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        check=True,
        timeout=30,
    ).stdout
    written = json.loads(path.read_text())
    path.write_text(json.dumps(written | {"pid": int(dead)}))
    with pytest.raises(BrokerError, match="is gone with its host"):
        address_of("meters")


def test_a_directory_open_to_others_is_refused(run_directory, broker):
    """Whoever could write there could send raw values to an address of their own."""
    publish("meters", broker)
    run_directory.chmod(0o777)
    for refused in (lambda: address_of("meters"), lambda: publish("others", broker)):
        with pytest.raises(ConfigurationError, match="mode 0700"):
            refused()
    run_directory.chmod(0o700)


def test_a_broken_run_file_says_so(run_directory):
    """Half a file, or another's."""
    run_directory.mkdir(mode=0o700)
    for content in ("", "{}", '{"address": "x", "pid": null}', "[1]"):
        (run_directory / "meters.broker.json").write_text(content)
        with pytest.raises(BrokerError, match="is not a run file"):
            address_of("meters")


@cases("name", ["", ".", "../meters", "a/b", ".hidden", "a\n"])
def test_names_are_not_paths(name, broker):
    """A topology's name cannot lead out of the directory."""
    with pytest.raises(ConfigurationError, match="topology's name"):
        publish(name, broker)
