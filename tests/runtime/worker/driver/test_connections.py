"""A connection that is gone at the moment at which something is sent is a broker that is away."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError, RequestTimedOutError

from ldp_kafka.runtime.worker.driver.connections import Connections

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
