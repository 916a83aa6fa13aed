"""One round: a cluster, topologies, a drawn order of faults, and what the judge says in the end."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.chaos.fault import Fault
from tests.broker.chaos.faults import JOIN, LEAVE
from tests.broker.chaos.world import ChaosWorld
from tests.broker.judge.verdict import Verdict

SEED = "LDP_KAFKA_SEED"
SUMS = ("events", "reports", "releases", "states", "published", "late", "windows")


def seed() -> int:
    """Of a run: as it is told, or any; it is printed."""
    return int(os.environ[SEED]) if SEED in os.environ else random.SystemRandom().randrange(2**31)


@dataclass
class Round:
    """What happened and what was found."""

    seed: int
    nodes: int
    faults: list[tuple[str, str]] = field(default_factory=list)
    not_held: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    lost: int = 0
    """Events that a producer was told of as lost."""
    retried: int = 0
    crashed: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> dict[str, Counter[str]]:
        """By method, what the judge complains of."""
        return {method: verdict.wrong for method, verdict in self.verdicts.items() if verdict.wrong}

    @property
    def clean(self) -> bool:
        return not (self.wrong or self.not_held or self.unexpected or self.lost) and all(
            verdict.reports > 0 or verdict.windows > 0 for verdict in self.verdicts.values()
        )

    def __str__(self) -> str:
        counts = Counter(name for name, _ in self.faults)
        sums = {
            name: sum(getattr(verdict, name) for verdict in self.verdicts.values()) for name in SUMS
        }
        return (
            f"seed {self.seed}, {self.nodes} node(s), {len(self.faults)} faults in"
            f" {self.seconds:.0f} s: {dict(sorted(counts.items()))}; {len(self.verdicts)} methods,"
            f" {sums}; wrong {self.wrong}; not held {self.not_held}; unexpected {self.unexpected};"
            f" lost {self.lost}; restarts {self.retried}, of which crashes of native code"
            f" {self.crashed}"
        )


def schedule(rnd: random.Random, of: Sequence[Fault]) -> list[Fault]:
    """These faults in a drawn order; whoever left joins next."""
    rest = [fault for fault in of if fault is not JOIN]
    rnd.shuffle(rest)
    return [each for fault in rest for each in ((fault, JOIN) if fault is LEAVE else (fault,))]


def play(
    tmp: Path,
    prefix: str,
    nodes: int,
    methods: list[str],
    of: Sequence[Fault],
    number: int,
    told: Callable[[str], None] = print,
) -> Round:
    """A whole round: these faults, in this order."""
    begin, made = time.time(), Round(number, nodes)
    told(f"seed {number}: {nodes} node(s), {', '.join(methods)}")
    world = ChaosWorld(tmp, prefix, nodes, methods, number)
    try:
        world.begin(number)
        told(f"{time.time() - begin:6.1f} s: at work")
        for fault in of:
            try:
                said = fault(world)
            except Exception as wrong:  # one that did not come about is said, and does not count
                made.not_held.append(f"{fault.name}: {type(wrong).__name__}: {wrong}")
                told(f"{time.time() - begin:6.1f} s: {fault.name} NOT HELD:")
                told(traceback.format_exc())
                continue
            made.faults.append((fault.name, said))
            told(f"{time.time() - begin:6.1f} s: {len(made.faults)} {fault.name}: {said}")
        world.settle()
        told(f"{time.time() - begin:6.1f} s: settled")
        made.verdicts = dict(zip(methods, world.verdicts(), strict=True))
        for method, verdict in made.verdicts.items():
            for detail in verdict.details:
                told(f"{method}: {detail}")
        made.lost = len(world.feed.lost)
    except BaseException:
        told(traceback.format_exc())
        raise
    finally:
        made.unexpected, made.retried = world.unexpected, world.retried
        made.crashed = sum(crew.crashed for crew in world.crews)
        world.close()
    made.seconds = time.time() - begin
    told(str(made))
    return made
