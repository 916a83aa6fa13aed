"""What can go wrong for whoever copies from one topic to another, the forwarder and the relayer."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.runtime.kafka import cut_off
from ldp_kafka.runtime.kafka.producer import OrderedProducer


def error(name: str) -> KafkaException:
    """What a client raises, by the name of its code."""
    return KafkaException(KafkaError(getattr(KafkaError, name), "why"))


def cut_off_from_brokers(monkeypatch: Any, module: Any) -> None:
    """Its client is not answered what it asks of its own accord; a new one is."""

    class Alone(module.Consumer):  # type: ignore[misc, name-defined]
        def list_topics(self, *_: Any, **__: Any) -> Any:
            raise error("_TRANSPORT")

    monkeypatch.setattr(module, "Consumer", Alone)
    monkeypatch.setattr(cut_off, "QUIET", 0.01)


class Held(OrderedProducer):
    """What is written is not confirmed for a while."""

    until = 0.0

    def arrived(self, mark: Any) -> bool:
        return time.monotonic() > Held.until and super().arrived(mark)
