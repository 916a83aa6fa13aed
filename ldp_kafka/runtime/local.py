"""The same flow over lists: no Kafka, no time, no threads."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ldp_kafka.runtime import roles
from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.log import Message, Output, Record, Stage
from ldp_kafka.runtime.stages.requests import Forwarding
from ldp_kafka.topology import Topology

__all__ = ["Run", "fold", "log", "run"]

END_OF_TIME = 2**62  # milliseconds: there is no clock here


class Run(NamedTuple):
    """What a topology made of a raw log."""

    reports: list[list[Record]]
    """Of each raw partition, in order."""
    partials: list[Record]
    releases: list[Record]
    dead_letters: list[Record]
    counts: dict[str, float]
    """Sums of what the stages that fold raw values counted."""
    requests: Sequence[Record] = ()
    raw: Sequence[Sequence[Message]] = ()
    """Where a coordinator asks: each raw partition's log, with its requests."""

    def __repr__(self) -> str:
        return f"Run({len(self.releases)} releases)"  # never a count: some are of raw data


def run(
    topology: Topology,
    randomness: EdgeNoise,
    raw: Sequence[Sequence[Message]],
    *,
    together: int = 1,
) -> Run:
    """Fold a raw log, given by partition, through the topology's stages. Where a coordinator asks,
    messages come in the order of their event times, one at a time, and what one leads to is done
    before the next comes: requests take their places, and offsets, in the log.

    Parameters
    ----------
    raw : the messages of each raw partition, their offsets as in the log
    together : messages that are folded at a time; makes no difference to what comes out
    """
    if len(raw) != topology.input.partitions:
        raise ValueError("raw must hold one list of messages for each partition of the topology")
    if topology.flow.requests is not None:
        return _in_rounds(topology, randomness, raw)
    if topology.curated:
        return _curated(topology, randomness, raw, together)
    reports: list[list[Record]] = []
    partials: list[Record] = []
    releases: list[Record] = []
    dead: list[Record] = []
    counts: dict[str, float] = {}
    (_, perturb), (_, collect), (_, merge) = (
        topology.reader(topic)
        for topic in (topology.raw_topic, topology.reports_topic, topology.partials_topic)
    )
    for partition, messages in enumerate(raw):
        made: list[Record] = []
        edge = roles.make(topology, perturb, partition, randomness)
        for _, folded in fold({partition: edge}, _of(partition, messages), together):
            _sort(folded, {topology.reports_topic: made, topology.dead_letters_topic: dead})
            for name, count in folded.counts.items():
                counts[name] = counts.get(name, 0) + count
        source = roles.make(topology, collect, partition)
        folded = source.fold(source.fresh(), log(made))
        _sort(
            folded,
            {
                topology.partials_topic: partials,
                topology.releases_topic: releases,
                topology.collector_dead_letters_topic: dead,
            },
        )
        reports.append(made)
    merger = roles.make(topology, merge, 0)
    merged = merger.fold(merger.fresh(), log(partials))
    last = {topology.releases_topic: releases, topology.collector_dead_letters_topic: dead}
    if topology.flow.sums is not None:
        sums: list[Record] = []
        _sort(merged, {**last, topology.sums_topic: sums})
        decides = roles.make(topology, topology.reader(topology.sums_topic)[1], 0)
        merged = decides.fold(decides.fresh(), log(sums))
    _sort(merged, last)
    return Run(reports, partials, releases, dead, counts)


def _curated(
    topology: Topology, randomness: EdgeNoise, raw: Sequence[Sequence[Message]], together: int
) -> Run:
    releases: list[Record] = []
    dead: list[Record] = []
    counts: dict[str, float] = {}
    _, curate = topology.reader(topology.raw_topic)
    for partition, messages in enumerate(raw):
        stage = roles.make(topology, curate, partition, randomness)
        for _, folded in fold({partition: stage}, _of(partition, messages), together):
            _sort(folded, {topology.releases_topic: releases, topology.dead_letters_topic: dead})
            for name, count in folded.counts.items():
                counts[name] = counts.get(name, 0) + count
    return Run([[] for _ in raw], [], releases, dead, counts)


