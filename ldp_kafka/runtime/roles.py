"""From a topology to its pure stages: what both drivers (`local` and the workers) run."""

from __future__ import annotations

from typing import NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.randomness import Keyed, keyed
from ldp_kafka.runtime.keys import Keyring
from ldp_kafka.runtime.stages.collect import Collect
from ldp_kafka.runtime.stages.collect_devices import CollectDevices
from ldp_kafka.runtime.stages.merge import Merge
from ldp_kafka.runtime.stages.perturb import Edge
from ldp_kafka.runtime.stages.releases import Publisher
from ldp_kafka.runtime.wire.events import EventReader
from ldp_kafka.topology import Topology

__all__ = ["AgentSpec", "agents", "collect", "collect_devices", "edge", "edge_randomness", "merge"]


class AgentSpec(NamedTuple):
    """One agent of a role: the log it folds and where its state lies."""

    name: str
    """Also the table's."""
    topic: str
    partitions: int
    gaps: bool
    header: bool
    """Whether offset 0 of the topic is a header record of ours."""


def edge_randomness(topology: Topology, key: bytes | Keyring) -> Keyed:
    """Keyed noise of one topology: its fingerprint separates it from every other under the same
    key, and its slots say when a ring's keys take turns.
    """
    ring = key if isinstance(key, Keyring) else Keyring(key)
    return keyed(
        ring.first,
        context=bytes.fromhex(topology.fingerprint),
        later=ring.turns(topology.input.slot_ms),
    )


def edge(topology: Topology, randomness: Keyed, partition: int) -> Edge:
    """The perturb stage of one raw partition."""
    source = topology.input
    privacy = topology.privacy
    return Edge(
        method=topology.method,
        randomness=randomness,
        reader=EventReader(
            source.user,
            source.value,
            source.time,
            privacy.category_names or privacy.categories,
            topology.method.dimension,
        ),
        topic=topology.raw_topic,
        reports_topic=topology.reports_topic,
        dead_letters_topic=topology.dead_letters_topic,
        partition=partition,
        fingerprint=topology.fingerprint,
        layout=topology.layout,
        slot_ms=source.slot_ms,
        lateness=source.lateness,
        max_ahead_ms=source.max_ahead_ms,
        shards=topology.runtime.shards,
        per_user=topology.per_user,
        partitions=source.partitions if source.partitioning == "murmur2" else 0,
    )


def publisher(topology: Topology) -> Publisher:
    """Makes the topology's releases."""
    source = topology.input
    return Publisher(
        topology.name,
        topology.releases_topic,
        topology.method,
        topology.statistics,
        source.slot_ms,
        source.partitions,
    )


def collect(topology: Topology, partition: int) -> Collect:
    """The collect stage of one source: a partition of the edge's reports, or of the devices'."""
    if topology.devices:
        return collect_devices(topology, partition, partition)
    return Collect(
        topology.method,
        topology.reports_topic,
        topology.partials_topic,
        topology.collector_dead_letters_topic,
        partition,
        topology.fingerprint,
        topology.layout,
        publisher(topology),
    )


def collect_devices(topology: Topology, partition: int, source: int) -> CollectDevices:
    """The collect stage of one partition of the devices' reports; ``source`` is its number for the
    merger.
    """
    return CollectDevices(
        method=topology.method,
        topic=topology.device_reports_topic,
        partials_topic=topology.partials_topic,
        dead_letters_topic=topology.collector_dead_letters_topic,
        partition=partition,
        fingerprint=topology.fingerprint,
        layout=topology.layout,
        publisher=publisher(topology),
        source=source,
        partitions=topology.input.partitions,
        slot_ms=topology.input.slot_ms,
        lateness=topology.input.lateness,
        max_ahead_ms=topology.input.max_ahead_ms,
    )


def merge(topology: Topology) -> Merge:
    """The merge stage."""
    return Merge(
        topology.input.partitions,
        topology.statistics.width,
        publisher(topology).of_slot,
        topology.partials_topic,
        topology.collector_dead_letters_topic,
        topology.fingerprint,
        topology.layout,
    )


def agents(topology: Topology, role: str) -> list[AgentSpec]:
    """The agents of a role.

    Raises
    ------
    ConfigurationError : devices perturb by themselves, and the role is theirs
    """
    source = topology.input
    if topology.devices:
        if role == "perturb":
            raise ConfigurationError(
                f"{topology.name} has no perturb role: its devices perturb by themselves"
                " (ldp_kafka.Client)"
            )
        return [
            AgentSpec("collect", topology.device_reports_topic, source.partitions, False, True),
            AgentSpec("merge", topology.partials_topic, 1, False, True),
        ]
    if role == "perturb":
        return [
            AgentSpec(
                "perturb",
                topology.raw_topic,
                source.partitions,
                source.gaps == "allow",
                source.create is not False,
            )
        ]
    return [
        AgentSpec("collect", topology.reports_topic, source.partitions, False, True),
        AgentSpec("merge", topology.partials_topic, 1, False, True),
    ]
