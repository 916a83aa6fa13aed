"""What can go wrong, scripted: each script is a function of a fresh `World` over `cases.orderly()`
(19 messages, offsets 1 to 19) and stops where the survivor takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message, Stage
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.topology import Topology
from tests.fold import cases
from tests.fold.driver import Halt, Recipe, Worker, World
from tests.fold.judge import EdgeJudge, Judge, releases

Script = Callable[[World], None]


def keep(worker: Worker, number: int = 0) -> None:
    """A whole snapshot, and what it acknowledged committed."""
    worker.snapshot(number)
    worker.run()
    worker.commit()


def crash_before_snapshot(world: World) -> None:
    """Everything is out, nothing is kept."""
    worker = world.begin(0)
    worker.deliver(0, 8)
    worker.crash()


def crash_before_commit(world: World) -> None:
    """Everything is kept, the offset is not."""
    worker = world.begin(0)
    worker.deliver(0, 8)
    worker.snapshot(0)
    worker.run()
    worker.crash()


def kept_behind_each_message(world: World) -> None:
    """Every message is kept by itself, and the next owner goes on from the middle."""
    worker = world.begin(0)
    for _ in range(8):
        worker.deliver(0)
        keep(worker)
    worker.crash()


def crash_between_shards_and_meta(world: World) -> None:
    """One shard is ahead; the next owner keeps it before it has come as far, and dies too."""
    worker = world.begin(0)
    worker.deliver(0, 4)
    keep(worker)
    worker.deliver(0, 8)
    worker.snapshot(0)
    worker.step()
    worker.step()
    worker.commit()
    worker.crash()
    worker = world.begin(0)
    worker.deliver(0, 3)
    keep(worker)
    worker.deliver(0, 3)
    worker.crash()


def crash_before_meta(world: World, count: int = 8) -> None:
    """All shards are ahead by so many messages."""
    worker = world.begin(0)
    worker.deliver(0, 4)
    keep(worker)
    worker.deliver(0, count)
    worker.snapshot(0)
    while len(worker.waits) != 1 or "meta" not in worker.waits[0].what:
        worker.step()
    worker.crash()


def crash_before_meta_while_rows_wait(world: World) -> None:
    """And they hold reports that their ``meta`` would have counted."""
    crash_before_meta(world, 7)


def crash_in_first_snapshot(world: World) -> None:
    """A new owner dies while it writes its first one."""
    worker = world.begin(0)
    worker.deliver(0, 8)
    keep(worker)
    worker.crash()
    worker = world.begin(0)
    worker.deliver(0, 3)
    worker.snapshot(0)
    for _ in range(3):
        worker.step()
    worker.crash()


def second_owner(world: World) -> None:
    """A new owner keeps little of its own and drops the first one's."""
    worker = world.begin(0)
    worker.deliver(0, 8)
    keep(worker)
    worker.crash()
    worker = world.begin(0)
    worker.deliver(0, 1)
    keep(worker)
    worker.crash()


def crash_while_dropping(world: World) -> None:
    """Of the first owner's keys some are gone."""
    worker = world.begin(0)
    worker.deliver(0, 8)
    keep(worker)
    worker.crash()
    worker = world.begin(0)
    worker.deliver(0, 1)
    worker.snapshot(0)
    while (
        len([key for key in world.changelog if "meta" in key]) != 1
        or worker.waits[0].what == "flush"
    ):
        worker.step()
    worker.step()
    worker.crash()


def crash_before_dropping(world: World) -> None:
    """Two tenures are complete."""
    worker = world.begin(0)
    worker.deliver(0, 8)
    keep(worker)
    worker.crash()
    worker = world.begin(0)
    worker.deliver(0, 3)
    worker.snapshot(0)
    while len([key for key in world.changelog if "meta" in key]) != 2:
        worker.step()
    worker.commit()
    worker.crash()


def crash_after_meta(world: World) -> None:
    """The state is kept; whatever the producer still holds dies with it."""
    worker = world.begin(0)
    worker.hold = True
    worker.deliver(0, 8)
    worker.snapshot(0)
    while not any("meta" in key for key in world.changelog):
        worker.step()
    worker.crash()


def commit_before_snapshot(world: World) -> None:
    """Faust's timer commits what is acknowledged, before there is anything to commit."""
    worker = world.begin(0)
    worker.deliver(0, 8)
    worker.commit()
    worker.crash()


