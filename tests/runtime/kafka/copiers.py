"""What can go wrong for whoever copies from one topic to another, the forwarder and the relayer."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.runtime.kafka.producer import OrderedProducer


def error(name: str) -> KafkaException:
    """What a client raises, by the name of its code."""
    return KafkaException(KafkaError(getattr(KafkaError, name), "why"))


class Held(OrderedProducer):
    """What is written is not confirmed for a while."""

    until = 0.0

    def arrived(self, mark: Any) -> bool:
        return time.monotonic() > Held.until and super().arrived(mark)
