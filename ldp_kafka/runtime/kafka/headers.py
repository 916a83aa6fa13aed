"""Header records: the first record of each partition of a log of ours, which says whose it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ldp_kafka.errors import BadRecord, BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.reader import reading
from ldp_kafka.runtime.wire.records import header, header_of
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topic, Topology

__all__ = ["Log", "headed", "logs"]

_PRIVACY = (
    "privacy.method, its parameters, mechanism, epsilon, window, domain or categories, calibration,"
    " input.slot or per_slot, or the noise version of a plug-in"
)
_LAYOUT = (
    "input.topic, user, value, time, partitions, partitioning, lateness or max_ahead, what"
    " reads its messages otherwise (input.events, time_unit, coerce), per_user in"
    " output.statistics, runtime.shards, or the release of a plug-in"
)


class Log(NamedTuple):
    """A log of ours that is read."""

    topic: Topic
    role: str
    """Whose it is to read it."""
    group: str | None
    """That must begin behind the header record; None: it passes over one by itself."""


def logs(topology: Topology) -> Iterator[Log]:
    """What agents fold, and what is forwarded."""
    for role in topology.roles:
        for agent in role.agents:
            if agent.header:
                yield Log(agent.reads, role.name, role.group)
        if role.forward is not None:
            yield Log(role.forward.reads, role.name, None)


def headed(
    topology: Topology, config: Mapping[str, Any], log: Log, partition: int, *, mine: bool
) -> tuple[bool, bool]:
    """Whether offset 0 is a header record of this topology, and whether it was written now: it is
    where nothing ever was.

    A log that is not ``mine`` but another role's is looked at where this login may read it: who
    only writes there need not have the right, and its reader looks.
    """
    topic, text = log.topic.name, header(topology.name, topology.fingerprint, topology.layout)
    if admin.produce_once(config, topic, partition, text):
        return True, True
    low, _ = admin.watermarks(config, topic, partition)
    # retention took it, or what others wrote before we came; the state has its own fingerprint
    if low > 0:
        return False, False
    try:
        value = _first(config, topic, partition)
    except ConfigurationError:
        if mine:
            raise
        return True, False
    found = header_of(value)
    if found is None:
        # Written by others before we came: it is read as it is
        devices = topology.flow.raw is None and topic == topology.reports_topic
        if topic == topology.input.topic or (devices and _is_report(topology, value)):
            return False, False
        raise ConfigurationError(
            f"topic {topic} is not ours: partition {partition} does not begin with a header record;"
            " rename the topology, or remove the topic"
        )
    _check(topology, topic, found)
    return True, False


def _check(topology: Topology, topic: str, found: Mapping[str, Any]) -> None:
    """Refuse the topic of another topology, or of this one before it was changed."""
    if found.get("topology") != topology.name and topic != topology.input.topic:
        raise ConfigurationError(f"topic {topic} belongs to another topology")
    changed = [
        what
        for name, what in (("fingerprint", _PRIVACY), ("layout", _LAYOUT))
        if found.get(name) != getattr(topology, name)
    ]
    if changed:
        raise ConfigurationError(
            f"topic {topic} was begun under other parameters. What changed is one of:"
            f" {'; and one of: '.join(changed)}. Change it back, or give the topology another name:"
            " noise and budgets of the two must not meet; `ldp-kafka state verify` says whether"
            " the state is the other's too"
        )


def _is_report(topology: Topology, value: bytes) -> bool:
    """Whether a device was faster than whoever made its topic."""
    try:
        found = read_reports(value)
    except BadRecord:
        return False
    return found is not None and found.fingerprint == topology.fingerprint


def _first(config: Mapping[str, Any], topic: str, partition: int) -> bytes:
    """The first record of a partition that holds something."""
    with reading(
        admin.quiet(config), topic, {partition: 0}, **{"isolation.level": "read_uncommitted"}
    ) as consumer:
        messages = consumer.consume(1, timeout=15)
    what = f"the first record of {topic} partition {partition} could not be read"
    if not messages:
        raise BrokerError(what)
    if (error := messages[0].error()) is not None:
        raise admin.kind_of(error)(f"{what}: {error.str()}")
    return messages[0].value() or b""
