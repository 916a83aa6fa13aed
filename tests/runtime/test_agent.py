"""Where a tenure of a partition begins, and where it must not; the rest of the agent is in
tests/broker.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka.group_offsets import Position
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.worker.agent import Agent
from ldp_kafka.topology import loads

TEXT = """
topology: t
input: {{slot: 1m, partitions: 2, create: {create}}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""
EVENT = b'{"user": "a", "value": 1, "time": 1760000040}'


def agent(position, *, role="perturb", create="true", reported=False, table=None, changelog=None):
    """The first agent of a role, whose group stands where it is told, over a table; ``changelog``
    is what the broker has, where that is more.
    """
    topology = loads(TEXT.format(create=create))
    standing = SimpleNamespace(
        position=lambda *_: Position(*position),
        reported=lambda *_: reported,
        first=lambda *_: None,
        table=lambda *_: changelog or table or {},
    )
    worker = SimpleNamespace(app=MagicMock(), topology=topology, standing=standing)
    make = (
        (lambda n: make_perturb(topology, n, edge_randomness(topology, bytes(32))))
        if role == "perturb"
        else (lambda n: roles.make(topology, "collect", n))
    )
    made = Agent(worker, topology.role(role).agents[0], make)
    made.table.data = table or {}
    return made


def state(cover, role="perturb"):
    """A changelog whose state covers this offset."""
    owned = agent((None, cover, cover + 1, False), role=role).load(0)
    owned.partition.admit(cover)
    owned.partition.fold([Message(cover, 1_760_000_040_000, EVENT)])
    snapshot = owned.partition.snapshot()
    return {**snapshot.shards, snapshot.meta[0]: snapshot.meta[1]}


BEFORE_US = [(None, 5, 9, False), (5, 5, 9, True), (5, 7, 9, True), (5, 5, 5, True)]


@pytest.mark.parametrize("create", ["true", "false"])
@pytest.mark.parametrize("position", BEFORE_US)
def test_what_expired_before_the_first_start_is_nobodys_loss(create, position):
    """A raw topic that was there before us begins where it begins, whoever may create it."""
    partition = agent(position, create=create).load(0).partition
    assert (partition.want, partition.cover) == (position[1], -1)


@pytest.mark.parametrize("create", ["true", "false"])
@pytest.mark.parametrize("position", [(None, 5, 9, False), (5, 7, 9, True)])
def test_what_expired_after_a_report_is_a_loss(create, position):
    """Somebody has folded what is gone, and its state is gone with it."""
    with pytest.raises(
        StateError, match=r"no state covers what was before it.*`ldp-kafka state inspect`"
    ):
        agent(position, create=create, reported=True).load(0)


def test_a_crash_before_the_first_snapshot_is_no_loss():
    """Reports went out, nothing was kept, and the log still has all of it."""
    assert agent((5, 5, 9, True), reported=True).load(0).partition.want == 5


@pytest.mark.parametrize("begun", [False, True])
def test_what_no_state_covers_is_a_loss(begun):
    """There is a state, but not of all that is gone."""
    table = state(4)
    assert agent((5, 5, 9, False), table=table).load(0).partition.cover == 4
    with pytest.raises(StateError, match="no state covers"):
        agent((None, 6, 9, False), table=table).load(0)
    with pytest.raises(StateError, match="no state covers"):
        (
            agent((6, 6, 9, begun), table=table).load(0)
            if begun
            else agent((None, 7, 9, False), table=table).load(0)
        )


def test_what_was_acknowledged_must_be_covered_and_there():
    """As ever: a committed offset is a promise."""
    with pytest.raises(StateError, match=r"no complete state.*`ldp-kafka state rewind`"):
        agent((5, 5, 9, False)).load(0)
    with pytest.raises(StateError, match="lost before they were read"):
        agent((1, 5, 9, False)).load(0)
    with pytest.raises(StateError, match="lost before they were read"):
        agent((5, 6, 9, False), table=state(4)).load(0)


def test_a_log_of_ours_has_no_expired_beginning():
    """Reports that are gone were somebody's."""
    with pytest.raises(StateError, match="no state covers"):
        agent((None, 5, 9, False), role="collect").load(0)


@pytest.mark.parametrize("table", [{}, "older"], ids=["empty", "old"])
def test_a_worker_that_slept_reads_its_changelog_again(table):
    """Its table is behind; the changelog is not: nothing is lost, and no topology has to halt.
    Where the changelog is behind too, it has.
    """
    older, newer = state(3), state(6)
    table = older if table else {}
    with pytest.raises(BrokerError, match="behind its changelog"):
        agent((6, 0, 9, False), table=table, changelog=newer).load(0)
    with pytest.raises(StateError):
        agent((6, 0, 9, False), table=table, changelog=older).load(0)
    assert agent((6, 0, 9, False), table=newer).load(0).partition.cover == 6


class MessageTooLarge(Exception):
    """As Faust's client has it; its text might show a value."""


class TopicAuthorizationFailedError(Exception):
    """The same."""


@pytest.mark.parametrize(
    ("kind", "raised"),
    [(MessageTooLarge, BrokerError), (TopicAuthorizationFailedError, ConfigurationError)],
)
def test_a_changelog_that_takes_nothing_ends_the_worker_before_anything_is_acknowledged(
    kind, raised
):
    """A limit of the broker's may be put right meanwhile; a right that is missing has
    to be given.
    """
    made, done = agent((None, 0, 9, False)), []
    owned = made.load(0)
    owned.partition.admit(0)
    owned.partition.fold([Message(0, 1_760_000_040_000, EVENT)])
    owned.waiting = [SimpleNamespace(ack=lambda: done.append("acknowledged"))]

    async def settled(_mark) -> None:
        done.append("settled")

    async def refused(*_, **__) -> None:
        raise kind("secret")

    made.worker.settle, made.table.send_changelog, made.parts = settled, refused, {0: owned}
    with pytest.raises(
        raised,
        match=rf"the changelog of perturb did not take a record of [\d,]+ bytes: {kind.__name__}$",
    ):
        asyncio.run(made.persist(owned, owned.partition.snapshot(), []))
    assert done == ["settled"]
