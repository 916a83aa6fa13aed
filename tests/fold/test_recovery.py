"""The recipe as it is: no script of faults makes a second report, loses one, or makes a release
that the straight fold does not make.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from random import Random

import pytest

from tests.depth import depth
from tests.fold import cases
from tests.fold.driver import Halt, Recipe, World
from tests.fold.mutants import EDGE_MUTANTS, SLOT_MUTANTS
from tests.fold.scripts import (
    SCRIPTS,
    collect_world,
    edge_world,
    finish,
    keep,
    merge_world,
    one_source_behind,
    play,
    pure_releases,
    routine,
)

CHUNKS = [0, 1, 3, 100]  # messages that come together
SCRIPTED = depth(40, 3000)  # random scripts at the edge
CHAINED = depth(6, 120)  # random scripts through edge, collectors and merger
SLOTS = depth(4, 8)  # of the routine that is disturbed
POINTS = depth(12, 30)  # of it, undisturbed, at least: awaits and commits
# the second crashes at the edge: over three first ones, every await is one
APART = depth(3, 1)
# of the second crashes of collector and merger: over all first ones, every await is one
STRIDE = depth(13, 2)


@pytest.mark.parametrize("statistics", cases.BOTH)
@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("name", SCRIPTS)
def test_named_fault(name, header, chunk, statistics):
    """Each fault by itself, on a log of ours and on a foreign one without a committed offset;
    messages come one by one, and in chunks.
    """
    assert play(SCRIPTS[name], Recipe(chunk=chunk), header=header, statistics=statistics) == set()


def test_undisturbed():
    """The routine that the exhaustive tests disturb takes at least three snapshots, and folds at
    awaits of theirs.
    """
    world = edge_world(cases.orderly(1, SLOTS))
    metas = []

    def script(world):
        worker = world.begin(0)
        metas.extend(
            frozenset(value for key, value in world.changelog.items() if "meta" in key)
            for _ in routine(worker, 0)
        )

    assert finish(world, script) == set()
    assert len(set(metas)) > 3
    assert world.waited > POINTS


def crash(world, worker, steps):
    """SIGKILL; a new owner."""
    worker.crash()
    for _ in routine(world.begin(0), 0):
        pass


def crash_as_it_arrives(world, worker, steps):
    """What was awaited had come about, unknown to the worker."""
    if worker.waits:
        worker.waits[0].come()
    crash(world, worker, steps)


def crash_out_of_order(world, worker, steps):
    """Of the shards that were written together, the last has arrived and no other."""
    if worker.waits:
        worker.waits[-1].come()
    crash(world, worker, steps)


def zombie(world, worker, steps):
    """A new owner, and both go on in turn."""
    new = routine(world.begin(0), 0)
    while next(new, steps) is not steps or next(steps, steps) is not steps:
        next(steps, None)


def zombie_then_crash(world, worker, steps):
    """The new owner goes first for a while and dies after three steps of the zombie."""
    new = world.begin(0)
    for _ in islice(routine(new, 0), 9):
        pass
    for _ in islice(steps, 3):
        pass
    new.crash()
    for _ in islice(routine(world.begin(0), 0), 4):
        pass
    for _ in steps:
        pass


def rebalance(world, worker, steps):
    """The same worker is given the partition again in the middle of it, and goes on."""
    worker.assign(0)
    for _ in islice(steps, 8):
        pass


def rebalance_and_back(world, worker, steps):
    """Another one has it in between."""
    worker.revoke(0)
    other = world.begin(0)
    for _ in islice(routine(other, 0), 7):
        worker.step()
    other.revoke(0)
    worker.assign(0)
    for _ in islice(steps, 9):
        other.step()


def leave(world, worker, steps):
    """SIGTERM, while a snapshot may be under way."""
    worker.leave()
    for _ in islice(routine(world.begin(0), 0), 5):
        pass


def disturbed(how, at):
    """A script that lets the routine run through so many awaits first."""

    def script(world):
        worker = world.begin(0)
        steps = routine(worker, 0)
        for _ in islice(steps, at + 1):
            pass
        how(world, worker, steps)

    return script


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


@pytest.mark.parametrize("how", FAULTS)
@pytest.mark.parametrize("statistics", cases.BOTH)
@pytest.mark.parametrize("chunk", [0, 2])
def test_at_every_await(how, chunk, statistics):
    """The fault comes at each point of the routine in turn."""
    count = awaits(undisturbed, chunk, statistics)
    assert count >= POINTS
    for at in range(count):
        world = undisturbed(chunk, statistics)
        assert finish(world, disturbed(how, at)) == set(), f"at await {at}"


def undisturbed(chunk, statistics):
    """The edge's world."""
    return edge_world(cases.orderly(1, SLOTS), Recipe(chunk=chunk), statistics=statistics)


