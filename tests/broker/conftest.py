"""Brokers for the tests in this folder: one of each kind for all processes of a run.

``kafka`` is the first of: a broker of the user's (LDP_KAFKA_BOOTSTRAP), a container (where a Docker
engine answers), Maven's artefacts (where there is Java 17). With none of them the test is skipped,
or fails where LDP_KAFKA_REQUIRE=1.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.jars import artefacts, java
from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from ldp_kafka.runtime.brokers.ports import free_port
from tests import needs
from tests.broker.cluster import LIMIT

IMAGE = "apache/kafka:4.3.1"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory) -> Iterator[str]:
    """The address of a real broker."""
    if address := os.environ.get("LDP_KAFKA_BOOTSTRAP"):
        # Asked for by name: not to answer is a failure, and no reason to take another one.
        AdminClient({"bootstrap.servers": address}).list_topics(timeout=15)
        yield address
    elif docker_answers():
        with container() as address:
            yield address
    else:
        with from_maven("4.3.1", tmp_path_factory) as address:
            yield address


@pytest.fixture(scope="session")
def kafka_3_9(tmp_path_factory) -> Iterator[str]:
    """The address of a real broker of the last 3.x series."""
    with from_maven("3.9.2", tmp_path_factory) as address:
        yield address


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedBroker]:
    """The in-process broker."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def prefix() -> str:
    """The beginning of topic and group names that no other test has, nor an earlier session on the
    user's broker.
    """
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def can_start() -> None:
    """For tests that start servers of their own."""
    need("4.3.1")


def need(version: str) -> None:
    """Skip where this machine cannot run it, or fail where it must; one that can and does not start
    is an error of its own.
    """
    try:
        java()
        artefacts(version)
    except (BrokerError, ConfigurationError) as error:
        how = f"none in LDP_KAFKA_BOOTSTRAP, no Docker, and no Kafka {version} from Maven: {error}"
        needs.lacking("a broker", how)


@contextmanager
def from_maven(version: str, tmp_path_factory) -> Iterator[str]:
    """One for all processes of the run: the first starts it, and the last stops it."""
    need(version)
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    server, users = KafkaServer(version, folder / f"kafka-{version}"), folder / f"users-{version}"
    with users.open("ab") as file, locked(file):
        address = server.start(LIMIT).bootstrap_servers
        file.write(b"x")
    try:
        yield address
    finally:
        with users.open("ab") as file, locked(file):
            file.truncate(file.tell() - 1)
            if not file.tell():
                server.stop()


@contextmanager
def locked(file: IO[bytes]) -> Iterator[None]:
    """No other process is between these lines meanwhile."""
    fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(0, os.SEEK_END)
    yield
    file.flush()


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        return (
            subprocess.run(
                ["docker", "info"], capture_output=True, timeout=10, check=False
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def container() -> Iterator[str]:
    from testcontainers.core.container import DockerContainer

    # A client must reach the broker under the port that the broker itself announces, so that one is
    # chosen before it starts.
    port = free_port()
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": "1@localhost:9093",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }
    image = DockerContainer(IMAGE).with_bind_ports(9092, port)
    for name, value in settings.items():
        image = image.with_env("KAFKA_" + name.upper().replace(".", "_"), value)
    with image:
        address = f"127.0.0.1:{port}"
        end = time.monotonic() + 60
        while True:
            try:
                AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=2)
                break
            except KafkaException:
                if time.monotonic() > end:
                    raise
        yield address
