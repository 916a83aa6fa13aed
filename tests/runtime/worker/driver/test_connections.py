"""A connection that is gone at the moment at which something is sent is a broker that is away."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError, RequestTimedOutError
from aiokafka.structs import BrokerMetadata

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.worker.driver.connections import Connections
from ldp_kafka.runtime.worker.side import Side
from ldp_kafka.topology import KafkaSide
from ldp_kafka.topology.sections import frozen

CLOSED = RuntimeError("unable to perform operation on <TCPTransport closed=True>; 31337.4242")


def client(kind, error, monkeypatch, method):
    """A client of which this method of aiokafka's raises."""

    async def raises(*_, **__):
        raise error

    monkeypatch.setattr(AIOKafkaClient, method, raises)
    return object.__new__(kind)


@pytest.mark.parametrize("error", [CLOSED, KeyError((1, 2))], ids=["uvloop", "thrown away"])
@pytest.mark.parametrize("ours", [True, False])
def test_what_is_sent_over_it(monkeypatch, error, ours):
    """Which the client takes for the end of its task, where nobody says otherwise."""
    made = client(Connections if ours else AIOKafkaClient, error, monkeypatch, "send")
    with pytest.raises(KafkaConnectionError if ours else type(error)) as found:
        asyncio.run(made.send(1, None))
    if ours:
        assert found.value.retriable
        assert "31337" not in str(found.value)


@pytest.mark.parametrize("error", [CLOSED, KeyError((1, 2))], ids=["uvloop", "thrown away"])
def test_what_the_cluster_looks_like(monkeypatch, error):
    made = client(Connections, error, monkeypatch, "_metadata_update")
    assert asyncio.run(made._metadata_update(None, None)) is False
    made = client(Connections, error, monkeypatch, "_get_conn")
    assert asyncio.run(made._get_conn(1)) is None


@pytest.mark.parametrize("method", ["send", "_metadata_update", "_get_conn"])
def test_what_the_client_says_itself_is_as_it_was(monkeypatch, method):
    made = client(Connections, RequestTimedOutError(), monkeypatch, method)
    with pytest.raises(RequestTimedOutError):
        asyncio.run(getattr(made, method)(1, None))


@pytest.mark.parametrize("ours", [True, False])
def test_a_cluster_that_says_that_it_has_no_brokers(ours):
    """As one does that was frozen: the client's task for the group would end of it."""
    made = object.__new__(Connections if ours else AIOKafkaClient)
    made.cluster = ClusterMetadata()
    with pytest.raises(KafkaConnectionError if ours else AssertionError):
        asyncio.run(made.coordinator_lookup(0, "a group"))


def over(address: tuple[str, int], kind: type, connect: int) -> AIOKafkaClient:
    """A client of a cluster that has one broker there, and is answered within a minute."""
    made = AIOKafkaClient(bootstrap_servers="127.0.0.1:1", request_timeout_ms=60_000)
    made.cluster._brokers = {1: BrokerMetadata(1, *address, None)}
    made.__class__ = kind
    if kind is Connections:
        made.connect_within(connect)
    return made


@pytest.mark.parametrize("kind", [Connections, AIOKafkaClient])
def test_a_broker_whose_queue_of_connections_is_full(kind):
    """As a frozen one's is. The system asks for a connection in growing pauses: who waits on sees
    late that it is back, who begins anew sees it at once.
    """

    async def script(address):
        made = over(address, kind, 300)
        begin = time.monotonic()
        try:
            return await asyncio.wait_for(made._get_conn(1), 3), time.monotonic() - begin
        except TimeoutError:
            return "waits", time.monotonic() - begin

    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1))
        for _ in range(4):  # one more than its queue has, and what Linux takes beyond it
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        found, seconds = asyncio.run(script(listener.getsockname()))
    if kind is Connections:
        assert found is None
        assert seconds < 2
    else:
        assert found == "waits"


def test_a_connection_waits_longer_for_what_is_asked_over_it():
    """Than it took to be one: a fetch or a rebalance may take its time."""

    async def script(host, port):
        made = over((host, int(port)), Connections, 5000)
        found = await made._get_conn(1)
        try:
            return found._request_timeout
        finally:
            found.close()

    with EmbeddedBroker() as broker:
        assert asyncio.run(script(*broker.bootstrap_servers.split(":"))) == 60


def test_what_the_topology_says_of_it(tmp_path):
    """One option for both clients."""
    name = "socket.connection.setup.timeout.ms"
    for given, meant in ({}, 10_000), ({name: "4000"}, 4000):
        side = Side(KafkaSide("b:1", frozen(given)), "b:1")
        assert side.connect_ms == meant
        assert int(side.config[name]) == meant
    for wrong in ("soon", "999", "-1", ""):
        with pytest.raises(ConfigurationError, match="must be milliseconds, from 1000"):
            Side(KafkaSide("b:1", frozen({name: wrong})), "b:1")
