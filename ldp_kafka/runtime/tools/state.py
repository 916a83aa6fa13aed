"""The state of a topology as it lies in Kafka: to look at, to verify, and to set a group back to.

Rewinding is sound because state is a fold of the log and noise is keyed: what is read again from
where a state ends gives the same reports, byte for byte, and the collector counts them once. It
makes up for a changelog that is older than what was acknowledged, and for nothing else: never for a
log that has lost records or another key. Behind what a log has lost `skip` goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import Config
from ldp_kafka.runtime.kafka.changelog import compacted
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.group_offsets import BEGUN, SKIPPED, GroupOffsets, read_facts
from ldp_kafka.runtime.kafka.reader import read_records
from ldp_kafka.runtime.kafka.setup import client_config
from ldp_kafka.runtime.keys import Keyring, edge_randomness
from ldp_kafka.runtime.recovery.checkpoints import Checkpoint, checkpoints, latest
from ldp_kafka.runtime.recovery.inspection import DAMAGE, Held, inspect
from ldp_kafka.runtime.recovery.keys import Key
from ldp_kafka.runtime.recovery.rules import NEW_NAME, Facts
from ldp_kafka.runtime.recovery.start import Refusal, rewound, skipped
from ldp_kafka.runtime.wire.records import header_of
from ldp_kafka.topology import Topology
from ldp_kafka.topology.roles import Agent, Role

__all__ = [
    "Move",
    "Plan",
    "alone",
    "plan_rewind",
    "read_partitions",
    "read_state",
    "rewind",
    "skip",
    "verify_state",
]

PATIENCE = 3.0  # seconds beyond a session's end


class Move(NamedTuple):
    """One committed offset that has to be another one."""

    table: str
    topic: str
    partition: int
    committed: int | None
    to: int
    metadata: str = ""
    """What is committed with it."""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {name: value for name, value in self._asdict().items() if name != "metadata"}


class Plan(NamedTuple):
    """What a rewind would do, or a skip."""

    moves: list[Move]
    refusals: list[str]
    """Why it may not; nothing is moved unless this is empty."""


def read_state(
    topology: Topology, roles: Sequence[str] | None = None, *, key: bytes | Keyring | None = None
) -> list[Held]:
    """Every partition of these roles' tables, looked at twice where something is wrong at first: a
    changelog that is compacted while it is read shows what never was.

    Parameters
    ----------
    roles : of the topology's, only their sides' clusters are asked; None: all
    key : the edge's; None: it is not compared, and what the edge has sealed stays sealed

    Raises
    ------
    ConfigurationError : no such role; a topic or a setting is missing
    BrokerError : a broker did not answer
    """
    asked = [topology.role(role) for role in roles] if roles is not None else topology.roles
    found = _tables(topology, asked, key)
    return _tables(topology, asked, key) if any(held.violations for held in found) else found


def verify_state(
    topology: Topology, roles: Sequence[str] | None = None, *, key: bytes | Keyring | None = None
) -> list[Held]:
    """The same. ConfigurationError where the edge's key is missing."""
    for role in topology.roles if roles is None else map(topology.role, roles):
        _need_key(role, key)
    return read_state(topology, roles, key=key)


def _need_key(role: Role, key: bytes | Keyring | None) -> None:
    if role.needs_key and key is None:
        raise ConfigurationError(
            f"role {role.name}: its state is sealed: this needs the edge's key"
        )


def _tables(topology: Topology, roles: Sequence[Role], key: bytes | Keyring | None) -> list[Held]:
    """Each partition of each table, as it looks now."""
    return [
        inspect(topology, spec, records, facts)
        for role in roles
        for spec in role.agents
        for facts, records in read_partitions(topology, role, spec, key=key)
    ]


def read_partitions(
    topology: Topology, role: Role, spec: Agent, *, key: bytes | Keyring | None
) -> Iterator[tuple[Facts, dict[Key, bytes]]]:
    """The facts of each partition of a table, and what its changelog holds.

    Parameters
    ----------
    key : the edge's; None: it is not compared, and what the edge has sealed stays sealed
    """
    own = client_config(topology, role.side)
    # Whether the edge has answered is asked of the collector's cluster, which its role can reach
    offsets = GroupOffsets(
        topology, role.name, role.agents, own, client_config(topology, "collector")
    )
    # What was acknowledged is in the changelog by then; what the state has is in the log by then
    before = [read_facts(offsets, spec, number) for number in range(spec.partitions)]
    records = compacted(own, role.changelog(spec.name))
    bindings = {"fingerprint": topology.fingerprint, "layout": topology.layout}
    seal = None
    if not spec.raw:
        bindings |= {"deployment": "", "key": ""}
    else:
        deployment = bindings["deployment"] = read_deployment(topology, own)
        if key is not None:
            seal = edge_randomness(topology, key, deployment).seal
            bindings["key"] = seal.check
    for facts in before:
        end = offsets.position(spec.topic, facts.partition).end
        position = facts.position._replace(end=end)
        yield replace(facts, position=position, bindings=bindings, seal=seal), records


