"""What a worker writes: each record to the cluster that has its topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, UnansweredError
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.log import PlainRecords, Record, TableRecord
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.topology.roles import Topic

__all__ = ["WAIT", "Producers"]

WAIT = 20.0  # seconds in which brokers that are there confirm something

Mark = list[dict[tuple[str, int], int]]


class Producers:
    """One idempotent producer a cluster.

    Parameters
    ----------
    configs : of a confluent-kafka client, by side; one object where two sides are one cluster
    topics : that are written to
    offsets : asks the brokers about them
    brokers : whether the brokers are there
    """

    def __init__(
        self,
        configs: Mapping[str, Mapping[str, Any]],
        topics: Sequence[Topic],
        offsets: GroupOffsets,
        brokers: BrokerHealth,
    ) -> None:
        of_config: dict[int, OrderedProducer] = {}
        for config in configs.values():
            if id(config) not in of_config:
                of_config[id(config)] = OrderedProducer(config, end)
        self._boxes = list(of_config.values())
        self._topics = {topic.name: topic for topic in topics if topic.side in configs}
        self._box = {
            name: of_config[id(configs[topic.side])] for name, topic in self._topics.items()
        }
        self._offsets, self._brokers = offsets, brokers
        self._timer: asyncio.TimerHandle | None = None

    def send(self, records: Sequence[Record | PlainRecords]) -> None:
        """Hand over records, in order. What is held back goes on by itself, in this loop."""
        if len(self._boxes) == 1:
            self._boxes[0].send(records)
        else:
            for record in records:
                self._box[record.topic].send([record])
        self._go_on()

    def _go_on(self) -> None:
        pauses = [pause for box in self._boxes if (pause := box.pause) is not None]
        if pauses and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(min(pauses), self._turn)

    def _turn(self) -> None:
        self._timer = None
        try:
            self.poll()
            self._go_on()
        except BaseException as error:  # noqa: BLE001 - the loop would only log it
            end(error)

    async def put(self, record: TableRecord) -> None:
        """Write a record of a changelog: returns when it has arrived. BrokerError as `flush`."""
        box = self._box[record.topic]
        box.send([record])
        await self._arrive(box, box.mark(record.topic, record.partition))

    @property
    def room(self) -> bool:
        """Whether more may be handed over."""
        return all(box.room for box in self._boxes)

    def mark(self) -> Mark:
        """What has been handed over so far, for `flush`."""
        return [box.mark() for box in self._boxes]

    async def flush(self, mark: Mark) -> None:
        """Wait until it has arrived. A broker that is away is waited for.

        Raises
        ------
        BrokerError : the brokers are there, and have confirmed nothing of it for `WAIT` seconds
        """
        for box, part in zip(self._boxes, mark, strict=True):
            await self._arrive(box, part)

    async def _arrive(self, box: OrderedProducer, mark: Mapping[tuple[str, int], int]) -> None:
        asked: set[str] = set()
        try:
            while not await box.flush(mark, WAIT, self._brokers.clock):
                late = sorted({topic for topic, _ in box.late(mark)})
                # brokers are there, but not those that a partition needs: then it is an outage, too
                try:
                    for topic in late:
                        numbers = [number for name, number in box.late(mark) if name == topic]
                        about = f"the replicas of {topic}"
                        asked.add(about)
                        ask = partial(self._offsets.led, self._topics[topic], in_sync=numbers)
                        await asyncio.to_thread(self._brokers.ask, about, ask)
                except UnansweredError:
                    continue
                raise BrokerError(
                    f"topic {', '.join(late)}: the broker did not confirm within {WAIT:g} s what"
                    " was produced"
                )
        finally:
            for about in asked:
                self._brokers.forget(about)

    def poll(self) -> None:
        """Serve delivery reports."""
        for box in self._boxes:
            box.poll()
