"""All that the stages of a topology write of one raw log, in a form that is compared: the records
of each topic, and the records of each state. Numbers of what is made of reports are compared to
`DIGITS` digits: they go through BLAS, whose last bit differs between processors.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from ldp_kafka.records import Report, Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.recovery.checkpoints import VERSION, WINDOWED
from ldp_kafka.runtime.recovery.keys import is_meta, place_of
from ldp_kafka.runtime.recovery.packing import unpack
from ldp_kafka.runtime.recovery.snapshot import Snapshot
from ldp_kafka.runtime.sealing import Sealed
from ldp_kafka.runtime.stages.collect_devices import partition_of
from ldp_kafka.runtime.stages.shards import unpacked
from ldp_kafka.runtime.wire.arrow import ARROW, read_batch
from ldp_kafka.runtime.wire.codec import decode, encode
from ldp_kafka.topology import Topology
from tests.fold.epochs import folded, opened

START = 1_700_000_000_000
DIGITS = 8
EPOCH = "e" * 16
BAD = [
    b"",
    b"not json",
    b'{"value": NaN}',
    b"{}",
    b"[1, 2]",
    b"\xff\xff\xff\xff junk",
    b'{"user": 3, "value": "x", "time": -1}',
]


def untidy(log: Sequence[Sequence[Message]], first: int) -> list[list[Message]]:
    """The same log with messages that come twice, late, too early by their own record's clock, or
    not readable.
    """
    dice, made = random.Random(11), []
    for messages_ in log:
        values: list[tuple[int, bytes | None]] = []
        for at, message in enumerate(messages_):
            values.append((-1, message.value))
            if dice.random() < 0.15:
                values.append((-1, message.value))
            if dice.random() < 0.1:
                values.append((-1, dice.choice(BAD)))
            if dice.random() < 0.1:
                values.append((-1, messages_[dice.randrange(at + 1)].value))
            if dice.random() < 0.05:
                values.append(
                    (START - 10 * 86_400_000, messages_[min(at + 3, len(messages_) - 1)].value)
                )
        values.append((-1, None))
        made.append([Message(first + at, stamp, value) for at, (stamp, value) in enumerate(values)])
    return made


def of_devices(
    reports: Sequence[Sequence[Record]], end: int = START + 60_000
) -> list[list[Message]]:
    """The reports of an edge as those of devices: one a message, some twice, one of them changed,
    some in the wrong partition, and a tick behind them.
    """
    logs: list[list[bytes]] = [[], []]
    dice = random.Random(13)
    singles = [one for part in reports for record in part for one in decode(record.value)]
    for one in sorted(singles, key=lambda one: (one.slot, one.id)):
        at = partition_of(bytes.fromhex(one.id), 2)
        logs[at].append(encode(one))
        if dice.random() < 0.2:
            logs[at].append(dice.choice(logs[at]))
        if dice.random() < 0.1:
            logs[at].append(dice.choice(BAD))
        if dice.random() < 0.1:
            logs[1 - at].append(encode(one))
        if dice.random() < 0.1:
            logs[at].append(
                encode(Report(one.id, one.slot, one.phase, one.value, "0" * 32, one.series))
            )
    for log in logs:
        log.append(encode(Tick(end)))
    return [[Message(1 + at, -1, value) for at, value in enumerate(log)] for log in logs]


def rounded(number: str) -> float:
    """A number that is made of reports."""
    return float(f"{float(number):.{DIGITS}g}")


def in_digits(text: str | bytes) -> str:
    """JSON with such numbers."""
    return json.dumps(json.loads(text, parse_float=rounded))


def digest(records: Sequence[Record], *inexact: str | None) -> str:
    """Of records in their order, keys, headers and places included; ``inexact`` are the topics
    whose numbers are made of reports.
    """
    whole = sha256()
    for record in records:
        parts = [
            record.topic.encode(),
            str(record.partition).encode(),
            record.key or b"-",
            record.value if record.topic not in inexact else in_digits(record.value).encode(),
        ]
        parts += [part for name, value in record.headers for part in (name.encode(), value)]
        for part in parts:
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:32]


def said(topology: Topology, run: local.Run) -> dict[str, object]:
    """All that is compared of a run."""
    return {
        "fingerprint": topology.fingerprint,
        "reports": [digest(part) for part in run.reports],
        "releases": digest(run.releases, topology.releases_topic),
        "dead_letters": digest(run.dead_letters),
        "made": [sum(map(len, run.reports)), len(run.releases), len(run.dead_letters)],
    }


def plain(payload: bytes) -> str:
    """What a record of a state says: its columns, its JSON, or its bytes. How well LZ4 compresses
    is no part of it.
    """
    head = payload[:8].hex() if payload[:1] == b"\0" else ""  # what is compressed of it
    if head or payload.startswith(ARROW):
        batch = read_batch(unpacked(payload) if head else payload)[0]
        names = [f"{field.name}: {field.type}" for field in batch.schema]
        columns = json.dumps(batch.to_pydict(), default=bytes.hex)
        return json.dumps([head, names, in_digits(columns)])
    try:
        return in_digits(payload)
    except ValueError:
        return payload.hex()


def in_order(text: str | bytes) -> str:
    """JSON with its keys in order."""
    return json.dumps(json.loads(text), sort_keys=True)


def held(stage: Stage[Any], snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The records of a snapshot in the order of writing, each with its place, its checkpoint
    offset, the part that anybody may read, and the part that a seal hides; then the places that are
    dropped. They are those of version 4, which had places for keys: `WINDOWED` is nothing else.
    """
    found: list[tuple[str, ...]] = []
    for key, value in snapshot.records.items():
        sealed = Sealed.read(value)
        assert (sealed is None) == (stage.seal is None)
        if sealed is None:
            offset, payload = unpack(value)
            clear = b"{}"
        else:
            offset, clear = sealed.offset, sealed.clear
            payload = stage.seal.open(place_of(key), value)
        if stage.windowed and is_meta(key):
            assert b'"version": %d' % WINDOWED in clear
            clear = clear.replace(b'"version": %d' % WINDOWED, b'"version": %d' % VERSION)
        said = [in_order(clear or b"{}"), plain(payload)]
        if is_meta(key):  # which lists shards in any order
            said[1] = in_order(said[1])
        found.append((place_of(key), str(offset), *said))
    return [*sorted(found[:-1]), found[-1], *((place_of(key),) for key in snapshot.drop)]


