"""The stages of a topology whose coordinator asks, through every crash, zombie and rebalance: no
report is second, none is lost, and every decision is the straight fold's.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from ldp_kafka.accounting import NEVER
from ldp_kafka.methods.protocols.coordinator import Adaptive
from ldp_kafka.runtime.stages.slot_sums import SlotSums
from tests.depth import depth
from tests.fold import cases
from tests.fold.driver import Recipe
from tests.fold.mutants import AllShardsAtMeta, Fresh, OffsetOfMeta, takes_all
from tests.fold.phases import AGENTS, broken, case, world
from tests.fold.scripts import SCRIPTS, finish
from tests.fold.test_recovery import (
    FAULTS,
    awaits,
    crash,
    crash_as_it_arrives,
    crash_out_of_order,
    disturbed,
    random_script,
    wild_script,
)
from tests.runtime.stages.crashes import of_kind
from tests.runtime.stages.twins import AsksAgain, ForgetsWhatIsAhead, KeepsNoPanes

PROTOCOLS = ["lpa", "lbd"]
CASES = [
    *((name, agent, "first") for name in PROTOCOLS for agent in AGENTS),
    *((name, "perturb", "last") for name in PROTOCOLS),
]
"""Of a protocol the agent, and which value of a slot counts: all is the same behind the edge."""
SLOTS = depth(3, 6)  # before the jump
APART = depth(5, 1)  # of the awaits at which a fault comes
SCRIPTED = depth(5, 150)  # random scripts


def lone(name, agent, slots, how, partitions=1):
    """The world of an agent."""
    return world(case(name, partitions, slots, twice=agent != "perturb", per_slot=how), agent)


@pytest.mark.parametrize(("name", "agent", "how"), CASES)
def test_named_faults(name, agent, how):
    """Each by itself."""
    given = case(name, 1, SLOTS, twice=agent != "perturb", per_slot=how)
    for script in SCRIPTS.values():
        assert finish(world(given, agent), script) == set(), script.__name__


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("name", "agent", "how"), CASES)
def test_at_every_await(name, agent, how, fault):
    """The fault comes at points of the undisturbed routine; in the long run at each of them."""
    given = case(name, 1, SLOTS, twice=agent != "perturb", per_slot=how)
    count = awaits(lone, name, agent, SLOTS, how)
    assert count >= 20
    first = FAULTS.index(fault) % APART  # so that all faults together come at each
    for at in range(first, count, APART):
        assert finish(world(given, agent), disturbed(fault, at)) == set(), f"at await {at}"


@pytest.mark.parametrize(("name", "agent", "how"), CASES)
def test_random_scripts(name, agent, how):
    """Two partitions where the agent has several, and any order of all faults."""
    random = Random(f"{name} {agent}")
    given = case(name, 2, SLOTS, twice=agent != "perturb", per_slot=how)
    for number in range(SCRIPTED):
        steps = random_script(random)
        assert finish(world(given, agent), wild_script(steps)) == set(), (number, steps)


# broken stages


class ForgetsWhatIsSettled:
    """An edge that takes a new owner's slots for open as far as they can be."""

    def load(self, meta, shards):
        return super().load({**meta, "settled": NEVER}, shards)


class ForgetsWhatWasAsked:
    """An edge whose new owner knows of no request."""

    def load(self, meta, shards):
        return super().load({**meta, "history": []}, shards)


class HoldsForEver:
    """An edge that keeps what it held for a slot that is settled."""

    PART = "requested"

    def forget(self, *_):
        return


class FreshNoise:
    """An edge that draws anew whatever it folds again."""

    @property
    def randomness(self):
        plain = self.__dict__["randomness"]
        context = bytes.fromhex(self.fingerprint) + cases.HERE.encode()
        noise = Fresh(cases.KEY, context=context)
        noise.deployment, noise.seal = cases.HERE, plain.seal
        return noise


class SharesPhases:
    """A stage that reads the shards of both phases into each."""

    def load(self, meta, shards):
        of_first = {name: each for name, each in shards.items() if name.startswith("0.")}
        twice = {f"1.{name[2:]}": each for name, each in of_first.items()}
        return super().load(meta, {**shards, **twice})


class ForgetsSecondPhase:
    """A collector whose new owner does not know how far the second phase is closed."""

    def load(self, meta, shards):
        second = {**meta["second"], "closed": None}
        return super().load({**meta, "second": second}, shards)