def output_never_arrived(world: World) -> None:
    """What was produced after the snapshot's flush dies with the producer."""
    worker = world.begin(0)
    worker.hold = True
    worker.deliver(0, 8)
    keep(worker)
    worker.deliver(0, 4)
    worker.arrive(3)
    worker.crash()


def fold_during_snapshot(world: World) -> None:
    """Messages are folded at every await of a snapshot; one more snapshot, and a crash."""
    worker = world.begin(0)
    worker.deliver(0, 2)
    keep(worker)
    worker.deliver(0, 2)
    worker.snapshot(0)
    while worker.step() and worker.waits:
        worker.deliver(0)
    worker.commit()
    worker.deliver(0)
    keep(worker)
    worker.crash()


def leftovers(world: World) -> None:
    """After a rebalance two messages of the earlier assignment come first, then the log from the
    committed offset on.
    """
    worker = world.begin(0)
    worker.deliver(0, 3)
    keep(worker)
    worker.deliver(0, 3)
    worker.assign(0)
    worker.give(0, 9)
    worker.give(0, 10)
    worker.deliver(0, 19)
    keep(worker)
    worker.crash()


def lost_message(world: World) -> None:
    """Exactly one message is never delivered in this assignment."""
    worker = world.begin(0)
    worker.deliver(0, 3)
    keep(worker)
    worker.skip(0)
    worker.deliver(0, 5)
    keep(worker)
    worker.gap()
    worker.deliver(0, 5)
    keep(worker)
    worker.skip(0)
    worker.deliver(0, 5)
    worker.in_vain()


def lost_first_message(world: World) -> None:
    """The first one after an assignment."""
    worker = world.begin(0)
    worker.deliver(0, 5)
    keep(worker)
    worker.assign(0)
    worker.skip(0)
    worker.deliver(0, 5)
    keep(worker)
    worker.gap()
    worker.deliver(0, 5)
    keep(worker)
    worker.skip(0)
    worker.deliver(0, 5)
    worker.in_vain()


def delivered_again(world: World) -> None:
    """Messages come twice in one assignment, the second time before the snapshot that holds the
    first.
    """
    worker = world.begin(0)
    worker.deliver(0, 6)
    for offset in range(1, 7):
        worker.give(0, offset)
    worker.commit()
    worker.crash()


def join_before_first_commit(world: World) -> None:
    """A second worker is given the partition while the first has folded, kept a part, and committed
    nothing; later it is given back.
    """
    first = world.begin(0)
    first.deliver(0, 7)
    first.snapshot(0)
    first.step()
    first.step()
    second = world.begin(0)
    first.revoke(0)
    second.deliver(0, 5)
    first.run()
    first.commit()
    second.snapshot(0)
    second.run()
    first.assign(0)
    second.revoke(0)
    second.commit()
    first.deliver(0, 9)
    keep(first)
    first.crash()


def zombie(world: World) -> None:
    """The first owner sleeps through a rebalance, wakes up with messages in its buffer and keeps an
    old state after the new owner kept a newer one; the new owner dies at once.
    """
    old = world.begin(0)
    old.deliver(0, 6)
    keep(old)
    old.deliver(0, 2)
    new = world.begin(0)
    new.deliver(0, 9)
    keep(new)
    old.deliver(0, 2)
    old.snapshot(0)
    old.step()
    old.step()
    new.deliver(0, 1)
    new.crash()


def zombie_dropped(world: World) -> None:
    """A zombie whose keys the new owner dropped writes the shard that changed, and a manifest of
    all.
    """
    old = world.begin(0)
    old.deliver(0, 7)
    old.snapshot(0)
    old.run()
    new = world.begin(0)
    new.deliver(0, 7)
    keep(new)
    old.deliver(0, 1)  # of two users, so that a shard stays as it was
    old.snapshot(0)
    old.run()
    old.commit()
    new.crash()


def zombie_interleaved(world: World) -> None:
    """Both keep the same messages, write by write in turn; the zombie's output arrives late."""
    old = world.begin(0)
    old.deliver(0, 4)
    old.hold = True
    keep(old)
    old.deliver(0, 4)
    new = world.begin(0)
    for _ in range(3):
        new.deliver(0, 2)
        old.deliver(0, 1)
        new.snapshot(0)
        old.snapshot(0)
        while new.step() | old.step():
            pass
        new.commit()
        old.commit()
    new.crash()
    old.deliver(0, 1)
    old.arrive(2)


