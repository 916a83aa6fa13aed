"""The releases of a topology, from its topic."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ldp_kafka.accounting.words import did_you_mean
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.client_options import read_login
from ldp_kafka.runtime.kafka.reader import Kept, follow_records, read_records
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.releases.choosing import Choosing
from ldp_kafka.runtime.releases.since import since_of
from ldp_kafka.runtime.releases.stream import Releases
from ldp_kafka.runtime.stages.releases import publisher
from ldp_kafka.statistics import ABOVE
from ldp_kafka.topology import Topology, load

__all__ = ["Progress", "read_releases"]

Progress = Callable[[int, int], None]
"""Is told how many records were read, and how many there are."""


def read_releases(
    topology: Topology | str | PathLike[str],
    *,
    since: str | datetime | timedelta | None = None,
    follow: bool = False,
    statistic: str | Sequence[str] | None = None,
    login: Mapping[str, str] | str | PathLike[str] | None = None,
    progress: Progress | None = None,
    away: Callable[[str], None] | None = None,
) -> Releases:
    """The releases of a topology, in the order of their log: all that its topic holds at this
    moment, or, with ``follow``, those that come after these too, without an end.

    Reading is in no consumer group and commits nothing. It needs the right to READ the topic of
    releases, at the collector's brokers, and nothing else of the topology's.

    Parameters
    ----------
    topology : or its file
    since : from which slot on, see `ldp_kafka.runtime.releases.since.since_of`
    statistic : one or several of those that the topology releases; default: all
    login : client options of a reader, or a file with a line ``NAME=VALUE`` each, in librdkafka's
        names, in place of the topology's ``kafka.collector``
    progress : is told how much of what the topic holds has been read
    away : is told, while it follows, what keeps a broker from answering

    Raises
    ------
    ConfigurationError : there is no such topic; the topology does not release such a statistic;
        the login may not read it; ``since`` is no time
    BrokerError : the broker did not answer
    """
    loaded = topology if isinstance(topology, Topology) else load(fspath(topology))
    wanted, first = _statistics(loaded, statistic), since_of(since)
    if login is not None and not isinstance(login, Mapping):
        login = read_login(Path(login))
    config, topic = client_config(loaded, "collector", login=login), loaded.releases_topic
    partitions = admin.partitions_of(config, topic)
    if partitions is None:
        raise ConfigurationError(
            f"there is no topic {topic}: `ldp-kafka topics` or `ldp-kafka run` makes it"
        )
    extent = admin.extents(config, topic, range(partitions))
    ends = {partition: end for partition, (_, end) in extent.items()}
    held = _counted(
        read_records(config, topic, extent), sum(b - a for a, b in extent.values()), progress
    )
    return Releases(
        held,
        partial(follow_records, config, topic, ends, away=away) if follow else None,
        Choosing(loaded.input.slot_ms, first, wanted, _labels(loaded)),
    )


def _statistics(topology: Topology, given: str | Sequence[str] | None) -> frozenset[str] | None:
    if not given:
        return None
    known = [*topology.output.statistics, *([ABOVE] if topology.output.above is not None else [])]
    wanted = [given] if isinstance(given, str) else list(given)
    for name in wanted:
        if name not in known:
            raise ConfigurationError(
                f"{topology.name} releases {', '.join(known)}; got statistic"
                f" {name!r}{did_you_mean(name, known)}"
            )
    return frozenset(wanted)


def _labels(topology: Topology) -> dict[str, dict[str, Any]]:
    """By statistic, what the numbers of lists are of; an event has those of what it is about."""
    labels = publisher(topology).labels
    every = {name: found for each in labels.values() for name, found in each.items()}
    return {**labels, ABOVE: every}


def _counted(
    records: Generator[Kept, None, None], total: int, progress: Progress | None
) -> Generator[Kept, None, None]:
    with closing(records):
        for at, record in enumerate(records):
            if progress is not None and at % 1000 == 0:
                progress(at, total)
            yield record
    if progress is not None:
        progress(total, total)
