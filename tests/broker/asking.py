"""What brokers say of topics and groups, asked from outside by clients that stay while brokers are
away.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ldp_kafka.errors import BadRecord, BrokerError
from ldp_kafka.runtime.kafka.admin import extent
from ldp_kafka.runtime.kafka.client_options import reconnects
from ldp_kafka.runtime.wire.parsing import parse_json

__all__ = [
    "Log",
    "Questions",
    "Reader",
    "append",
    "client",
    "configure",
    "everything",
    "header",
]

Log = tuple[str, TopicPartition]
"""A group, and a partition that it reads."""
LEADERLESS = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,  # of a client that knows who led it before a broker came back
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._UNKNOWN_PARTITION,  # so a client says that has not heard yet who leads it
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._DESTROY_BROKER,
    KafkaError._TIMED_OUT,
)
"""What is no answer, and passes."""
PATIENCE = 60.0  # seconds for brokers on a busy machine, beside how long one is asked


def client(boot: str, **more: object) -> dict[str, object]:
    """Settings of a client that stays while brokers are away."""
    return {"bootstrap.servers": boot, "log_level": 0, **reconnects({}), **more}


def header(value: bytes) -> bool:
    """Whether a record is what a topic begins with."""
    try:
        return parse_json(value).get("type") == "header"
    except BadRecord:
        return False


def configure(admin: AdminClient, topic: str, name: str, value: str | None) -> None:
    """Change a topic's setting, or take the change back."""
    entry = ConfigEntry(
        name,
        value,
        incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
    )
    for answer in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values():
        answer.result(15)


def append(
    boot: str, topic: str, *records: tuple[int, bytes | None, bytes | None], **more: object
) -> None:
    """Append records: partition, key, value.

    Raises
    ------
    BrokerError : a broker did not take them
    """
    producer, failed = Producer(client(boot, **more)), list[object]()
    told = lambda error, _: failed.append(error) if error else None  # noqa: E731
    for partition, key, value in records:
        producer.produce(topic, value, key, partition, on_delivery=told)
    if producer.flush(30) or failed:
        raise BrokerError(f"{topic} was not written: {failed[:1]}")


def watermarks(
    consumer: Consumer, place: TopicPartition, limit: float = 10.0, patience: float = PATIENCE
) -> tuple[int, int]:
    """Where a log begins and ends. A client that only asks goes on for ever with what it knew of a
    partition's leader while that was away: then it is told to look.
    """
    end = time.monotonic() + patience
    while True:
        try:
            return extent(consumer, place, limit)
        except KafkaException as error:
            if error.args[0].code() not in LEADERLESS or time.monotonic() > end:
                raise
        with suppress(KafkaException):
            consumer.list_topics(place.topic, timeout=limit)
        time.sleep(0.1)  # both may answer at once, and on a machine that has no time to lose


class Reader:
    """A topic, read on and on from its beginning."""

    def __init__(self, boot: str, topic: str, first: int | None = 0) -> None:
        """From offset ``first`` on, or from where the log begins."""
        self.boot, self.topic = boot, topic
        self.found: list = []
        self.seen: dict[int, int] = {}
        self.consumer = self._client()
        self.partitions = sorted(
            self.consumer.list_topics(topic, timeout=10).topics[topic].partitions
        )
        self.seen = {p: self.ends(p)[0] if first is None else first for p in self.partitions}
        self._assign()

    def _client(self) -> Consumer:
        # A log that was cut before it could be read shows as an error, never as an empty topic.
        own = {
            "group.id": "judge",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # what is asked waits behind a fetch: by default for half a second, each time
            "fetch.wait.max.ms": 100,
        }
        return Consumer(client(self.boot, **own))

    def _assign(self) -> None:
        places = [TopicPartition(self.topic, p, offset) for p, offset in self.seen.items()]
        self.consumer.assign(places)

    def ends(self, partition: int) -> tuple[int, int]:
        """The first offset of the log and the next one that it will give; asked again while its
        leader changes, by a client that knows nothing of a broker that was away.
        """
        place = TopicPartition(self.topic, partition)
        for attempt in range(10):
            try:
                return watermarks(self.consumer, place, patience=0)
            except KafkaException as error:
                if attempt == 9 or error.args[0].code() not in LEADERLESS:
                    raise
            time.sleep(0.5)
            self.consumer.close()
            self.consumer = self._client()
            self._assign()
        raise AssertionError("unreachable")

    def read(self, limit: float) -> list:
        """All records up to the present end, by partition and offset."""
        ends = {p: self.ends(p)[1] for p in self.partitions}
        until = time.time() + limit
        while any(self.seen[p] < ends[p] for p in self.partitions):
            if time.time() > until:
                raise TimeoutError(f"{self.topic}: read up to {self.seen} of {ends} in {limit:g} s")
            for message in self.consumer.consume(5000, 0.3):
                if message.error():
                    # of a broker that is away; what came with it is not to be thrown away
                    if message.error().code() in LEADERLESS:
                        continue
                    raise KafkaException(message.error())
                self.found.append(message)
                self.seen[message.partition()] = message.offset() + 1
        self.found.sort(key=lambda m: (m.partition(), m.offset()))
        return self.found


