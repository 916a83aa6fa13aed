"""The newest messages of the topic that events come in by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka.holes import UNCOMMITTED, first_hole, is_compacted
from ldp_kafka.runtime.kafka.reader import Spans, read_records, spans
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.rules import GAPS
from ldp_kafka.runtime.recovery.start import no_record
from ldp_kafka.runtime.sample.parts import Part, require_raw
from ldp_kafka.topology import Topology

__all__ = ["newest", "read_parts"]

EVERY = 1000  # messages, after which it is said how far it is


def newest(held: Spans, number: int) -> dict[int, tuple[int, int]]:
    """The last offsets of each partition, so many in all: as many of each, and more of the others
    where one holds fewer.

    Examples
    --------
    >>> newest({0: (0, 100), 1: (5, 7), 2: (9, 9)}, 12)
    {0: (90, 100), 1: (5, 7)}
    """
    found: dict[int, tuple[int, int]] = {}
    waiting = sorted(held, key=lambda one: held[one][1] - held[one][0])
    for at, partition in enumerate(waiting):
        first, end = held[partition]
        share = min(end - first, -(-number // (len(waiting) - at)))
        if share:
            found[partition] = (end - share, end)
            number -= share
    return dict(sorted(found.items()))


def read_parts(
    topology: Topology,
    number: int,
    *,
    patience: float,
    progress: Callable[[int], None] | None = None,
) -> list[Part]:
    """Up to so many of the newest messages of ``input.topic``, each partition's in their order.

    It logs in as the edge, is in no consumer group, and commits nothing. Of a topic that is
    compacted or written by transactions some offsets hold no message.

    Parameters
    ----------
    patience : seconds without a record after which a broker counts as gone
    progress : is told how many messages were read

    Raises
    ------
    ConfigurationError : the topology has no raw topic; there is none at the broker, or no message
        in it; it has other partitions than the topology says; it is compacted, and is not to be;
        the login may not read it
    BrokerError : the broker did not answer, or refused
    """
    require_raw(topology)
    config, topic = client_config(topology, "edge"), topology.input.topic
    held = spans(config, topic)
    source = topology.input
    if len(held) != source.given_partitions:
        raise ConfigurationError(
            f"{topic} has {len(held)} partitions, and {source.given_by} says"
            f" {source.given_partitions}: set it to {len(held)}"
        )
    if not (source.relay and source.gaps == "allow") and is_compacted(config, topic):
        raise ConfigurationError(f"{topic} is compacted: {GAPS}")
    if source.gaps != "allow":
        config |= UNCOMMITTED  # as its workers read it
    wanted = newest(held, number)
    found = _read(config, topic, wanted, patience, progress)
    if not any(found.values()):
        raise ConfigurationError(f"{topic} holds no message: there is none to try")
    return [
        Part(
            messages,
            partial("partition {} offset {}".format, partition),
            partition,
            wrong=_wrong(topology, partition, messages, wanted[partition][1]),
        )
        for partition, messages in sorted(found.items())
    ]


def _wrong(topology: Topology, partition: int, messages: Sequence[Message], end: int) -> str | None:
    """What transactions and compaction have left in a partition, where nothing may be missing."""
    if topology.input.gaps == "allow":
        return None
    hole = first_hole([each.offset for each in messages], end)
    return None if hole is None else str(no_record(topology.input.topic, partition, hole))


def _read(
    config: Mapping[str, object],
    topic: str,
    wanted: Spans,
    patience: float,
    progress: Callable[[int], None] | None,
) -> dict[int, list[Message]]:
    found: dict[int, list[Message]] = {partition: [] for partition in wanted}
    for at, record in enumerate(read_records(config, topic, wanted, patience=patience)):
        found[record.partition].append(Message(record.offset, record.timestamp, record.value))
        if progress is not None and at % EVERY == 0:
            progress(at)
    return found
