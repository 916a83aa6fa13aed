"""Two worker machines that run every topology of a world, their disks and clocks, and a supervisor;
faults happen to all of it.
"""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.broker.asking import client
from tests.broker.crews import Crew, cpu_features
from tests.broker.feed import Rough
from tests.broker.flow import Flow
from tests.broker.test_methods import flow_of
from tests.broker.world import World

__all__ = ["SESSION", "ChaosWorld"]

SESSION = 6.0  # seconds, of the topologies
ROOM = 700  # MiB on the disk of each node


class ChaosWorld(World):
    """A world whose faults are drawn.

    Parameters
    ----------
    methods : one topology each, by what `tests.broker.test_methods.flow_of` knows it as
    seed : of everything that is random but the workers
    """

    feed: Rough

    def __init__(self, tmp: Path, prefix: str, nodes: int, methods: list[str], seed: int) -> None:
        self.random, self.crews = random.Random(seed), list[Crew]()
        self.unexpected: list[str] = []
        """What must not have happened."""
        super().__init__(tmp, nodes, mib=ROOM)
        try:
            self.admin = AdminClient(client(self.boot))
            self.made([partial(flow_of, self.boot, tmp, prefix, method) for method in methods])
            self.crews += [Crew(n, tmp, self.flows, self.unexpected) for n in (0, 1)]
            self.features = cpu_features()
            self.crews[1].disabled = list(self.features)
        except BaseException:
            self.close()
            raise

    def begin(self, seed: int) -> None:
        """Start input and workers, and wait until they are at work."""
        self.feed = Rough(self.flows, seed)
        self.feed.start()
        for crew in self.crews:
            crew.start()
        if not self.steady(120):
            self.unexpected.append("the workers were not at work after 120 s")

    # -- workers
    # ------------------------------------------------------------

    def supervise(self) -> None:
        for crew in self.crews:
            crew.supervise()

    @property
    def retried(self) -> int:
        """How often a process asked to be started again."""
        return sum(crew.retried for crew in self.crews)

    def marks(self) -> dict[int, int]:
        """Where the logs of the crews end now."""
        return {
            crew.number: crew.log.stat().st_size if crew.log.exists() else 0 for crew in self.crews
        }

    def lines(self, marks: dict[int, int], words: tuple[str, ...], before: int = 0) -> list[str]:
        """Those since then that have one of these words, each behind ``before`` other lines."""
        found = []
        for crew in self.crews:
            with crew.log.open("rb") as log:
                log.seek(marks[crew.number])
                said = log.read().decode(errors="replace").splitlines()
            at = [n for n, line in enumerate(said) if any(word in line for word in words)]
            near = {each for n in at for each in range(max(0, n - before), n + 1)}
            found += [said[n] for n in sorted(near)]
        return found

    def heard(self, marks: dict[int, int], name: str, words: tuple[str, ...]) -> bool:
        """Whether a line since then has this name and one of these words."""
        return any(name in line for line in self.lines(marks, words))

    # -- topologies
    # ------------------------------------------------------------

    @property
    def asked(self) -> list[Flow]:
        """Those whose coordinator asks."""
        return [flow for flow in self.flows if flow.topology.flow.requests is not None]

    @property
    def curated(self) -> list[Flow]:
        """Those with a curator."""
        return [flow for flow in self.flows if flow.topology.curated]

    def stable(self, members: int | None = None) -> bool:
        """Whether every group has so many members, by default one in every crew that runs, and has
        given out its partitions.
        """
        return not self.unstable(members)

    def unstable(self, members: int | None = None) -> dict[str, str]:
        """{group: how it stands} of all others."""
        members = sum(crew.running for crew in self.crews) if members is None else members
        return self.ask.unstable([name for flow in self.flows for name in flow.groups], members)

    def steady(self, limit: float = 30.0) -> bool:
        """Wait until every group is stable; whether they are."""
        return self.until(self.stable, limit)

    def acknowledged(
        self, flow: Flow, upto: dict[tuple[str, int], int], limit: float = 90.0
    ) -> bool:
        """Wait until a raw log is folded and acknowledged so far; where it is not, say what is
        left, and have the crews write where they stand.
        """
        done = self.until(lambda: self.ask.left(flow.raw_log, upto) == 0, limit)
        if not done:
            print(f"left after {limit:g} s: {self.ask.behind(flow.raw_log, upto)}")
            for crew in self.crews:
                crew.tell()
        return done

    # -- the end
    # ------------------------------------------------------------

    def settle(self, limit: float = 240.0) -> None:
        """Close every slot, and wait until everything is folded and acknowledged. A worker to which
        nothing is delivered asks for a new start after 60 s, and the next one has to recover, on a
        machine that is busy: so long twice.
        """
        for crew in self.crews:
            crew.clock.unlink(missing_ok=True)
            if crew.held:
                crew.start()
        if not self.folded(limit):
            by = self.answered(lambda: self.ask.behind(self.logs))
            for crew in self.crews:
                crew.tell()
            time.sleep(1)
            said = "\n".join(crew.said(40_000) for crew in self.crews)
            self.unexpected.append(f"records are not folded after {limit:g} s: {by}\n{said}")
        marks = self.marks()
        for crew in self.crews:
            crew.leave()
        if self.heard(marks, "ldp-kafka: ", ("ending in order came to nothing",)):
            said = "\n".join(crew.said() for crew in self.crews)
            self.unexpected.append(f"a worker hung in its end, and nothing was wrong: {said}")

    def close(self) -> None:
        for crew in self.crews:
            crew.close()
        super().close()
