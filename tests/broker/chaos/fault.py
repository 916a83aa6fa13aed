"""What a fault is: something that is done to a `ChaosWorld` and undone, where and how often it is
drawn, what is waited for after it, and how long all of it may take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tests.broker.chaos.crew import AGAIN
from tests.broker.chaos.world import ChaosWorld

__all__ = ["Fault", "NotHeld", "Then", "must"]

STILL = 3.0  # seconds without a start, after which what came before is over
AFTER = 120.0  # seconds for what came in meanwhile to be folded, on a busy machine


class NotHeld(Exception):
    """A fault ended as it must not."""


def must(held: object, what: str) -> None:
    if not held:
        raise NotHeld(what)


class Then(Enum):
    """What is waited for after a fault."""

    NOTHING = "the next one comes at once"
    STABLE = "groups have some seconds to be stable"
    NO_EXIT = "the same, when everybody went on, and no process asked to be started again"


@dataclass(frozen=True)
class Fault:
    """A row of the table.

    Parameters
    ----------
    name : by which it is counted
    does : does it, undoes what was done to the surroundings, and says what became of it; where it
        must halt a worker it waits for that
    one, three : how often it comes in a round on one node, and on three
    long : how often it comes beside that in each round of the long run
    then : what is waited for
    asks : whether it needs a coordinator that asks
    within : seconds that it may take, with all that it waits for
    """

    name: str
    does: Callable[[ChaosWorld], str]
    one: int = 0
    three: int = 0
    long: int = 0
    then: Then = Then.STABLE
    asks: bool = False
    within: float = 600.0

    def __call__(self, world: ChaosWorld) -> str:
        """Do it; what became of it.

        Raises
        ------
        NotHeld : it ended as it must not
        """
        begin = time.time()
        said = no_exit(world, self.does) if self.then is Then.NO_EXIT else self.does(world)
        if self.then is not Then.NOTHING:
            world.pause(world.random.uniform(0.5, 3))
            # the next one comes into the middle of a rebalance at times
            world.steady(world.random.uniform(0, 8))
        took = time.time() - begin
        must(took <= self.within, f"it took {took:.0f} s, and may take {self.within:g} s: {said}")
        return said


def no_exit(world: ChaosWorld, does: Callable[[ChaosWorld], str]) -> str:
    """Do what nobody may ask for a new start because of, and see that everybody goes on."""
    settled(world)
    marks, before = world.marks(), world.retried
    said = does(world)
    raw = [log for flow in world.flows for log in flow.raw_log]
    ends: dict[tuple[str, int], int] = {}
    there = world.until(lambda: ends.update(world.ask.ends(raw)) or True, 60)
    must(there, "the brokers gave no answer when they were back")
    for flow in world.flows:
        must(world.acknowledged(flow, ends, AFTER), f"{flow.topology.name} did not go on")
    again = world.retried - before
    lines = "\n".join(world.lines(marks, (AGAIN, "ldp-kafka: "), before=40))
    must(not again, f"{again} processes asked to be started again: {said}:\n{lines}")
    return said


def settled(world: ChaosWorld, limit: float = 90.0) -> None:
    """Wait until what came before has cost all that it costs."""
    end, seen, since = time.time() + limit, world.retried, time.time()
    while time.time() < end:
        world.pause(0.3)
        now = world.retried
        seen, since = (now, since) if now == seen else (now, time.time())
        if time.time() - since > STILL and world.answered(world.stable):
            return
