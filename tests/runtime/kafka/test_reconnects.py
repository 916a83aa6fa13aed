"""How often a client looks for a broker that is away."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from confluent_kafka import Consumer

from ldp_kafka.runtime.kafka.client_options import reconnects
from ldp_kafka.runtime.worker.side import Side
from ldp_kafka.topology import KafkaSide
from ldp_kafka.topology.sections import frozen

SECONDS = 4.0


@pytest.fixture
def nobody():
    """An address where every connection is closed at once, and the times of all of them."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    seen: list[float] = []

    def close() -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return
            seen.append(time.monotonic())

    threading.Thread(target=close, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}", seen
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def tries(settings: dict[str, object], nobody: tuple[str, list[float]]) -> float:
    """How often a second a client with these settings looks for its broker."""
    address, seen = nobody
    client = Consumer({**settings, "bootstrap.servers": address, "group.id": "g", "log_level": 0})
    begin = time.monotonic()
    while time.monotonic() < begin + SECONDS:  # it is polled, so it looks for a coordinator too
        client.poll(0.1)
    client.close()
    return len(seen) / SECONDS


def test_twice_a_second_at_most(nobody):
    """A machine full of workers has time left for the broker that comes back. By itself the client
    looks for it more than ten times as often.
    """
    side = Side(KafkaSide(nobody[0]), nobody[0])
    ours = tries(side.asking, nobody)
    assert 0 < ours < 4
    nobody[1].clear()
    assert tries({}, nobody) > 3 * ours


def test_what_the_topology_says_goes_first():
    for name in ("reconnect.backoff.ms", "reconnect.backoff.max.ms"):
        client = frozen({name: "500"})
        # the other one of ours might not go with it
        assert not any("backoff" in each for each in reconnects(client))
        assert Side(KafkaSide("b:1", client), "b:1").config[name] == "500"
