"""Every record of a changelog, against the straight fold of the log that it is the state of."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from ldp_kafka.accounting import NEVER
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka.changelog import read_key
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.checkpoints import META, checkpoints, latest
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.recovery.packing import unpack
from ldp_kafka.runtime.stages.shards import unpacked
from ldp_kafka.runtime.wire.arrow import ARROW, read_batch
from tests.broker.flow import Flow
from tests.broker.judge.rounds import TOGETHER, logged
from tests.broker.judge.verdict import Verdict
from tests.fold.judge import shard
from tests.sealed import plain

__all__ = ["states"]


def states(
    flow: Flow, raw: list[list[Message]], kept: dict[str, tuple[list, list]], verdict: Verdict
) -> dict[bytes, Counter[int]]:
    """Compare every record of every changelog with the straight fold of the log that it is the
    state of, and the last complete one with the log's end; what users paid by their own ledgers.
    """
    topology = flow.topology
    randomness = flow.noise()
    paid: dict[tuple[str, bytes], Counter[int]] = defaultdict(Counter)
    for role, agent in topology.flow.readers():
        logs = raw if agent.raw else logged(flow, agent.topic)
        gone, now = kept[role.changelog(agent.name)]
        # Faust writes its keys as JSON
        records = [
            (read_key(m.key()), m.value())
            for m in (*gone, *now)
            if (m.key(), m.value()) not in flow.forged
        ]
        table = {read_key(m.key()): m.value() for m in now}
        asked: dict[int, dict[int, list[tuple[str, bytes]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for key, value in records:
            if value is not None:
                number, part, _ = place_of(key).split("/")
                seal = randomness.seal if agent.raw else None
                cover, payload = unpack(value if seal is None else plain(key, value, seal))
                asked[int(number)][cover].append((part, payload))
                if agent.raw and part != META and not payload.startswith(ARROW):
                    note_paid(payload, paid)
        for number, log in enumerate(logs):
            verdict.states += sum(map(len, asked[number].values()))
            stage = roles.make(topology, agent, number, randomness)
            verdict.wrong[f"{agent.name} states"] += recompute(stage, log, asked[number])
            best = latest(
                checkpoints(
                    {key: value for key, value in table.items() if value is not None}, number
                )
            )
            if log and (best is None or best.offset != log[-1].offset):
                verdict.wrong[f"{agent.name} partitions without their last state"] += 1
    return summed(paid)


def recompute(stage, log: list[Message], asked: dict[int, list[tuple[str, bytes]]]) -> int:
    """How many of these records (by the offset that they cover) are not what the fold of the log up
    to there gives.
    """
    state, wrong, at = stage.fresh(), 0, 0
    for cover in sorted(asked):
        while at < len(log) and log[at].offset <= cover:
            until = at
            while until < len(log) and log[until].offset <= cover and until < at + TOGETHER:
                until += 1
            stage.fold(state, log[at:until])
            at = until
        for part, payload in asked[cover]:
            if part == META:
                wrong += json.loads(payload)["state"] != json.loads(json.dumps(stage.meta(state)))
            else:
                dumped = stage.dump(state, {part}).get(part)
                wrong += dumped is None or shard(payload) != shard(dumped)
    return wrong


def note_paid(payload: bytes, paid: dict[tuple[str, bytes], Counter[int]]) -> None:
    """What a worker's own ledgers, one or one of each phase, say that its users spent: the ring
    holds the last slots.
    """
    rows = read_batch(unpacked(payload))[0]
    ledgers = [name.removesuffix("ring") for name in rows.schema.names if name.endswith("ring")]
    for row in rows.to_pylist() if ledgers else []:
        for name in ledgers:
            end, ring = row[f"{name}ring_end"], row[f"{name}ring"]
            if end != NEVER:
                ring = ring if isinstance(ring, list) else [ring]
                for slot in range(end - len(ring) + 1, end + 1):
                    by = paid[name, row["user"]]
                    by[slot] = max(by[slot], ring[slot % len(ring)])


def summed(paid: dict[tuple[str, bytes], Counter[int]]) -> dict[bytes, Counter[int]]:
    """The same of all ledgers together."""
    found: dict[bytes, Counter[int]] = defaultdict(Counter)
    for (_, user), by in paid.items():
        found[user].update(by)
    return found