@cache
def awaits(make, *given):
    """How many points the undisturbed routine has in a world that is made so."""
    return sum(1 for _ in points(lambda: make(*given)))


def points(make):
    """The points of the undisturbed routine."""
    with make() as world:
        yield from routine(world.begin(0), 0)


def test_two_crashes():
    """After a crash at each point of a shorter routine, a second one at each point of the next
    owner's.
    """
    logs = cases.orderly(1, 3)
    for first in range(sum(1 for _ in points(lambda: edge_world(logs)))):
        for second in range(first % APART, 40, APART):
            left = []

            def script(world, first=first, second=second, left=left):
                for at in (first, second):
                    worker = world.begin(0)
                    left[:] = [at - sum(1 for _ in islice(routine(worker, 0), at + 1))]
                    worker.crash()

            assert finish(edge_world(logs), script) == set(), f"at awaits {first} and {second}"
            if left[0] >= 0:
                break
        else:
            pytest.fail("the second owner never came to its end")


STEPS = (
    ["deliver"] * 5
    + ["step"] * 5
    + ["snapshot"] * 3
    + [
        "run",
        "commit",
        "commit",
        "crash",
        "begin",
        "zombie",
        "assign",
        "revoke",
        "skip",
        "again",
        "leftover",
        "leave",
        "gap",
        "in_vain",
        "hold",
        "arrive",
    ]
)


def random_script(random: Random) -> list[tuple[str, int, int]]:
    """Steps for `act`."""
    return [
        (random.choice(STEPS), random.randrange(6), random.randrange(6))
        for _ in range(random.randint(25, 70))
    ]


def act(world: World, step: str, a: int, b: int) -> None:
    """One step of a random script; b chooses the worker among the last three, dead or alive, and a
    the partition.
    """
    number = a % len(world.logs)
    if not world.workers:
        world.begin(*range(len(world.logs)))
    worker = world.workers[-1 - b % min(3, len(world.workers))]
    owner = world.owner[number]
    if step == "begin":
        owner.revoke(number)
        world.begin(number)
    elif step == "zombie":
        world.begin(number)
    elif not worker.alive:
        if not any(each.alive for each in world.workers):
            world.begin(*range(len(world.logs)))
    elif step == "assign":
        worker.assign(number)
    elif number not in worker.next and step in ("deliver", "skip", "again", "leftover"):
        pass
    elif step == "deliver":
        worker.deliver(number, 1 + a)
    elif step == "skip":
        worker.skip(number)
    elif step == "again":
        for offset in range(worker.next[number] - a, worker.next[number]):
            worker.give(number, offset)
    elif step == "leftover":
        worker.give(number, worker.next[number] + a)
    elif step == "revoke":
        worker.revoke(number)
    elif step == "snapshot":
        worker.snapshot(number)
    elif step == "step":
        worker.step(a)
    elif step == "arrive":
        worker.arrive(a)
    elif step == "hold":
        worker.hold, worker.together = not worker.hold, 1 + a
    else:
        getattr(worker, step)()


def wild_script(steps):
    """A script of `act`."""

    def script(world):
        world.begin(*range(len(world.logs)))
        for step in steps:
            act(world, *step)

    return script


def test_random_scripts():
    """Two partitions, all kinds of input, any order of all of these faults."""
    random = Random(1)
    for number in range(SCRIPTED):
        steps = random_script(random)
        for chunk, statistics in zip(random.sample(CHUNKS, 2), cases.BOTH, strict=True):
            logs = cases.wild(number % 4)
            world = edge_world(logs, Recipe(chunk=chunk), statistics=statistics)
            assert finish(world, wild_script(steps)) == set(), (number, steps, chunk, statistics)


@pytest.mark.parametrize(
    "name",
    [
        "no gap check, leftovers",
        "no flush",
        "acknowledged when folded",
        "fresh noise",
        # one script in forty is enough: `test_mutants.py` finds it in every run, by its own script
        *depth([], ["acknowledged after an await"]),
    ],
)
def test_random_scripts_find_mutants(name, monkeypatch):
    """Steps of random scripts do what they are named after: the same kind of script stumbles over
    broken recipes soon. Of those that are scarcely found, one script in forty finds them: none of
    600 does with a probability of 10^-6.
    """
    mutant = EDGE_MUTANTS[name]
    mutant.patch(monkeypatch)
    random = Random(2)
    assert any(
        finish(
            edge_world(cases.wild(number % 4), mutant.recipe), wild_script(random_script(random))
        )
        for number in range(600)
    )