def everything(boot: str, topic: str, limit: float = 30.0) -> list:
    """All that a topic still has."""
    reader = Reader(boot, topic, None)
    try:
        return reader.read(limit)
    finally:
        reader.consumer.close()


class Questions:
    """Asks brokers by one client a group, which is no member of it, and by other ones in each
    thread. A client that lost its brokers may find none of them ever again: then new ones ask.

    Parameters
    ----------
    boot : bootstrap servers
    """

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self._admin = AdminClient(client(boot))
        self._mine = threading.local()
        self._everyones: list[dict[str, Consumer]] = []

    @property
    def _clients(self) -> dict[str, Consumer]:
        """This thread's, by group."""
        if not hasattr(self._mine, "clients"):
            self._mine.clients = {}
            self._everyones.append(self._mine.clients)
        return self._mine.clients

    def _of(self, group: str) -> Consumer:
        if group not in self._clients:
            own = {"group.id": group, "enable.auto.commit": False}
            self._clients[group] = Consumer(client(self.boot, **own))
        return self._clients[group]

    def end(self, topic: str, partition: int, limit: float = 10.0) -> int:
        """Where a log ends. Not by the admin client's list_offsets: librdkafka ends the process (an
        assertion) where a broker is lost meanwhile.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                place = TopicPartition(topic, partition)
                return watermarks(self._of("nobody"), place, limit, PATIENCE / 4)[1]
            except KafkaException as error:
                if error.args[0].code() not in LEADERLESS or time.monotonic() > until:
                    raise
            _close(self._clients)

    def last(self, topic: str, partition: int) -> tuple[bytes, bytes | None]:
        """Key and value of a partition's last record."""
        place = TopicPartition(topic, partition, self.end(topic, partition) - 1)
        asker = self._of("nobody")
        asker.assign([place])
        until = time.time() + 10
        while time.time() < until:
            message = asker.poll(0.5)
            if message is not None and message.error() is None:
                asker.unassign()
                return message.key() or b"", message.value()
        raise KafkaException(f"{topic}: its last record did not come")

    def committed(
        self, group: str, places: Sequence[TopicPartition], limit: float = 10.0
    ) -> dict[tuple[str, int], int]:
        """The offsets of a group, 0 where it has none."""
        try:
            found = self._of(group).committed(list(places), timeout=limit)
        except KafkaException:
            _close(self._clients)
            raise
        return {(place.topic, place.partition): max(0, place.offset) for place in found}

    def ends(self, logs: Iterable[Log]) -> dict[tuple[str, int], int]:
        """Where logs end."""
        places = [place for _, place in logs]
        return {(p.topic, p.partition): self.end(p.topic, p.partition, 5) for p in places}

    def behind(
        self, logs: Iterable[Log], upto: Mapping[tuple[str, int], int] | None = None
    ) -> dict[tuple[str, int], int]:
        """How many records of each log its group has not acknowledged, where there are any: of the
        logs as they are, or as they were.
        """
        logs, places = [*logs], defaultdict(list)
        for group, place in logs:
            places[group].append(place)
        ends = self.ends(logs) if upto is None else upto
        stands: dict[tuple[str, int], int] = {}
        for group, mine in places.items():
            stands |= self.committed(group, mine, 5)
        return {at: end - stands[at] for at, end in ends.items() if end > stands.get(at, end)}

    def left(self, logs: Iterable[Log], upto: Mapping[tuple[str, int], int] | None = None) -> int:
        """The same of all together."""
        return sum(self.behind(logs, upto).values())

    def group(self, name: str) -> Any:
        """A group as its coordinator describes it. By the old call: during the new one librdkafka
        ends the process (an assertion) where a broker is lost.
        """
        return self._admin.list_groups(name, timeout=10)[0]

    def unstable(self, names: Iterable[str], members: int) -> dict[str, str]:
        """{group: how it stands} of all that have not so many members, each with its partitions."""
        # A client forgets a node that is away, and asks it for nothing until it hears of it again
        self._admin.list_topics(timeout=5)
        found = {group.id: group for group in self._admin.list_groups(timeout=5)}
        stands = {
            name: f"{found[name].state}, {len(found[name].members)} members"
            if name in found
            else "unknown"
            for name in names
        }
        return {name: how for name, how in stands.items() if how != f"Stable, {members} members"}

    def close(self) -> None:
        """End all clients."""
        for clients in self._everyones:
            _close(clients)


def _close(clients: dict[str, Consumer]) -> None:
    while clients:
        clients.popitem()[1].close()
