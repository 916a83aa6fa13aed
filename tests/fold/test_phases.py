"""The stages of a topology whose coordinator asks, through every crash, zombie and rebalance: no
report is second, none is lost, and every decision is the straight fold's.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.depth import depth
from tests.fold import phases, scripts
from tests.fold.driver import Recipe
from tests.fold.mutants import fresh_noise
from tests.fold.phases import AGENTS, case, world
from tests.fold.scripts import SCRIPTS, finish
from tests.fold.test_recovery import (
    crash,
    crash_as_it_arrives,
    crash_out_of_order,
    disturbed,
    leave,
    points,
    random_script,
    rebalance,
    rebalance_and_back,
    wild_script,
    zombie,
    zombie_then_crash,
)

FAULTS = [
    crash,
    crash_as_it_arrives,
    crash_out_of_order,
    zombie,
    zombie_then_crash,
    rebalance,
    rebalance_and_back,
    leave,
]
PROTOCOLS = ["lpa", "lbd"]
SLOTS = depth(3, 6)  # before the jump
APART = depth(4, 1)  # of the awaits at which a fault comes
SCRIPTED = depth(5, 150)  # random scripts


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_named_faults(name, agent):
    """Each by itself."""
    given = case(name, 1, SLOTS, twice=agent != "perturb")
    for script in SCRIPTS.values():
        assert finish(world(given, agent), script) == set(), script.__name__


@pytest.mark.parametrize("how", FAULTS)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_at_every_await(name, agent, how):
    """The fault comes at points of the undisturbed routine; in the long run at each of them."""
    given = case(name, 1, SLOTS, twice=agent != "perturb")
    count = sum(1 for _ in points(lambda: world(given, agent)))
    assert count >= 20
    first = FAULTS.index(how) % APART  # so that all faults together come at each
    for at in range(first, count, APART):
        assert finish(world(given, agent), disturbed(how, at)) == set(), f"at await {at}"


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_random_scripts(name, agent):
    """Two partitions where the agent has several, and any order of all faults."""
    random = Random(f"{name} {agent}")
    given = case(name, 2, SLOTS, twice=agent != "perturb")
    for number in range(SCRIPTED):
        steps = random_script(random)
        assert finish(world(given, agent), wild_script(steps)) == set(), (number, steps)


# broken stages


def without(*names):
    """Meta lacks these, and what is loaded has what a fresh state has."""

    def change(kind):
        class Forgets(kind):
            def meta(self, state):
                return {
                    name: what for name, what in super().meta(state).items() if name not in names
                }

            def load(self, meta, shards):
                fresh = super().meta(self.fresh())
                return super().load({**fresh, **meta}, shards)

        return Forgets

    return phases.broken(change)


def overriding(**methods):
    """A stage with other methods, which are given those of the stage."""

    def change(kind):
        made = {
            name: (lambda how: lambda self, *given: how(super(broken, self), *given))(how)
            for name, how in methods.items()
        }
        broken = type("Broken", (kind,), made)
        return broken

    return phases.broken(change)
