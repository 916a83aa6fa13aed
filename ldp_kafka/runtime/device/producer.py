"""What a client sends with: a producer of its own, or one that it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from confluent_kafka import Producer

from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.topology import Topology

__all__ = ["Sender", "device_producer"]


class Sender(Protocol):
    """What of a confluent-kafka ``Producer`` a client needs: delivery reports come from within
    `poll`.
    """

    def produce(
        self,
        topic: str,
        /,
        *,
        value: bytes,
        partition: int,
        on_delivery: Callable[[Any, Any], None],
    ) -> None:
        """Take one message; BufferError where no more can be taken now."""

    def poll(self, timeout: float, /) -> int:
        """Serve delivery reports for up to ``timeout`` seconds."""


def device_producer(topology: Topology) -> Sender:
    """A producer that waits for its broker as long as the process lives. A message may arrive
    twice: its id counts once.
    """
    settings = {"acks": "all", "enable.idempotence": False, "message.timeout.ms": 0, "linger.ms": 5}
    made: Sender = Producer({**settings, **client_config(topology, "edge")})
    return made
