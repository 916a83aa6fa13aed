"""The state of a topology as it lies in Kafka: to look at, to verify, and to set a group back to.

Rewinding is sound because state is a fold of the log and noise is keyed: what is read again from
where a state ends gives the same reports, byte for byte, and the collector counts them once. It
makes up for a changelog that is older than what was acknowledged, and for nothing else: never for a
log that has lost records or another key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ldp_kafka.errors import BadRecord, BrokerError, StateError
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.group_offsets import Standing
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.recovery.inspection import Held, acknowledged, inspect
from ldp_kafka.runtime.roles import AgentSpec, agents
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.worker.supervisor import ROLES
from ldp_kafka.topology import Topology

__all__ = [
    "Move",
    "Plan",
    "alone",
    "compacted",
    "key_bytes",
    "plan_rewind",
    "read_state",
    "rewind",
    "verify_state",
]

PATIENCE = 3.0  # seconds beyond a session's end


class Move(NamedTuple):
    """One committed offset that has to go back."""

    table: str
    topic: str
    partition: int
    committed: int
    to: int


class Plan(NamedTuple):
    """What a rewind would do."""

    moves: list[Move]
    refusals: list[str]
    """Why it may not; nothing is moved unless this is empty."""


def compacted(config: Config, topic: str) -> dict[str, bytes]:
    """What a changelog holds: the last value of each key, without those that were deleted."""
    held: dict[str, bytes] = {}
    for record in read_records(config, topic):
        if record.key is None:
            continue
        name = _name(record.key)
        if record.value is None:
            held.pop(name, None)
        else:
            held[name] = record.value
    return held


def key_bytes(name: str) -> bytes:
    """A table's key as a record of its changelog has it: Faust writes JSON."""
    return json.dumps(name).encode()


def _name(key: bytes) -> str:
    """What `key_bytes` was given; the text itself where it is not ours, for `inspect` to say so."""
    try:
        found = json.loads(key)
    except ValueError:
        found = None
    return found if isinstance(found, str) else key.decode(errors="replace")


def read_state(
    topology: Topology, roles: Sequence[str] = ROLES, *, key: str | None = None
) -> list[Held]:
    """Every partition of these roles' tables.

    Parameters
    ----------
    roles : of ``perturb`` and ``collect``: only their sides' clusters are asked
    key : what tells the edge's key from another (`Keyed.check`); None: it is not compared

    Raises
    ------
    ConfigurationError : a topic or a setting is missing
    BrokerError : a broker did not answer
    """
    return [
        held
        for role in _present(topology, roles)
        for spec in agents(topology, role)
        for held in _table(topology, role, spec, key)
    ]


def _present(topology: Topology, roles: Sequence[str]) -> Sequence[str]:
    """Those that the topology has, where all were asked for; one that was asked for by name and is
    not there is an error of `agents`.
    """
    return (
        [role for role in roles if not (topology.devices and role == "perturb")]
        if len(roles) > 1
        else roles
    )


def verify_state(
    topology: Topology, roles: Sequence[str] = ROLES, *, key: str | None = None
) -> list[Held]:
    """The same, looked at twice where something is wrong at first: a changelog that is compacted
    while it is read shows what never was.
    """
    found = read_state(topology, roles, key=key)
    return read_state(topology, roles, key=key) if any(held.violations for held in found) else found


def _table(topology: Topology, role: str, spec: AgentSpec, key: str | None) -> Iterator[Held]:
    own = client_config(topology, "edge" if role == "perturb" else "collector")
    # Whether the edge has answered is asked of the collector's cluster, which a perturb role can
    # reach
    standing = Standing(
        topology, role, agents(topology, role), own, client_config(topology, "collector")
    )
    # What was acknowledged is in the changelog by then; what the state covers is in the log by then
    before = [standing.position(spec.topic, number) for number in range(spec.partitions)]
    records = compacted(own, topology.changelog(role, spec.name))
    after = [standing.position(spec.topic, number).end for number in range(spec.partitions)]
    for number, (position, end) in enumerate(zip(before, after, strict=True)):
        # as `agent.Agent.promised`
        answered = position.start > 0 and (
            spec.topic != topology.raw_topic or standing.reported(spec, number)
        )
        yield inspect(
            topology, spec, number, records, position._replace(end=end), key=key, answered=answered
        )


