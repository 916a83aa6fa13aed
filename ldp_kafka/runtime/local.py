"""The same flow over lists: no Kafka, no time, no threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ldp_kafka.randomness import Keyed
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.log import Message, Output, Record
from ldp_kafka.topology import Topology

__all__ = ["Run", "run"]


class Run(NamedTuple):
    """What a topology made of a raw log."""

    reports: list[list[Record]]
    """Of each raw partition, in order."""
    partials: list[Record]
    releases: list[Record]
    dead_letters: list[Record]
    counts: dict[str, float]
    """Sums of what the perturb stages counted."""


def run(
    topology: Topology, randomness: Keyed, raw: Sequence[Sequence[Message]], *, together: int = 1
) -> Run:
    """Fold a raw log, given by partition, through the topology's stages.

    Parameters
    ----------
    raw : the messages of each raw partition, their offsets as in the log
    together : messages that are folded at a time; makes no difference to what comes out
    """
    if len(raw) != topology.input.partitions:
        raise ValueError("raw must hold one list of messages for each partition of the topology")
    reports: list[list[Record]] = []
    partials: list[Record] = []
    releases: list[Record] = []
    dead: list[Record] = []
    counts: dict[str, float] = {}
    for partition, messages in enumerate(raw):
        edge = roles.edge(topology, randomness, partition)
        state = edge.fresh()
        made: list[Record] = []
        for first in range(0, len(messages), together):
            folded = edge.fold(state, messages[first : first + together])
            _sort(folded, {topology.reports_topic: made, topology.dead_letters_topic: dead})
            for name, count in folded.counts.items():
                counts[name] = counts.get(name, 0) + count
        collect = roles.collect(topology, partition)
        folded = collect.fold(collect.fresh(), log(made))
        _sort(
            folded,
            {
                topology.partials_topic: partials,
                topology.releases_topic: releases,
                topology.collector_dead_letters_topic: dead,
            },
        )
        reports.append(made)
    merge = roles.merge(topology)
    _sort(
        merge.fold(merge.fresh(), log(partials)),
        {topology.releases_topic: releases, topology.collector_dead_letters_topic: dead},
    )
    return Run(reports, partials, releases, dead, counts)


def log(records: Sequence[Record], first: int = 0) -> list[Message]:
    """Records as the log that a consumer of their topic reads."""
    return [Message(first + at, -1, record.value) for at, record in enumerate(records)]


def _sort(folded: Output, to: dict[str, list[Record]]) -> None:
    for record in folded.records:
        to[record.topic].append(record)