def plan_rewind(held: Held, facts: Facts, found: Sequence[Checkpoint], first: int = 0) -> Plan:
    """What a rewind does for one partition.

    Parameters
    ----------
    held : what was seen in the state; nothing is set back to one that is damaged
    facts, found : of the partition, see `recovery.start.decide`
    first : the first offset that the stage folds where it begins anew
    """
    to = rewound(facts, found, first)
    if to is None:
        return Plan([], [])
    if isinstance(to, Refusal):
        return Plan([], [str(to)])
    if damaged := [broken.text for broken in held.violations if broken.rule in DAMAGE]:
        return Plan([], [f"{facts.where}: {text}" for text in damaged])
    committed = facts.position.committed
    assert committed is not None
    return Plan([Move(held.table, facts.topic, facts.partition, committed, to)], [])


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


def rewind(topology: Topology, role: str, *, do: bool, key: bytes | Keyring | None = None) -> Plan:
    """Set a role's committed offsets back to the offset after its checkpoint, where they are ahead.

    Parameters
    ----------
    do : False: only say what would be done

    Raises
    ------
    ConfigurationError : the edge's key is missing
    StateError : the group has members
    BrokerError : a broker did not answer
    """
    back = topology.role(role)
    _need_key(back, key)
    own, group = client_config(topology, back.side), back.group
    if do:
        alone(topology, own, group)
    moves: list[Move] = []
    refusals: list[str] = []
    for spec in back.agents:
        for facts, records in read_partitions(topology, back, spec, key=key):
            found = checkpoints(records, facts.partition, facts.seal)
            anew = latest(found) is None and _headed(own, spec.topic, facts.partition)
            held = inspect(topology, spec, records, facts)
            made = plan_rewind(held, facts, found, 1 if anew else 0)
            moves += made.moves
            refusals += made.refusals
    if do and not refusals:
        for move in moves:
            _commit(own, group, move)
    return Plan(moves, refusals)


def plan_skip(held: Held, facts: Facts, found: Sequence[Checkpoint], reported: int | str) -> Plan:
    """What a skip does for one partition of the raw log.

    Parameters
    ----------
    held, facts, found : as of `plan_rewind`
    reported : the number of the last bound of which reports were sent, -1 if there is none; or why
        it is not known
    """
    to = skipped(facts, found)
    if to is None:
        return Plan([], [])
    if isinstance(to, Refusal):
        return Plan([], [str(to)])
    why = [broken.text for broken in held.violations if broken.rule in DAMAGE]
    if (chosen := latest(found)) is not None:
        had = chosen.meta["state"].get("bound")
        ahead = any(offset > chosen.offset for offset, _ in chosen.state.values())
        if isinstance(reported, str):
            why.append(reported)
        elif had is None or reported > had or ahead:
            why.append(
                "reports were drawn of what is lost that the state does not have: they are in no"
                f" ledger, and could be drawn again; {NEW_NAME}"
            )
    if why:
        return Plan([], [f"{facts.where}: {text}" for text in why])
    assert to.committed is not None
    lost, told = (to.skipped, f"{SKIPPED}{to.skipped}") if chosen else (None, BEGUN)
    return Plan([Move(held.table, facts.topic, facts.partition, lost, to.committed, told)], [])


def skip(topology: Topology, *, do: bool, key: bytes | Keyring | None = None) -> Plan:
    """Have whoever folds the raw log go on behind what the log has lost, where all that was
    reported is in the state: no (user, slot) is drawn twice then, and every ledger goes on.

    Parameters
    ----------
    do : False: only say what would be done

    Raises
    ------
    ConfigurationError : the edge's key is missing, or there is no raw log
    StateError : the group has members
    BrokerError : a broker did not answer
    """
    role, spec = topology.reader(topology.raw_topic)
    _need_key(role, key)
    own = client_config(topology, role.side)
    if do:
        alone(topology, own, role.group)
    moves: list[Move] = []
    refusals: list[str] = []
    for facts, records in read_partitions(topology, role, spec, key=key):
        made = plan_skip(
            inspect(topology, spec, records, facts),
            facts,
            checkpoints(records, facts.partition, facts.seal),
            _reported(topology, facts.partition),
        )
        moves += made.moves
        refusals += made.refusals
    if do and not refusals:
        for move in moves:
            _commit(own, role.group, move)
    return Plan(moves, refusals)


def _reported(topology: Topology, partition: int) -> int | str:
    """The number of the last bound of which a partition's edge has sent reports; or why that is not
    known. The collector's state has it, however old the reports are: it never goes back, and lies
    in a compacted topic.
    """
    reports = topology.flow.reports
    if reports is None:
        return f"what its curator has released is known to nobody; {NEW_NAME}"
    role, spec = topology.reader(reports.name)
    config = client_config(topology, role.side)
    _, end = admin.watermarks(config, reports.name, partition)
    offsets = GroupOffsets(topology, role.name, role.agents, config, config)
    counted = offsets.newest(spec, [partition], None).get(partition)
    if end > topology.answers_begin and (counted is None or counted.offset < end - 1):
        return (
            f"the collector has not counted all reports, which go to offset {end - 1} of"
            f" {reports.name}: run it (`ldp-kafka run --role {role.name}`), and do this again"
        )
    return -1 if counted is None else int(counted.meta["state"]["last"][0])


def _commit(config: Config, group: str, move: Move) -> None:
    try:
        admin.commit(config, group, move.topic, {move.partition: move.to}, metadata=move.metadata)
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
        return header_of(record.value or b"") is not None
    return False
