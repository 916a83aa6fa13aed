"""A new key for the edge, between two slots: every slot before it keeps the old one, and no (user,
slot) is drawn under both.

A slot's key is a function of the slot alone (`randomness.Keyed`), so all that can go wrong is that
a slot that begins under the new key was answered under the old one already. Hence:

1. No worker of the topology runs: its group has no members.
2. The new key begins with the first slot that lies after every event that the raw log holds, folded
   or not. What was reported was read from the log, so no report was made of that slot or a later
   one; what comes late for earlier slots is made with the old key, today and in every replay.
3. The new key is on disk, in ``FILE.next``, before anything depends on it.
4. Each partition's state is written once more, bound to the new ring of keys, and its older tenures
   are dropped. From then on a worker with the old file halts over it, and one with the new file
   over every partition that is not yet written: none can go on with what is half done, and the same
   command finishes it.
5. ``FILE.next`` takes the place of the file.

The ledger goes on: users are found under the digests of the first key, with all that they have
spent. The overlap is accounted because there is none: a slot has one key, a user one ledger. The
old key stays in the file: it names the users in the state, and makes the old reports once more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from ldp_kafka.accounting.words import moment
from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.randomness import KEY_BYTES
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.group_offsets import Position, Standing
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.keys import Keyring, read_key, write_secret
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.inspection import inspect
from ldp_kafka.runtime.recovery.partition import Partition, persist
from ldp_kafka.runtime.roles import agents, edge_randomness
from ldp_kafka.runtime.stages.perturb import Perturb
from ldp_kafka.runtime.tools.state import alone, compacted, key_bytes
from ldp_kafka.topology import Topology

__all__ = ["Rotation", "rebound", "rotate"]

TOGETHER = 256  # raw messages that are looked at at a time
WAIT = 20.0  # seconds for a record of the changelog


class Rotation(NamedTuple):
    """What a rotation does, or did."""

    file: Path
    begins: int
    """Milliseconds; the new key's first slot of each topology begins then, or after it."""
    partitions: int
    done: bool


def rotate(topologies: Sequence[Topology], *, at: int | None = None, do: bool) -> Rotation:
    """Rotate the key of all topologies that use one key file.

    Parameters
    ----------
    at : milliseconds from which on the new key is used; None: as early as is sound
    do : False: only say what would be done

    Raises
    ------
    ConfigurationError : they do not share one key file, or ``at`` is too early
    StateError : a group has members, or a state breaks a rule: see `inspection.RULES`
    BrokerError : a broker did not answer
    """
    files = {topology.edge.key_file for topology in topologies}
    if len(files) != 1 or (file := files.pop()) is None:
        raise ConfigurationError(
            "a key that is rotated is in a file: edge.key_file, the same one in each of the"
            " topologies"
        )
    old, next_file = read_key(file), file.with_name(file.name + ".next")
    pending = (
        read_key(next_file) if next_file.exists() else None
    )  # of a rotation that did not come to its end
    if pending is not None and not (
        pending.later and (pending.first, pending.later[:-1]) == (old.first, old.later)
    ):
        raise ConfigurationError(
            f"{next_file} is not a rotation of {file}: it is another file's, or was finished"
            " elsewhere"
        )
    rings = [old] if pending is None else [old, pending]
    held = [_Held(topology, rings, do=do) for topology in topologies]
    earliest = max(each.free for each in held)
    earliest = max(earliest, old.later[-1][0] + 1 if old.later else 1)
    begins = earliest if at is None else at
    if begins < earliest:
        raise ConfigurationError(
            f"the new key must not begin before {moment(earliest)}: the raw log holds events until"
            " then, which may have been reported"
        )
    if do:
        new = old.rotated(
            begins, os.urandom(KEY_BYTES) if pending is None else pending.later[-1][1]
        )
        if pending is not None and pending != new:
            _replace(next_file, new)  # the same key, later: until now nobody could use it
        elif pending is None:
            write_secret(next_file, new.encode())
        for each in held:
            each.write(new)
        next_file.replace(file)
    return Rotation(file, begins, sum(each.spec.partitions for each in held), do)


def _replace(file: Path, ring: Keyring) -> None:
    draft = file.with_name(file.name + ".draft")
    draft.unlink(missing_ok=True)
    write_secret(draft, ring.encode())
    draft.replace(file)


def rebound(
    edge: Any, new: Any, records: dict[str, bytes], number: int, want: int
) -> Partition[Any]:
    """The state of a partition under another ring of keys: what it holds was made with ``edge``,
    what a snapshot of it says is for ``new``.

    Parameters
    ----------
    records : of the changelog
    want : the next offset
    """
    partition = Partition(edge, number, records, want)
    partition.stage = new
    return partition