def _in_rounds(topology: Topology, randomness: EdgeNoise, raw: Sequence[Sequence[Message]]) -> Run:
    written: dict[str, list[list[Record]]] = {
        topic.name: [[] for _ in range(topic.partitions)] for topic in topology.flow.topics
    }
    logs: dict[str, list[list[Message]]] = {
        agent.topic: [[] for _ in range(agent.partitions)] for _, agent in topology.flow.readers()
    }
    stages = {
        (agent.topic, partition): roles.make(topology, agent, partition, randomness)
        for _, agent in topology.flow.readers()
        for partition in range(agent.partitions)
    }
    states = {place: stage.fresh() for place, stage in stages.items()}
    counts: dict[str, float] = {}
    forwarding = Forwarding(topology.input.slot_ms, topology.input.max_ahead_ms)
    waiting: deque[tuple[str, int, Message]] = deque()

    def append(topic: str, partition: int, timestamp: int, value: bytes | None) -> None:
        if topic in logs:
            log = logs[topic][partition]
            log.append(Message(len(log), timestamp, value))
            waiting.append((topic, partition, log[-1]))

    def drain() -> None:
        while waiting:
            topic, partition, message = waiting.popleft()
            folded = stages[topic, partition].fold(states[topic, partition], [message])
            if topic == topology.raw_topic:
                for name, count in folded.counts.items():
                    counts[name] = counts.get(name, 0) + count
            for record in folded.records:
                written[record.topic][record.partition].append(record)
                append(record.topic, record.partition, -1, record.value)
                if record.topic == topology.requests_topic:
                    control = forwarding.take(record.value, END_OF_TIME)
                    for each in range(topology.input.partitions) if control else ():
                        append(topology.raw_topic, each, -1, control)

    def time(partition: int, message: Message) -> int:
        if len(raw) == 1:  # in their order as they are
            return 0
        perturb: Any = stages[topology.raw_topic, partition]
        found: int = perturb.latest([message])
        return found

    events = [
        [(time(partition, message), partition, message) for message in messages]
        for partition, messages in enumerate(raw)
    ]
    for _, partition, message in heapq.merge(*events, key=lambda each: each[:2]):
        append(topology.raw_topic, partition, message.timestamp, message.value)
        drain()
    return Run(
        written[topology.reports_topic],
        written[topology.partials_topic][0],
        [record for part in written[topology.releases_topic] for record in part],
        [
            *written[topology.dead_letters_topic][0],
            *written[topology.collector_dead_letters_topic][0],
        ],
        counts,
        written[topology.requests_topic][0],
        logs[topology.raw_topic],
    )


def fold(
    stages: Mapping[int, Stage[Any]],
    messages: Iterable[tuple[int, Message]],
    together: int,
    states: Mapping[int, Any] | None = None,
) -> Iterator[tuple[int, Output]]:
    """Fold logs from their beginning, each partition by its stage: what each fold gave.

    Parameters
    ----------
    stages : of each partition
    messages : (partition, message), in the order of each partition
    together : messages of a partition that are folded at a time
    states : of each partition, which the messages are folded into; None: fresh ones
    """
    if states is None:
        states = {partition: stage.fresh() for partition, stage in stages.items()}
    waiting: dict[int, list[Message]] = {partition: [] for partition in stages}

    def folded(partition: int) -> tuple[int, Output]:
        run, waiting[partition] = waiting[partition], []
        return partition, stages[partition].fold(states[partition], run)

    for partition, message in messages:
        waiting[partition].append(message)
        if len(waiting[partition]) >= together:
            yield folded(partition)
    for partition in stages:
        if waiting[partition]:
            yield folded(partition)


def _of(partition: int, messages: Sequence[Message]) -> Iterator[tuple[int, Message]]:
    return ((partition, message) for message in messages)


def log(records: Sequence[Record], first: int = 0) -> list[Message]:
    """Records as the log that a consumer of their topic reads."""
    return [Message(first + at, -1, record.value) for at, record in enumerate(records)]


def _sort(folded: Output, to: dict[str, list[Record]]) -> None:
    for record in folded.records:
        to[record.topic].append(record)
