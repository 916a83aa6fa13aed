"""How far a worker's group has come in its logs, and whether its topics are led, as brokers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.kafka.admin import extent, extents
from ldp_kafka.runtime.kafka.admin.asking import asker, kind_of, refused
from ldp_kafka.runtime.kafka.broker_health import Question
from ldp_kafka.runtime.kafka.changelog import compacted, newest_metas, since
from ldp_kafka.runtime.kafka.reader import reading
from ldp_kafka.runtime.log import Stage
from ldp_kafka.runtime.recovery.checkpoints import Checkpoint, checkpoints
from ldp_kafka.runtime.recovery.keys import Key
from ldp_kafka.runtime.recovery.rules import Facts, PartitionOffsets, bindings_of
from ldp_kafka.runtime.sealing import Seal
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Agent, Forward, Relay, Topic

__all__ = ["BEGUN", "SKIPPED", "GroupOffsets", "read_facts"]

EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - that is its name
PROBE = 10.0  # seconds
LED = 5.0  # seconds in which a broker says who leads a topic's partitions
BEGUN = "ldp_kafka: nothing folded yet"
"""Metadata of the offset that `setup.prepare` commits for a log whose first records are gone: a
worker's first commit takes it away.
"""
SKIPPED = "ldp_kafka: lost from offset "
"""The same of what ``ldp-kafka state skip`` commits; the first offset that is lost follows."""

_READER = {"isolation.level": "read_committed"}
_PROBE: dict[str, object] = {
    **_READER,
    "enable.partition.eof": True,
    # An offset that the log does not have any more, or not yet, reads as its end: the worker has
    # compared it with the log's range before
    "auto.offset.reset": "latest",
}


class GroupOffsets:
    """Committed offsets, the ends of logs and their partitions, for the agents of one role.

    Parameters
    ----------
    own, collector : client settings of the role's cluster and of the collector's
    """

    def __init__(
        self,
        topology: Topology,
        role: str,
        specs: Sequence[Agent],
        own: Mapping[str, Any],
        collector: Mapping[str, Any],
    ) -> None:
        self._topology, self._role, self._specs = topology, role, specs
        self._own, self._collector = own, collector
        self.renew()
        self._seen: dict[tuple[str, int], tuple[int | None, int]] = {}
        self._role_data = topology.role(role)
        self._copied = self._role_data.copied

    def renew(self) -> None:
        """Ask with new clients from now on: one that lost its brokers has been seen to find none of
        them any more.
        """
        group = self._topology.group(self._role)
        # Where a reader's log ends: behind what is committed, not behind open transactions
        self._asker = asker(self._own, group, **_READER)
        # of the collector's side, for an edge: it writes there
        apart = self._own != self._collector
        self._there = asker(self._collector, group) if apart else self._asker
        self._copied_askers: dict[str, Consumer] = {}

    def position(self, topic: str, number: int) -> PartitionOffsets:
        """Where the group stands. BrokerError where the broker does not say."""
        what = f"{topic} partition {number}: the broker did not say where the group stands"
        with refused(what):
            return _position(self._asker, topic, number)

    def first(self, topic: str, number: int, want: int) -> int | None:
        """The first offset from ``want`` on that a reader is given: others may be compacted away,
        or taken back by their transaction. None: there is none yet.

        Raises
        ------
        BrokerError : the broker gave neither a record nor the end of the log

        """
        with reading(self._own, topic, {number: want}, **_PROBE) as reader:
            message = reader.poll(PROBE)
        if message is not None and message.error() is None:
            return int(message.offset())
        if message is not None and message.error().code() == EOF:
            return None
        raise BrokerError(
            f"{topic} partition {number}: the broker did not say what comes at offset {want}"
        )

    def reported(self, spec: Agent, number: int) -> bool:
        """Whether the edge has answered this partition of somebody else's log before."""
        place = TopicPartition(self._topology.answers_topic, number)
        what = f"{place.topic} partition {number}: the broker did not say whether it holds any"
        with refused(what):
            _, end = extent(asker(self._collector, spec.name, **_READER), place, 10)
        return end > self._topology.answers_begin

    def newest(
        self, spec: Agent, numbers: Iterable[int], seal: Seal | None
    ) -> dict[int, Checkpoint]:
        """What the last snapshots of these partitions say of themselves: checkpoints without
        shards. One that nobody has written yet is not there.
        """
        topic = self._topology.changelog(self._role, spec.name)
        within = extents(self._own, topic, sorted(numbers))
        metas = newest_metas(self._own, topic, within)
        return {n: checkpoints(held, n, seal)[0] for n, held in metas.items()}

    def latest(self, spec: Agent, numbers: Iterable[int], seal: Seal | None) -> int:
        """The greatest event time (ms) of partitions of values, or of devices' reports, that other
        workers own, as their latest snapshots have it; -1 if none is known.

        It is what their owners have folded, so it has passed every check; it lies where they run,
        and what the edge keeps is sealed.
        """
        found = self.newest(spec, numbers, seal).values()
        return max((each.meta.get("state", {}).get("watermark", -1) for each in found), default=-1)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has. BrokerError where the broker does not say, or does not
        know the topic: one that is just back may not know every topic yet.
        """
        try:
            found = self._asker.list_topics(topic, timeout=10).topics[topic]
        except KafkaException as error:
            why = error.args[0].str()
        else:
            if found.error is None and found.partitions:
                return len(found.partitions)
            why = "it knows none just now" if found.error is None else found.error.str()
        raise BrokerError(f"{topic}: the broker did not say what partitions it has: {why}")

    def routine(self) -> list[Question]:
        """Whether each topic that the role reads or writes has its leaders: a worker that reaches
        them can work.
        """
        found = {topic.name: topic for topic in self._role_data.topics()}
        return [
            Question(f"topic {name}", partial(self.led, topic)) for name, topic in found.items()
        ]

    def led(self, topic: Topic, *, in_sync: Iterable[int] = ()) -> None:
        """See that every partition of a topic has a leader, and that these have all their replicas.

        Raises
        ------
        BrokerError : they have not, or the broker does not say
        ConfigurationError : a right is missing
        """
        asked = self._asker if topic.side == self._role_data.side else self._there
        with refused(f"topic {topic.name}: no broker says who leads it"):
            found = asked.list_topics(topic.name, timeout=LED).topics[topic.name]
        if found.error is not None:
            raise kind_of(found.error)(f"topic {topic.name}: {found.error.str()}")
        for number, partition in found.partitions.items():
            if partition.leader < 0:
                raise BrokerError(f"topic {topic.name} partition {number} has no leader just now")
        for number in in_sync:
            if len(found.partitions[number].isrs) < len(found.partitions[number].replicas):
                raise BrokerError(
                    f"topic {topic.name} partition {number} takes nothing: some of its replicas are"
                    " away"
                )

    def table(self, spec: Agent) -> dict[Key, bytes]:
        """What an agent's changelog holds at the broker, now."""
        return compacted(self._own, self._topology.changelog(self._role, spec.name))

    def since(
        self, spec: Agent, begins: Mapping[int, int]
    ) -> tuple[dict[Key, bytes | None], dict[int, int]]:
        """What an agent's changelog holds from these offsets on, see `changelog.since`."""
        return since(self._own, self._topology.changelog(self._role, spec.name), begins)

    def lag(self, assigned: set[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Of each of these partitions, messages that are not folded and acknowledged.

        Raises
        ------
        BrokerError : the broker did not say
        ConfigurationError : a right is missing
        """
        lag = dict.fromkeys(assigned, 0)
        with _asking(self._topology.group(self._role)):
            for topic, number in assigned:
                at = _position(self._asker, topic, number)
                now = at.committed, at.end
                before, self._seen[topic, number] = self._seen.get((topic, number)), now
                gaps = any(spec.topic == topic and spec.gaps for spec in self._specs)
                # Where offsets have gaps, the end of a transaction is never acknowledged: a
                # partition where nothing has moved since the last question is done
                if not (gaps and before == now):
                    begin = at.start if at.committed is None else at.committed
                    lag[topic, number] = at.end - begin
        return lag

    def waiting(self) -> int:
        """Messages that nobody has copied yet, of what the role forwards and relays: of all its
        workers together.

        Raises
        ------
        BrokerError : the broker did not say
        ConfigurationError : a right is missing
        """
        return sum(self._behind(each) for each in self._copied)

    def _behind(self, copied: Forward | Relay) -> int:
        topic, group = copied.reads, copied.group
        config = self._own if topic.side == self._role_data.side else self._collector
        if group not in self._copied_askers:
            self._copied_askers[group] = asker(config, group, **_READER)
        with _asking(group):
            found = (
                _position(self._copied_askers[group], topic.name, number)
                for number in range(topic.partitions)
            )
            return sum(max(0, at.end - max(at.start, at.committed or 0)) for at in found)


def read_facts(
    offsets: GroupOffsets, spec: Agent, partition: int, stage: Stage[Any] | None = None
) -> Facts:
    """Read the `Facts` of a start of one partition of an agent's log from the brokers, see
    `recovery.start`.

    Parameters
    ----------
    stage : whose bindings a state must have

    Raises
    ------
    BrokerError : a broker did not answer
    """
    position = offsets.position(spec.topic, partition)
    facts = Facts(
        topic=spec.topic,
        partition=partition,
        position=position,
        header=spec.header,
        gaps=spec.gaps,
        # Who has folded what expired is asked only where something did
        folded_before=position.start > 0 and (not spec.raw or offsets.reported(spec, partition)),
        bindings={} if stage is None else bindings_of(stage),
        seal=None if stage is None else stage.seal,
        partitions=spec.partitions,
        partitions_found=offsets.partitions(spec.topic),
    )
    if not spec.gaps:
        return facts
    return replace(facts, first=offsets.first(spec.topic, partition, facts.next_offset))


def _asking(group: str) -> AbstractContextManager[None]:
    return refused(f"the broker did not say how far group {group} is")


def _position(client: Consumer, topic: str, number: int) -> PartitionOffsets:
    """Where the client's group stands in a partition. KafkaException where no broker says it."""
    place = TopicPartition(topic, number)
    found = client.committed([place], timeout=10)[0]
    told = found.metadata or ""
    return PartitionOffsets(
        found.offset if found.offset >= 0 else None,
        *extent(client, place, 10),
        told == BEGUN,
        int(told.removeprefix(SKIPPED)) if told.startswith(SKIPPED) else None,
    )
