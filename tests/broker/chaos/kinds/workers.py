"""Faults of workers: they are killed, they sleep, they leave, their machines differ and are full;
and of the input that they read.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from tests.broker.chaos.fault import must
from tests.broker.chaos.world import SESSION, ChaosWorld


def some_die(world: ChaosWorld) -> str:
    """Some workers of a machine are gone at once, and started again."""
    crew = world.random.choice(world.crews)
    world.until(lambda: len(crew.pids) == len(world.flows), 15)
    pids = crew.pids
    must(pids, "there was no worker to kill")
    killed = world.random.sample(pids, -(-len(pids) // 3))
    for pid in killed:
        with suppress(ProcessLookupError):  # it had just ended by itself
            os.kill(pid, signal.SIGKILL)
    return f"crew {crew.number}, {len(killed)} of {len(pids)} workers"


def machines_die(world: ChaosWorld, count: int) -> str:
    """All workers of so many machines are gone at once, and started again."""
    crews = world.random.sample(world.crews, count)
    for crew in crews:
        crew.end()
    world.pause(world.random.uniform(0, 1))
    for crew in crews:
        crew.start()
    return ", ".join(f"crew {crew.number}" for crew in crews)


def zombie(world: ChaosWorld) -> str:
    """A worker sleeps until its partitions are another's, and wakes; the new owner is killed just
    after.
    """
    sleeper, heir = world.random.sample(world.crews, 2)
    sleeper.held = True
    begin = time.time()
    sleeper.signal(signal.SIGSTOP)
    inherited = world.until(lambda: world.stable(members=1), 12 * SESSION)
    stands = None if inherited else world.answered(lambda: world.unstable(members=1))
    sleeper.signal(signal.SIGCONT)
    sleeper.held = False
    must(inherited, f"nobody took over what the sleeper had: {stands}")
    world.pause(0.3)
    heir.end()
    heir.start()
    return f"crew {sleeper.number} slept {time.time() - begin:.0f} s"


def leave(world: ChaosWorld) -> str:
    """A worker leaves its groups; the other one has it all."""
    crew = world.random.choice(world.crews)
    crew.leave()
    world.pause(world.random.uniform(1, 3))
    return f"crew {crew.number}"


def join(world: ChaosWorld) -> str:
    """Whoever is missing comes, and gets its share."""
    missing = [crew for crew in world.crews if not crew.running] or [
        world.random.choice(world.crews)
    ]
    for crew in missing:
        if crew.running:
            crew.leave()
        crew.start()
    return f"crew {missing[0].number}"


def other_cpu(world: ChaosWorld) -> str:
    """The second worker dies and comes back on a machine with other CPU features."""
    crew, features = world.crews[1], world.features
    crew.disabled = world.random.choice(
        [features[at:] for at in range(len(features) + 1) if features[at:] != crew.disabled] or [[]]
    )
    crew.end()
    crew.start()
    return f"without {' '.join(crew.disabled) or 'nothing: numpy chooses nothing at run time here'}"


def clock_step(world: ChaosWorld) -> str:
    """The wall clock of a worker jumps."""
    crew = world.random.choice(world.crews)
    seconds = world.random.choice((-86_400, -3600, -61, -3, 3, 61, 3600, 86_400, 40 * 86_400))
    crew.clock.write_text(str(seconds))
    world.pause(1)
    return f"crew {crew.number} by {seconds} s"


def scratch_full(world: ChaosWorld) -> str:
    """No byte more where a worker has its temporary files: its state is in memory and at the
    broker, so it has to work, to die and to start there. (A device's ledger: `test_client.py`.)
    """
    crew = world.random.choice(world.crews)
    crew.scratch.fill(crew.pids)
    world.pause(1)
    crew.end()
    crew.start()
    world.pause(4)
    crew.scratch.free()
    return f"crew {crew.number}, {crew.scratch.how}"


# -- input
# ------------------------------------------------------------


def producers_clock(world: ChaosWorld) -> str:
    """The wall clock of those who write the raw log jumps, back to before the events at times: they
    are dead letters then, as they come from the future.
    """
    # what is an hour ahead is refused by the broker
    seconds = world.random.choice((-86_400, -3600, -61, 61, 3000, -20 * 365 * 86_400))
    world.feed.clock = seconds * 1000
    world.pause(1.6)
    world.feed.clock = 0
    return f"by {seconds} s"


def disturbed(world: ChaosWorld, slots: int, **disturbs: int) -> str:
    """So many slots come otherwise than they should, see `Rough.disturb`."""
    world.feed.disturb(**disturbs)
    slots_pass(world, slots)
    return f"{slots} slots"


def slots_pass(world: ChaosWorld, count: int) -> None:
    """Wait until the input has so many more, and it has arrived."""
    slot = world.feed.slot + count
    must(world.until(lambda: world.feed.slot >= slot, 60 + 2 * count), "there was no input")
    for flow in world.flows:
        must(flow.producer.flush(30) == 0, "the broker did not take the input")