def plan_rewind(spec: AgentSpec, held: Held, first: int = 0) -> Plan:
    """What a rewind does for one partition.

    Parameters
    ----------
    first : the first offset that the stage folds where it begins anew
    """
    where = f"{held.topic} partition {held.partition}"
    done = acknowledged(spec, held.position)
    if done is None or held.cover >= done:
        return Plan([], [])
    committed, start, end, _ = held.position
    assert committed is not None
    others = [
        broken.text
        for broken in held.violations
        if broken.rule not in ("covered", "complete", "log")
    ]
    if others:
        return Plan([], [f"{where}: {text}" for text in others])
    if committed > end or held.cover >= end:
        return Plan(
            [],
            [
                (
                    f"{where}: the log ends before what was acknowledged: it was made anew, and its"
                    " events are others; give the topology a new name"
                )
            ],
        )
    if start > held.cover + 1:
        return Plan(
            [],
            [
                (
                    f"{where}: the log begins at offset {start}, but the state needs what comes after"
                    f" {held.cover}: give the topology a new name"
                )
            ],
        )
    if held.chosen is None and held.table == "perturb":
        return Plan(
            [],
            [
                (
                    f"{where}: there is no complete state that would tell whether the key is still the"
                    " same: bring the changelog back"
                )
            ],
        )
    return Plan(
        [
            Move(
                held.table,
                held.topic,
                held.partition,
                committed,
                first if held.chosen is None else held.cover + 1,
            )
        ],
        [],
    )


def alone(topology: Topology, config: Config, group: str) -> None:
    """Wait until a group has no members: a worker that ended without a word counts until its
    session is over. StateError where somebody stays.
    """
    end = time.monotonic() + topology.runtime.session_timeout_ms / 1000 + PATIENCE
    while count := admin.members(config, group):
        if time.monotonic() > end:
            raise StateError(
                f"group {group} has {count} members: stop its workers first, all of them"
            )
        time.sleep(0.2)


def rewind(topology: Topology, role: str, *, do: bool, key: str | None = None) -> Plan:
    """Set a role's committed offsets back to what its state covers, where they are further.

    Parameters
    ----------
    do : False: only say what would be done

    Raises
    ------
    StateError : the group has members
    BrokerError : a broker did not answer
    """
    own, group = (
        client_config(topology, "edge" if role == "perturb" else "collector"),
        topology.group(role),
    )
    if do:
        alone(topology, own, group)
    moves: list[Move] = []
    refusals: list[str] = []
    for spec in agents(topology, role):
        for held in _table(topology, role, spec, key):
            made = plan_rewind(
                spec,
                held,
                1 if held.chosen is None and _headed(own, spec.topic, held.partition) else 0,
            )
            moves += made.moves
            refusals += made.refusals
    if do and not refusals:
        for topic in dict.fromkeys(move.topic for move in moves):
            _commit(
                own,
                group,
                topic,
                {move.partition: move.to for move in moves if move.topic == topic},
            )
    return Plan(moves, refusals)


def _commit(config: Config, group: str, topic: str, offsets: dict[int, int]) -> None:
    try:
        admin.commit(config, group, topic, offsets)
    except BrokerError as error:
        if admin.members(config, group):
            raise StateError(
                f"group {group} has members: stop its workers first, all of them"
            ) from error
        raise


def _headed(config: Config, topic: str, partition: int) -> bool:
    """Whether offset 0 is a header record, which no stage folds."""
    for record in read_records(
        config,
        topic,
        {partition: (0, 1)} if admin.watermarks(config, topic, partition)[0] == 0 else {},
    ):
        try:
            found = parse_json(record.value or b"")
        except BadRecord:
            return False
        return isinstance(found, dict) and found.get("type") == "header"
    return False
