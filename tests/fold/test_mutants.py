"""Every rule of the recipe is needed: without it a named script ends with a named complaint, and
with it the same script ends with none.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fold import cases
from tests.fold.driver import Recipe
from tests.fold.mutants import COLLECT_MUTANTS, EDGE_MUTANTS
from tests.fold.scripts import (
    SCRIPTS,
    collect_world,
    crash_before_snapshot,
    edge_world,
    finish,
    keep,
    play,
    pure_releases,
)
from tests.fold.test_recovery import CHUNKS


@pytest.mark.parametrize("chunk", [0, 1])
@pytest.mark.parametrize("name", EDGE_MUTANTS)
def test_broken_edge_is_found(name, chunk, monkeypatch):
    """In a script that `test_named_fault` plays with the recipe as it is; also where what is
    acknowledged is one number a partition.
    """
    mutant = EDGE_MUTANTS[name]
    assert mutant.script in SCRIPTS.values() and chunk in CHUNKS
    mutant.patch(monkeypatch)
    assert mutant.complaint in play(mutant.script, replace(mutant.recipe, chunk=chunk))


@pytest.fixture(scope="module")
def written():
    """A reports topic of two partitions with repeats: its writers died twice."""
    with edge_world(cases.orderly(2)) as world:
        crash_before_snapshot(world)
        worker = world.begin(0, 1)
        worker.deliver(0, 5)
        worker.deliver(1, 11)
        keep(worker, 0)
        world.survivor()
        assert world.watch.judge(world) == set()
        reports = [world.topics["fold.reports", number] for number in range(2)]
        assert len(pure_releases(world.watch)) > 20
    assert all(len({record.value for record in records}) < len(records) for records in reports)
    return reports


@pytest.mark.parametrize("name", COLLECT_MUTANTS)
def test_broken_collector_is_found(name, written):
    """The same over a reports topic."""
    mutant = COLLECT_MUTANTS[name]
    assert finish(collect_world(2, written, Recipe()), mutant.script) == set()
    assert mutant.complaint in finish(collect_world(2, written, mutant.recipe), mutant.script)
