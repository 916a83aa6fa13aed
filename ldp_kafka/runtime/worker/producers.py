"""What a worker writes: each record to the cluster that has its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.log import PlainRecords, Record
from ldp_kafka.runtime.worker.exits import end

__all__ = ["Producers"]


class Producers:
    """One idempotent producer a cluster.

    Parameters
    ----------
    configs : of a confluent-kafka client, by side; one object where two sides are one cluster
    sides : of each topic that is written to
    """

    def __init__(self, configs: Mapping[str, Mapping[str, Any]], sides: Mapping[str, str]) -> None:
        of_config: dict[int, OrderedProducer] = {}
        for config in configs.values():
            if id(config) not in of_config:
                of_config[id(config)] = OrderedProducer(config, end)
        self._boxes = list(of_config.values())
        self._box = {
            topic: of_config[id(configs[side])] for topic, side in sides.items() if side in configs
        }

    def send(self, records: Sequence[Record | PlainRecords]) -> None:
        """Hand over records, in order."""
        if len(self._boxes) == 1:
            self._boxes[0].send(records)
            return
        for record in records:
            self._box[record.topic].send([record])

    def mark(self) -> list[dict[tuple[str, int], int]]:
        """What has been handed over so far, for `flush`."""
        return [box.mark() for box in self._boxes]

    async def flush(self, mark: list[dict[tuple[str, int], int]], seconds: float) -> None:
        """Wait until it has arrived. BrokerError after so many seconds."""
        for box, part in zip(self._boxes, mark, strict=True):
            await box.flush(part, seconds)

    def poll(self) -> None:
        """Serve delivery reports."""
        for box in self._boxes:
            box.poll()