class _Held:
    """One topology's state, and how far its raw log goes."""

    def __init__(self, topology: Topology, rings: Sequence[Keyring], *, do: bool) -> None:
        self.topology = topology
        self.config: Config = client_config(topology, "edge")
        self.name = topology.changelog("perturb", "perturb")
        (self.spec,) = agents(topology, "perturb")
        if do:
            alone(topology, self.config, topology.group("perturb"))
        standing = Standing(
            topology, "perturb", [self.spec], self.config, client_config(topology, "collector")
        )
        standing.counted()
        self.records = compacted(self.config, self.name)
        self.parts = [self._part(standing, number, rings) for number in range(self.spec.partitions)]
        reached = max(watermark for _, _, watermark in self.parts)
        slot_ms = topology.input.slot_ms
        self.free = 0 if reached < 0 else (reached // slot_ms + 1) * slot_ms

    def _part(
        self, standing: Standing, number: int, rings: Sequence[Keyring]
    ) -> tuple[Perturb, int, int]:
        """Who reads the state, where it ends, and the greatest event time that the log
        has reached.
        """
        position = standing.position(self.spec.topic, number)
        answered = position.start > 0 and standing.reported(self.spec, number)
        edges = [
            roles.edge(self.topology, edge_randomness(self.topology, ring), number)
            for ring in rings
        ]
        looks = [
            inspect(
                self.topology,
                self.spec,
                number,
                self.records,
                position,
                key=edge.key,
                answered=answered,
            )
            for edge in edges
        ]
        fit = [(edge, look) for edge, look in zip(edges, looks, strict=True) if not look.violations]
        if not fit:
            raise StateError(
                f"{self.spec.topic} partition {number}: {looks[0].violations[0].text}: `ldp-kafka"
                " state verify` first"
            )
        edge, look = fit[0]
        at = max(look.cover + 1, position.start)
        reached = -1 if look.watermark is None else look.watermark
        for messages in self._runs(number, at, position):
            reached = max(reached, edge.latest(messages))
        return edge, look.cover + 1, reached

    def _runs(self, number: int, first: int, position: Position) -> Iterator[list[Message]]:
        run: list[Message] = []
        for record in read_records(self.config, self.spec.topic, {number: (first, position.end)}):
            run.append(Message(record.offset, record.timestamp, record.value))
            if len(run) == TOGETHER:
                yield run
                run = []
        if run:
            yield run

    def write(self, ring: Keyring) -> None:
        """Each partition once more, bound to the ring; nobody may have written meanwhile."""
        producer = Producer(
            {**admin.quiet(self.config), "enable.idempotence": True, "linger.ms": 0}
        )
        keys = {}
        for number, (edge, want, _) in enumerate(self.parts):
            new = roles.edge(self.topology, edge_randomness(self.topology, ring), number)
            keys[number] = new.key
            snapshot = rebound(edge, new, self.records, number, want).snapshot()
            asyncio.run(
                persist(
                    snapshot,
                    flush=_nothing,
                    put=_Writer(producer, self.name, number).put,
                    acknowledge=lambda _: None,
                )
            )
        alone(self.topology, self.config, self.topology.group("perturb"))
        standing = Standing(
            self.topology,
            "perturb",
            [self.spec],
            self.config,
            client_config(self.topology, "collector"),
        )
        found = compacted(self.config, self.name)
        for number, key in keys.items():
            position = standing.position(self.spec.topic, number)
            if inspect(
                self.topology, self.spec, number, found, position, key=key
            ).violations:  # a worker's own state covers more, and is bound to the old ring
                raise StateError(
                    f"{self.spec.topic} partition {number}: a worker was at work meanwhile: stop"
                    " all of them, and do it again"
                )


async def _nothing() -> None:
    return


class _Writer:
    """Of one partition of a changelog."""

    def __init__(self, producer: Producer, topic: str, number: int) -> None:
        self._producer, self._topic, self._number = producer, topic, number

    async def put(self, key: str, value: bytes | None) -> None:
        """Returns when the broker has it."""
        errors: list[Any] = []
        self._producer.produce(
            self._topic,
            value,
            key_bytes(key),
            partition=self._number,
            on_delivery=lambda error, _: errors.append(error),
        )
        if self._producer.flush(WAIT) or errors != [None]:
            raise BrokerError(f"the changelog {self._topic} did not take a record")