class CountsSecondPhaseAgain:
    """A stage that adds what a slot shard of the second phase has counted before."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.phases[1].sums.__class__ = type("Twice", (SlotSums,), {"takes": takes_all})
        return state


class SettlesFromFirstPhase:
    """A collector that closes the second phase with the first."""

    def _close(self, state, batch, output):
        super()._close(state, batch, output)
        if batch.closed is not None:
            self._phases[1].close(state.phases[1], batch.closed, output)


class ForgetsWhatWasSpent:
    """A coordinator whose new owner's window has cost nothing."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.rounds.spent = []
        return state


class ForgetsTheRound:
    """A coordinator whose new owner does not wait for what was asked."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.rounds.asked = None
        return state


class TellsNobody:
    """A coordinator that does not note that its state changed."""

    def dirty(self, state):
        del state
        return set()


def kind_of(other):
    """A recipe whose stages, or a part of them, are of this kind, beside their own."""
    if hasattr(other, "PART"):
        return Recipe(stage=partial(of_kind, other))
    return broken(lambda kind: type(other.__name__, (other, kind), {}))


MUTANTS = {
    AsksAgain: ("lbd", "perturb", "state"),
    ForgetsWhatIsSettled: ("lbd", "perturb", "state"),
    ForgetsWhatWasAsked: ("lpa", "perturb", "state"),
    HoldsForEver: ("lbd", "perturb", "state"),
    ForgetsWhatIsAhead: ("lbd", "perturb", "state"),
    FreshNoise: ("lpa", "perturb", "second report"),
    SharesPhases: ("lbd", "collect", "different record"),
    ForgetsSecondPhase: ("lbd", "collect", "different record"),
    CountsSecondPhaseAgain: ("lbd", "collect", "different record"),
    SettlesFromFirstPhase: ("lbd", "collect", "different record"),
    ForgetsWhatWasSpent: ("lbd", "coordinate", "different record"),
    ForgetsTheRound: ("lbd", "coordinate", "different record"),
    TellsNobody: ("lbd", "coordinate", "missing record"),
}


AT_CLOSE = {
    **{
        mutant: of
        for mutant, of in MUTANTS.items()
        if of[1] == "perturb" and mutant is not ForgetsWhatIsAhead
    },
    KeepsNoPanes: ("lbd", "perturb", "missing report"),
}
"""Of an edge that takes a slot's values together. Logs of many slots, which the stage's own tests
have, find one that forgets what is ahead: with these no shard is ahead of a close by ``hold``.
"""


def found(name, agent, recipe, complaint, partitions=1, per_slot="first"):
    """Whether this is said at a crash at one await or another."""
    given = case(name, partitions, 3, twice=agent != "perturb", per_slot=per_slot)
    count = awaits(lone, name, agent, 3, per_slot, partitions)
    return any(
        complaint in finish(world(given, agent, recipe), disturbed(how, at))
        for at in range(count)
        for how in (crash_as_it_arrives, crash_out_of_order, crash)
    )


@pytest.mark.parametrize("mutant", MUTANTS)
def test_broken_stages_are_found(mutant):
    """A crash at one of the awaits shows what is wrong."""
    name, agent, complaint = MUTANTS[mutant]
    assert found(name, agent, kind_of(mutant), complaint)


@pytest.mark.parametrize("mutant", AT_CLOSE)
def test_broken_stages_are_found_where_values_wait(mutant):
    """The same, and what is wrong with panes."""
    name, agent, complaint = AT_CLOSE[mutant]
    assert found(name, agent, kind_of(mutant), complaint, per_slot="last")


def test_a_merger_that_adds_the_second_phase_twice_is_found():
    """Sums of a slot that waits for another source come twice where they are ahead of meta."""
    recipe = kind_of(CountsSecondPhaseAgain)
    assert found("lbd", "merge", recipe, "different record", partitions=2)


@pytest.mark.parametrize(
    ("recipe", "complaint", "how"),
    [
        (Recipe(stage=AllShardsAtMeta), "counted", "first"),
        (Recipe(OffsetOfMeta), "state", "first"),
        (Recipe(OffsetOfMeta), "state", "last"),
    ],
)
def test_offsets_of_shards_matter_at_the_edge(recipe, complaint, how):
    """As with any edge, where shards are ahead of meta."""
    assert found("lbd", "perturb", recipe, complaint, per_slot=how)


def test_a_publication_that_is_waited_for_is_state(monkeypatch):
    """A coordinator that is killed between its request and the answer publishes all the same."""
    plain = Adaptive.restore

    def restore(self, saved):
        plain(self, {**saved, "cost": 0})

    monkeypatch.setattr(Adaptive, "restore", restore)
    assert found("lbd", "coordinate", Recipe(), "different record")
