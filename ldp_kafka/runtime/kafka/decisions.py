"""The last slot that a coordinator has decided: who writes a raw log must not write past what it
can still ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ldp_kafka.errors import BadRecord
from ldp_kafka.runtime.kafka.admin.asking import goes_on, kind_of
from ldp_kafka.runtime.kafka.reader import Reader, reading, spans
from ldp_kafka.runtime.stages.requests import read_request
from ldp_kafka.topology import Topology

__all__ = ["Decided", "decided"]


class Decided:
    """The last slot that a coordinator has decided: every slot has a request."""

    def __init__(self, consumer: Reader) -> None:
        self._consumer = consumer
        self.slot: int | None = None

    def look(self, seconds: float) -> int | None:
        """What is known after waiting so long for news, at most."""
        for message in self._consumer.consume(1000, seconds):
            if (error := message.error()) is not None:
                if goes_on(error):
                    continue
                raise kind_of(error)(f"requests: {error.str()}")
            try:
                found = read_request(message.value() or b"").slot
            except BadRecord:  # a header, or a stranger's
                continue
            self.slot = found if self.slot is None else max(self.slot, found)
        return self.slot


@contextmanager
def decided(topology: Topology, config: Mapping[str, Any]) -> Iterator[Decided]:
    """What the topology's coordinator decides from now on, and the last slot that it has.

    Parameters
    ----------
    config : of a confluent-kafka client, the collector's side
    """
    topic = topology.requests_topic
    first, end = spans(config, topic)[0]
    with reading(config, topic, {0: max(first, end - 1)}) as consumer:
        yield Decided(consumer)
