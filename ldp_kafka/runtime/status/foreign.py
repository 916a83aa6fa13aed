"""What somebody else's topic has that a worker cannot fold, or is not given."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.holes import UNCOMMITTED, first_hole, is_compacted
from ldp_kafka.runtime.kafka.reader import Spans, read_records
from ldp_kafka.runtime.status.facts import Facts, OpenTransaction
from ldp_kafka.runtime.status.sample import tails
from ldp_kafka.topology import Topology

__all__ = ["look_at"]

LONG = 10_000  # milliseconds for which a transaction is open before anything is said of it


def look_at(facts: Facts, topology: Topology, config: Config, ends: Spans) -> Facts:
    """With what the topic that values come in by has.

    Parameters
    ----------
    config : of a client of its cluster
    ends : of its partitions, up to the first open transaction
    """
    source, topic = topology.input, topology.input.topic
    if source.gaps != "allow" or not source.relay:
        facts = replace(facts, compacted=is_compacted(config, topic))
    if source.gaps != "allow":
        held = tails({**config, **UNCOMMITTED}, topic, ends).records
        for number, (start, end) in ends.items():
            offsets = [each.offset for each in held.get(number, ())]
            hole = first_hole(offsets, end) if end > start else None
            if hole is not None:
                return replace(facts, hole=(number, hole))
    if source.gaps == "allow" or source.relay:  # who reads it is given what is committed
        return replace(facts, open=tuple(_open(config, topic, ends)))
    return facts


def _open(config: Config, topic: str, before: Spans) -> Iterator[OpenTransaction]:
    """Transactions that are open for long, and that did not end meanwhile."""
    every = admin.extents(config, topic, before)
    behind = {n: (end, end + 1) for n, (_, end) in before.items() if every[n][1] > end}
    if not behind:
        return
    records = read_records({**config, **UNCOMMITTED}, topic, behind)
    first = {each.partition: each.timestamp for each in records}
    now, after = int(time.time() * 1000), admin.extents(config, topic, behind, stable=True)
    for number, (offset, _) in behind.items():
        since = first.get(number, -1)
        if after[number][1] == offset and now - since > LONG:
            yield OpenTransaction(number, offset, every[number][1] - offset, since)