def hashed(found: Any) -> str:
    """Of what can be written as JSON."""
    return sha256(json.dumps(found).encode()).hexdigest()[:32]


def written(
    topology: Topology, randomness: Any, logs: Sequence[Sequence[Message]]
) -> dict[str, str]:
    """The records and the states of every stage, each of which folds its log in three parts and
    takes a snapshot after each. Logs of the stages behind the first one are as untidy as the first.

    Parameters
    ----------
    logs : by partition, what the topology's first agent folds
    """
    records: dict[str, list[list[Record]]] = {
        topic.name: [[] for _ in range(topic.partitions)] for topic in topology.flow.topics
    }
    made: dict[str, str] = {"fingerprint": topology.fingerprint, "layout": topology.layout}
    given: Sequence[Sequence[Message]] = logs
    agents = [agent for _, agent in topology.flow.readers()]
    for agent in agents:
        if agent is not agents[0]:
            given = untidy([local.log(part, 1) for part in records[agent.topic]], 1)
        states = []
        for partition, log in enumerate(given):
            stage = roles.make(topology, agent, partition, randomness if agent.raw else None)
            epoch = opened(stage, partition, want=log[0].offset, token=EPOCH)
            third = -(-len(log) // 3)
            snapshots = []
            for at in range(0, len(log), third):
                for record in folded(epoch, log[at : at + third]):
                    records[record.topic][record.partition].append(record)
                snapshots.append(held(stage, epoch.snapshot()))
            states.append(f"{hashed(snapshots)}:{','.join(str(len(each)) for each in snapshots)}")
        made[f"state of {agent.name}"] = " ".join(states)
    reports = topology.flow.reports  # as they are drawn
    for topic, parts in records.items():
        if topic.startswith(topology.name) and any(parts):
            inexact = () if reports is not None and topic == reports.name else (topic,)
            made[topic] = " ".join(f"{digest(part, *inexact)}:{len(part)}" for part in parts)
    return made