def rebalance_during_snapshot(world: World) -> None:
    """The worker loses the partition and gets it back while a snapshot is under way, which then
    ends; the new tenure keeps less, drops the old one, and dies.
    """
    worker = world.begin(0)
    worker.deliver(0, 4)
    keep(worker)
    worker.deliver(0, 8)
    worker.snapshot(0)
    worker.step()
    worker.assign(0)
    worker.deliver(0, 2)
    worker.run()
    worker.commit()
    worker.deliver(0, 1)
    keep(worker)
    worker.crash()


def graceful(world: World) -> None:
    """SIGTERM with messages that wait to be folded."""
    worker = world.begin(0)
    worker.together = 100
    worker.deliver(0, 7)
    worker.leave()
    worker = world.begin(0)
    worker.deliver(0, 7)
    worker.leave()


SCRIPTS: dict[str, Script] = {
    script.__name__: script
    for script in (
        crash_before_snapshot,
        crash_before_commit,
        crash_between_shards_and_meta,
        crash_before_meta,
        crash_before_meta_while_rows_wait,
        kept_behind_each_message,
        crash_in_first_snapshot,
        second_owner,
        crash_before_dropping,
        crash_while_dropping,
        crash_after_meta,
        commit_before_snapshot,
        output_never_arrived,
        fold_during_snapshot,
        leftovers,
        lost_message,
        lost_first_message,
        delivered_again,
        join_before_first_commit,
        zombie,
        zombie_dropped,
        zombie_interleaved,
        rebalance_during_snapshot,
        graceful,
    )
}


def one_source_behind(world: World) -> None:
    """The collector reads all of one source before the first report of the other; both are kept."""
    worker = world.begin(0, 1)
    worker.deliver(0, 100)
    keep(worker, 0)
    worker.deliver(1, 5)
    worker.crash()


def edge_world(
    logs: list[list[Message]],
    recipe: Recipe | None = None,
    *,
    header: bool = True,
    statistics: str = cases.PER_USER,
) -> World:
    """A world that perturbs; where nothing is released per user, reports wait for bounds."""
    topology = cases.topology(len(logs), statistics=statistics)
    randomness = cases.randomness(topology)
    return World(
        lambda number: make_perturb(topology, number, randomness),
        logs,
        recipe or Recipe(),
        header,
        cases.judge(topology, "perturb", logs, lambda: EdgeJudge(topology, randomness, logs)),
    )


def finish(world: World, script: Script) -> set[str]:
    """What the judge complains of when a script has been played and the survivor has read
    everything.
    """
    with world:
        try:
            script(world)
            world.survivor()
        except Halt:
            return {*world.watch.complaints, "halted"}
        return world.watch.judge(world)


def play(
    script: Script,
    recipe: Recipe | None = None,
    *,
    header: bool = True,
    statistics: str = cases.PER_USER,
) -> set[str]:
    """The same over the standard input of the edge."""
    logs = cases.orderly(1, first=1 if header else 0)
    return finish(edge_world(logs, recipe, header=header, statistics=statistics), script)


def collect_world(
    partitions: int, written: Sequence[Sequence[Any]], recipe: Recipe | None = None
) -> World:
    """A world that collects what an edge's world wrote."""
    topology = cases.topology(partitions)
    logs = [local.log(records, 1) for records in written]
    return _folded_again(topology, "collect", written, logs, recipe)


def merge_world(partitions: int, written: Sequence[Any], recipe: Recipe | None = None) -> World:
    """A world that merges what a collector's world wrote."""
    topology = cases.topology(partitions)
    return _folded_again(topology, "merge", written, [local.log(written, 1)], recipe)


def _folded_again(
    topology: Topology, role: str, written: Any, logs: list[list[Message]], recipe: Recipe | None
) -> World:
    def make(number: int) -> Stage[Any]:
        return roles.make(topology, role, number)

    return World(
        make,
        logs,
        recipe or Recipe(),
        watch=cases.judge(topology, role, written, lambda: Judge(make, logs)),
    )


def pure_releases(judge: EdgeJudge) -> set[Any]:
    """What comes of the straight fold's reports."""
    return {(record.key, record.value) for record in releases(judge.topology, judge.reports)}


def routine(worker: Worker, number: int, every: int = 2) -> Iterator[None]:
    """Read a log, with a snapshot after every few messages and one more message folded after each
    second await; stops before whatever is awaited.
    """
    turn = 0
    while worker.alive and worker.next[number] < worker.world.end_of(number):
        worker.deliver(number, every)
        worker.snapshot(number)
        while worker.waits:
            yield
            worker.step()
            turn += 1
            if turn % 2:
                worker.deliver(number)
        worker.commit()
    yield
