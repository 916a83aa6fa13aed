"""A new key for the edge, between two slots: every slot before it keeps the old one, and no (user,
slot) is drawn under both.

A slot's key is a function of the slot alone (`randomness.Keyed`), so all that can go wrong is that
a slot that begins under the new key was answered under the old one already. Hence:

1. No worker of the topology runs: its group has no members.
2. The new key begins with the first slot that lies after every event that the raw log holds, folded
   or not. What was reported was read from the log, so no report was made of that slot or a later
   one; what comes late for earlier slots is made with the old key, today and in every replay. A
   curator, and an edge whose events a relay re-keys, have drawn for slots that have closed, which
   lie before; a window that is open has the old key in its first slots, and the new one in the
   others.
3. The new key is on disk, in ``FILE.next``, before anything depends on it.
4. Each partition's state is written once more, bound to the new ring of keys, and the records
   of older epochs are deleted. From then on a worker with the old file halts over it, and one with
   the new file over every partition that is not yet written: none can go on with what is half done,
   and the same command finishes it.
5. ``FILE.next`` takes the place of the file.

The ledger goes on: users are found under the digests of the first key, with all that they have
spent. The overlap is accounted because there is none: a slot has one key, a user one ledger. The
old key stays in the file: it names the users in the state, and makes the old reports once more.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from ldp_kafka.accounting.words import moment
from ldp_kafka.errors import BrokerError, ConfigurationError, InvariantError, StateError
from ldp_kafka.randomness import KEY_BYTES
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.changelog import key_bytes
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.keys import Keyring, edge_randomness, read_key, write_secret
from ldp_kafka.runtime.log import Message, Output
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.recovery.epoch import Epoch, Table
from ldp_kafka.runtime.recovery.inspection import inspect
from ldp_kafka.runtime.recovery.keys import Key
from ldp_kafka.runtime.recovery.rules import Facts, PartitionOffsets
from ldp_kafka.runtime.recovery.snapshot import Snapshot
from ldp_kafka.runtime.recovery.start import Start, decide
from ldp_kafka.runtime.stages.curate import Curate
from ldp_kafka.runtime.stages.perturb import Perturb
from ldp_kafka.runtime.tools.state import alone, read_partitions
from ldp_kafka.topology import Topology, require

__all__ = ["Rotation", "rebind", "rotate"]

TOGETHER = 256  # raw messages that are looked at at a time
WAIT = 20.0  # seconds for a record of the changelog
Folds = Perturb | Curate
"""The stages that fold raw values, and draw with a key."""


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
    for topology in topologies:
        require(topology, ("key",))
    files = {topology.edge.key_file for topology in topologies}
    if len(files) != 1 or not isinstance(file := files.pop(), Path):
        raise ConfigurationError(
            "a key that is rotated is in a file: edge.key_file, the same one in each of the"
            " topologies"
        )
    old, next_file = read_key(file), file.with_name(file.name + ".next")
    # of a rotation that did not come to its end
    pending = read_key(next_file) if next_file.exists() else None
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


async def rebind(stage: Folds, new: Folds, start: Start, table: Table) -> None:
    """Write the state of a partition once more, bound to another ring of keys.

    Parameters
    ----------
    stage, new : under the ring that the state was made with, and under the other one
    start : what is read of it
    table : where it is written
    """
    epoch: Epoch[Any] = Epoch(
        stage, start, table=table, output=_Nothing(), acknowledge=_ignore, clock=time.monotonic
    )
    epoch.stage = new
    await epoch.save()


class _Nothing:
    """The output of an epoch that folds nothing."""

    def send(self, partition: int, folded: Output, seconds: float) -> None:
        del folded, seconds
        raise InvariantError(f"partition {partition}: a rotation folds nothing")

    def mark(self) -> None:
        """Nothing was sent."""

    async def flush(self, mark: None) -> None:
        """Nothing was sent."""

    def saved(self, snapshot: Snapshot, seconds: float) -> None:
        """Nobody counts it."""


def _ignore(_: object) -> None:
    return


class _Held:
    """One topology's state, and how far its raw log goes."""

    def __init__(self, topology: Topology, rings: Sequence[Keyring], *, do: bool) -> None:
        self.topology = topology
        self.config: Config = client_config(topology, "edge")
        self.role, self.spec = topology.reader(topology.raw_topic)
        self.name = self.role.changelog(self.spec.name)
        self.deployment = read_deployment(topology, self.config)
        if do:
            alone(topology, self.config, self.role.group)
        self.parts = [
            self._part(facts, records, rings)
            for facts, records in read_partitions(topology, self.role, self.spec, key=None)
        ]
        reached = max(part.reached for part in self.parts)
        slot_ms = topology.input.slot_ms
        self.free = 0 if reached < 0 else (reached // slot_ms + 1) * slot_ms

    def _stage(self, ring: Keyring, number: int) -> Folds:
        noise = edge_randomness(self.topology, ring, self.deployment)
        found = roles.make(self.topology, self.spec, number, noise)
        if not isinstance(found, Folds):
            raise InvariantError(f"{self.spec.name} folds no raw values")
        return found

    def _part(self, facts: Facts, records: Mapping[Key, bytes], rings: Sequence[Keyring]) -> _Part:
        """The state as the ring that fits it reads it."""
        number = facts.partition
        complaints = []
        for ring in rings:
            stage = self._stage(ring, number)
            bound = replace(facts, bindings={**facts.bindings, "key": stage.key}, seal=stage.seal)
            look = inspect(self.topology, self.spec, records, bound)
            start = decide(bound, checkpoints(records, number, bound.seal))
            if not look.violations and isinstance(start, Start):
                reached = -1 if look.watermark is None else look.watermark
                at = max(look.offset + 1, facts.position.start)
                for messages in self._runs(number, at, facts.position):
                    reached = max(reached, stage.latest(messages))
                return _Part(stage, start, reached)
            complaints += look.violations
        raise StateError(f"{facts.where}: {complaints[0].text}: `ldp-kafka state verify` first")

    def _runs(self, number: int, first: int, position: PartitionOffsets) -> Iterator[list[Message]]:
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
        seals = {}
        for number, part in enumerate(self.parts):
            new = self._stage(ring, number)
            seals[number] = new.seal
            asyncio.run(rebind(part.stage, new, part.start, _Writer(producer, self.name, number)))
        alone(self.topology, self.config, self.role.group)
        for facts, records in read_partitions(self.topology, self.role, self.spec, key=None):
            seal = seals[facts.partition]
            bound = replace(facts, bindings={**facts.bindings, "key": seal.check}, seal=seal)
            # A worker's own state has more, and is bound to the old ring
            if inspect(self.topology, self.spec, records, bound).violations:
                raise StateError(
                    f"{facts.where}: a worker was at work meanwhile: stop all of them, and do it"
                    " again"
                )


class _Part(NamedTuple):
    """One partition's state as it was found."""

    stage: Folds
    """Under the ring that it was written with."""
    start: Start
    reached: int
    """The greatest event time that the log has reached, milliseconds; -1 if there is none."""


class _Writer:
    """Of one partition of a changelog."""

    def __init__(self, producer: Producer, topic: str, number: int) -> None:
        self._producer, self._topic, self._number = producer, topic, number

    async def put(self, key: Key, value: bytes | None) -> None:
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