def test_random_scripts_all_the_way():
    """Faults at the edge, then at collectors that read the reports as they were written, then at
    the merger that reads their partials: the releases are the pure ones.
    """
    random = Random(3)
    for number in range(CHAINED):
        logs = cases.wild(number % 4)
        with edge_world(logs) as world:
            play_out(world, random)
            judge, written = (
                world.watch,
                [world.topics["fold.reports", number] for number in range(len(logs))],
            )
        with collect_world(len(logs), written) as world:
            play_out(world, random)
            partials, made = world.topics["fold.partials", 0], released(world)
        with merge_world(len(logs), partials) as world:
            play_out(world, random)
            made |= released(world)
        assert made == pure_releases(judge), number


def play_out(world, random):
    """A random script to its end, without a complaint."""
    steps = random_script(random)
    wild_script(steps)(world)
    world.survivor()
    assert world.watch.judge(world) == set(), steps


def released(world):
    """What came out, whatever the partition."""
    return {
        (record.key, record.value)
        for (topic, _), records in world.topics.items()
        if topic == "fold.releases"
        for record in records
    }


@pytest.fixture(scope="module")
def written():
    """A reports topic with repeats, and the partials topic that a collector with repeats made of
    it.
    """
    with edge_world(cases.orderly(2, depth(3, 6))) as world:
        worker = world.begin(0, 1)
        worker.deliver(0, 9)
        worker.deliver(1, 7)
        keep(worker, 1)
        world.survivor()
        assert world.watch.judge(world) == set()
        reports = [world.topics["fold.reports", number] for number in range(2)]
    with collect_world(2, reports) as world:
        one_source_behind(world)
        world.survivor()
        assert world.watch.judge(world) == set()
        return reports, world.topics["fold.partials", 0]


@pytest.mark.parametrize("how", FAULTS)
@pytest.mark.parametrize("role", ["collect", "merge"])
def test_collector_and_merger_at_every_await(role, how, written):
    """Collectors and the merger are folds like the edge: the same faults at each of
    their awaits.
    """
    reports, partials = written

    def make():
        return collect_world(2, reports) if role == "collect" else merge_world(2, partials)

    count = sum(1 for _ in points(make))
    assert count >= 6
    for at in range(count):
        assert finish(make(), disturbed(how, at)) == set(), f"at await {at}"


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("role", ["collect", "merge"])
def test_two_crashes_of_collector_and_merger(role, which, written):
    """The second one while the first one's slot shards are still ahead of what the new owner has
    kept: of what each awaited, the first or the last has arrived.
    """
    reports, partials = written

    def make():
        return collect_world(2, reports) if role == "collect" else merge_world(2, partials)

    count = sum(1 for _ in points(make))
    for first in range(count):
        for second in range(first % STRIDE, count, STRIDE):

            def script(world, first=first, second=second):
                for at in (first, second):
                    worker = world.begin(0)
                    for _ in islice(routine(worker, 0), at + 1):
                        pass
                    if worker.waits:
                        worker.waits[which].come()
                    worker.crash()

            assert finish(make(), script) == set(), f"at awaits {first} and {second}"


@pytest.mark.parametrize("name", SLOT_MUTANTS)
def test_broken_slot_sums_are_found(name, written):
    """A crash at one of the awaits, as the undisturbed recipe survives them all, shows what is
    wrong.
    """
    recipe, complaint = SLOT_MUTANTS[name]
    reports, partials = written
    assert any(
        complaint in finish(make(), disturbed(how, at))
        for make in (
            lambda: merge_world(2, partials, recipe),
            lambda: collect_world(2, reports, recipe),
        )
        for how in (crash_as_it_arrives, crash, crash_out_of_order)
        for at in range(sum(1 for _ in points(make)))
    )


def test_old_changelog_is_refused():
    """A changelog that is behind what was acknowledged, or gone, stops the worker: it must not
    begin anew.
    """
    for lost in ("meta", ""):
        with edge_world(cases.orderly()) as world:
            worker = world.begin(0)
            worker.deliver(0, 4)
            keep(worker)
            old = dict(world.changelog)
            worker.deliver(0, 4)
            keep(worker)
            worker.crash()
            world.changelog = {} if lost else old
            with pytest.raises(
                Halt,
                match=(
                    "complete state .*`ldp-kafka state inspect`"
                    if lost
                    else "was acknowledged.*`ldp-kafka state rewind`"
                ),
            ):
                world.survivor()


def test_leftover_of_a_lost_partition_ends_the_process_only():
    """One who lost the partition and still has a message of it does not begin from its
    old table.
    """
    with edge_world(cases.orderly()) as world:
        first = world.begin(0)
        first.deliver(0, 4)
        keep(first)
        second = world.begin(0)
        first.revoke(0)
        second.deliver(0, 4)
        keep(second)
        first.give(0, 5)
        assert not first.alive
        world.survivor()
        assert world.watch.judge(world) == set()
