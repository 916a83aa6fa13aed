"""All brokers are away for a while, at every moment of a worker's life: no process ends, nothing is
lost or second, and releases are late by the outage and one session at most.

Processes are those of `ldp-kafka run T.yaml --role R`, over a cluster of the test's own. Its nodes
are frozen, so that connections hang, or stopped and started again, so that they are refused. Each
topology is doing something else when they go, see `outages.phases`; that it was is seen from
outside. Usually two outages on one node, in drawn phases; with LDP_KAFKA_LONG=1 all of them, by
`-k`: `LDP_KAFKA_LONG=1 pytest tests/broker/test_outages.py -k "3-frozen-290 and recovery"` has only
the topologies of that phase. How soon a backlog of minutes is worked off is a matter of processors:
two of them do not work off all topologies' of ``3-frozen-290`` within one session, and `folding` is
asked for by itself there. Nothing else may run beside a cell of three nodes.
"""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

import pytest

from tests.broker.chaos.run import seed
from tests.broker.cluster import FROZEN
from tests.broker.outages.found import Found, find
from tests.broker.outages.subjects import SESSION
from tests.broker.outages.world import Outage, OutageWorld
from tests.broker.passed import note

# see `Questions.group`
pytestmark = pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")
GROWN = 64 * 2**20  # bytes that a worker may take more than before: a fetch and what comes of it
HOWS = (FROZEN, "stopped")
USUAL = 30.0  # seconds late that a release may be without an outage: else nothing can be told
LENGTHS = (1, 10, 60, 290)  # seconds
EITHER = ("singles", "batches")
PHASES = ("idle", "folding", "snapshot", "recovery", "rebalance", "round")
IN = {phase: (phase,) for phase in PHASES} | {"rebalance": ("rebalance", "leave")}
"""Of each, the phases of topologies that are in it."""


class Cell(NamedTuple):
    """One cluster, and how long its nodes are away, and how."""

    nodes: int
    how: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.nodes}-{self.how}-{self.seconds:g}"

    @property
    def plays(self) -> dict[str, list[tuple[str, str]]]:
        """By phase, the topologies that are in it: (kind, phase). Single events and batches are in
        all of them, one where brokers are frozen and the other where they are stopped.
        """
        at = HOWS.index(self.how)
        one, other = EITHER[at], EITHER[1 - at]
        asked = ("asked", "asked-singles")[at]
        crowd = ("crowd", "crowd-singles")[at]
        joins = (self.nodes // 2 + LENGTHS.index(self.seconds)) % 2 == 0
        return {
            "idle": [(other, "idle")],
            "folding": [(one, "folding"), (other, "folding")],
            "snapshot": [(one, "snapshot")],
            "recovery": [(other, "recovery"), ("curator", "recovery")],
            "rebalance": [(one, "rebalance") if joins else (crowd, "leave")],
            "round": [(asked, "round")],
        }


CELLS = [Cell(*each) for each in product((1, 3), HOWS, LENGTHS)]


def judged(found: Found, outages: list[Outage]) -> None:
    """Everything that must hold of one topology."""
    assert not found.exits, found
    assert not found.wrong, found
    assert found.folded > 100, found
    assert 0 < found.usual <= USUAL, f"the machine is too busy: {found}"
    for late, outage in zip(found.late, outages, strict=True):
        assert late <= outage.cost + SESSION, (found, outage)
    assert found.grown <= GROWN, found
    assert not found.unsaid, found
    assert not found.dead, found


def all_of(world: OutageWorld) -> list[Found]:
    """What came of a world, once all is settled; also where workers have ended."""
    for subject in world.subjects:
        subject.revive()
    world.calm()
    world.say("all follow their input")
    world.settle()
    world.say("all is folded, and workers have ended")
    found = [*find(world).values()]
    for each in found:
        world.say(str(each))
    assert not world.feed.lost
    return found


@pytest.fixture(scope="module")
def found(request, can_start, tmp_path_factory) -> tuple[list[Found], list[Outage]]:
    """What came of one cell: the phases that are asked for, at once."""
    cell: Cell = request.param
    asked = [
        item.callspec.params["phase"]
        for item in request.session.items
        if getattr(item, "callspec", None) and item.callspec.params.get("found") == cell
    ]
    plays = [play for phase in PHASES if phase in asked for play in cell.plays[phase]]
    tmp = tmp_path_factory.mktemp(f"outage-{cell}".replace(".", ""))
    with OutageWorld(tmp, f"outage-{tmp.name[-6:]}", cell.nodes, plays, seed()) as world:
        world.calm()
        world.rehearse()
        world.outage(cell.how, cell.seconds)
        return all_of(world), world.outages


@pytest.mark.long
@pytest.mark.parametrize("found", CELLS, ids=str, indirect=True)
@pytest.mark.parametrize("phase", PHASES)
def test_an_outage_costs_nothing(found, phase, request):
    """In no phase, on one node or three, however long."""
    cases, outages = found
    mine = [each for each in cases if each.phase in IN[phase]]
    assert mine
    for each in mine:
        judged(each, outages)
    note(request.node.name, 1, "; ".join(map(str, [*outages, *mine])))


def test_two_outages_in_drawn_phases(can_start, tmp_path, prefix):
    """A short one that freezes and a longer one that refuses, of every kind of topology."""
    rnd = random.Random(number := seed())
    print(f"seed {number}")
    kinds = ("singles", "batches", "curator")
    phases = [*PHASES[:-1], "leave"]

    first, second = ([*rnd.sample(phases, len(kinds)), "round"] for _ in range(2))
    plays = [*zip((*kinds, "asked"), first, strict=True)]
    with OutageWorld(tmp_path, prefix, 1, plays, number) as world:
        world.calm()
        world.rehearse()
        world.outage("stopped", 45)
        for subject, phase in zip(world.subjects, second, strict=True):
            subject.revive()
            subject.phase = phase
        world.calm()
        world.rehearse()
        world.outage("frozen", 10)
        cases, outages = all_of(world), world.outages
    for each in cases:
        judged(each, outages)


@pytest.mark.long
def test_a_rolling_restart_costs_nothing(can_start, tmp_path, prefix, request):
    """Three nodes end in order one after the other, each when the one before is in sync again;
    twice round, under load.
    """
    kinds = ("singles", "batches", "crowd", "asked", "curator")
    with OutageWorld(tmp_path, prefix, 3, [(kind, "folding") for kind in kinds], seed()) as world:
        world.calm(12.0)
        world.roll()
        world.roll()
        cases, outages = all_of(world), world.outages
    assert len(outages) == 6
    for each in cases:
        judged(each, outages)
    note(request.node.name, 1, "; ".join(map(str, [*outages, *cases])))
