"""Requests of a coordinator, a forwarder, and what is in the raw log: for tests of the forwarder on
an embedded broker and on a real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Producer

from ldp_kafka.errors import BrokerError, StateError
from ldp_kafka.records import Request
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.copying import Copying
from ldp_kafka.runtime.kafka.forwarder import Forwarder
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.kafka.relayer import Relayer, Shown
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology

__all__ = ["PARTITIONS", "TEXT", "Copier", "ask", "asked", "in_order", "waiting"]

PARTITIONS = 3
TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {boot}}}
input: {{slot: 60s, partitions: 3, max_ahead: 1h}}
privacy: {{method: lpa, epsilon: 1.0, window: 5, categories: 4}}
output: {{statistics: [frequencies]}}
edge: {{key_file: {key}}}
runtime: {{session_timeout: {session}}}
"""


class Copier:
    """One forwarder or relayer, with what it counted, showed and ended with."""

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, Any],
        other: Mapping[str, Any] | None = None,
        make: type[Copying] = Forwarder,
    ) -> None:
        """``config`` is of the side that it reads, ``other`` of the other one, if it is another."""
        role, relays = topology.role("perturb"), issubclass(make, Relayer)
        self.counts: dict[str, float] = {}
        self.shown = Shown(0, 0.0)
        self.ended: list[BaseException] = []
        self.replaced = self.silent = False
        self.asked = 0
        self.copying = make(
            topology,
            role.relay if relays else role.forward,
            config,
            config if other is None else other,
            counted=self._count,
            failed=self.ended.append,
            **({"shown": self._show, "raw": self} if relays else {}),
        )

    def check(self) -> None:
        """That the other topic is still the same, see `deployment.RawTopic`."""
        self.asked += 1
        if self.silent:
            raise BrokerError("no answer")
        if self.replaced:
            raise StateError("made anew")

    def _show(self, shown: Shown) -> None:
        self.shown = shown

    def _count(self, counts: Mapping[str, float]) -> None:
        for name, number in counts.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def __enter__(self) -> Self:
        self.copying.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.copying.stop()
        assert self.copying.join(15)


def ask(topology: Topology, config: Mapping[str, Any], *what: int | bytes | Request) -> None:
    """Append requests of these slots, or whatever else, as a coordinator would."""
    producer = Producer(dict(config))
    for each in what:
        made = Request(f"id {each}", each, 1, 1000, each + 4) if isinstance(each, int) else each
        value = encode_json(made) if isinstance(made, Request) else made
        producer.produce(topology.requests_topic, value, partition=0)
    assert producer.flush(20) == 0


def asked(topology: Topology, config: Mapping[str, Any]) -> list[list[int]]:
    """The slots of the control records of each raw partition, in order."""
    found: list[list[int]] = [[] for _ in range(topology.input.partitions)]
    for kept in sorted(read_records(config, topology.raw_topic)):
        if is_request(kept.value):
            assert kept.key is None
            found[kept.partition].append(read_request(kept.value).slot)
    return found


def in_order(slots: list[int]) -> list[int]:
    """The first record of each slot; what is repeated must be a whole last run of what was there,
    in its order.
    """
    first: list[int] = []
    at = 0
    for slot in slots:
        if at < len(first):
            if slot == first[at]:
                at += 1
                continue
            assert slot in first[:at], slots  # again from an earlier one
            at = first.index(slot) + 1
            continue
        if slot in first:
            at = first.index(slot) + 1
            continue
        first.append(slot)
        at = len(first)
    assert at == len(first), slots  # a repeat ends where the log had ended
    assert first == sorted(first), slots
    return first


def waiting(topology: Topology, config: Mapping[str, Any]) -> int:
    """Requests whose offset the group has not committed."""
    forward = topology.role("perturb").forward
    assert forward is not None
    return admin.lag(config, forward.group, forward.reads.name, [0])[0]
