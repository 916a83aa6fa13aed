"""A copy of a record that the network held back, and that arrives when its repetition and newer
ones of its key lie in the log: it must not be written behind them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from ldp_kafka.runtime.brokers.ports import free_port
from ldp_kafka.runtime.kafka import producer as room
from ldp_kafka.runtime.kafka.admin import TopicSpec, ensure
from ldp_kafka.runtime.log import TableRecord
from tests.broker.asking import Reader


class Network:
    """What lies between clients and a broker: it can keep back what they send, for as long as it is
    told to, whatever they think by then.
    """

    def __init__(self, to: int) -> None:
        self.to, self.holding, self.held = to, False, []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self.to))
        except OSError:  # it is not up yet
            client.close()
            return
        self._open.append(broker)
        threading.Thread(target=self._carry, args=(broker, client), daemon=True).start()
        while data := _some(client):
            if self.holding:
                self.held.append((broker, data))
            else:
                broker.sendall(data)
        if all(each is not broker for each, _ in self.held):
            broker.close()

    @staticmethod
    def _carry(broker: socket.socket, client: socket.socket) -> None:
        while data := _some(broker):
            try:
                client.sendall(data)
            except OSError:
                return

    def release(self) -> None:
        """What was kept back arrives."""
        for broker, data in self.held:
            broker.sendall(data)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            each.close()


def _some(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


@pytest.fixture
def network(can_start, tmp_path) -> Iterator[Network]:
    """Before a broker that says that it is reached through it."""
    port = free_port()
    made = Network(port)
    there = f"PLAINTEXT://127.0.0.1:{made.port}"
    server = KafkaServer(
        "4.3.1", tmp_path / "kafka", port, properties={"advertised.listeners": there}
    )
    try:
        server.start()
        yield made
    finally:
        server.stop()
        made.close()


def written(network: Network, prefix: str) -> list[bytes]:
    """The values of one key, in the order of the log."""
    boot = f"127.0.0.1:{network.port}"
    ensure({"bootstrap.servers": boot}, [TopicSpec(prefix, 1)])
    box = room.OrderedProducer(
        {"bootstrap.servers": boot, "request.timeout.ms": 1500, "socket.timeout.ms": 1500},
        pytest.fail,
    )

    def put(value: bytes) -> None:
        box.send([TableRecord(prefix, 0, b"shard", value)])

    async def arrives() -> None:
        assert await box.flush(box.mark(), 60.0)

    put(b"first")
    asyncio.run(arrives())
    network.holding = True
    put(b"old")
    end = time.monotonic() + 30
    while not any(b"old" in data for _, data in network.held):
        assert time.monotonic() < end
        box.poll(0.05)
    network.holding = False  # for what is sent from now on
    asyncio.run(arrives())
    put(b"new")
    asyncio.run(arrives())
    network.release()
    time.sleep(2)
    return [message.value() for message in Reader(boot, prefix).read(20)]


def test_a_copy_that_arrives_late_is_not_written(network, prefix):
    assert written(network, prefix) == [b"first", b"old", b"new"]


def test_of_another_producer_it_is(network, prefix, monkeypatch):
    """Which does not number its records: so the test above can fail."""
    careless = {"enable.idempotence": False, "enable.gapless.guarantee": False}
    made = room.Producer
    monkeypatch.setattr(room, "Producer", lambda config: made({**config, **careless}))
    assert written(network, prefix) == [b"first", b"old", b"new", b"old"]
