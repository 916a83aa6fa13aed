"""Topologies with their workers and a steady input, and outages of all brokers."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.broker.cluster import FROZEN
from tests.broker.feed import START, Steady
from tests.broker.outages.phases import PHASES, Missed, Phase
from tests.broker.outages.subjects import Subject
from tests.broker.workers import Worker
from tests.broker.world import World

__all__ = ["Outage", "OutageWorld", "released"]

LOOK = 0.5  # seconds between two looks at every worker
TOGETHER = 12.0  # seconds for which workers may be stopped until all phases are there: no session
CALM = 4.0  # seconds of input before anything happens
BEHIND = 8  # slots that the newest release may be behind the input


@dataclass
class Outage:
    """When brokers were away; seconds since the epoch."""

    how: str
    seconds: float
    """For which they were kept away."""
    began: float
    over: float = 0.0
    """When they answered a client again, of every group."""
    whole: bool = True
    """Whether it was all of them."""
    held: float = 0.0
    """When the first worker was stopped in its phase; 0: none was."""

    @property
    def lasted(self) -> float:
        """Until they answered again."""
        return self.over - self.began

    @property
    def since(self) -> float:
        """From when on it kept anything from being released."""
        return min(self.began, self.held or self.began)

    @property
    def cost(self) -> float:
        """Seconds that it kept things from being released, at most, until brokers answered."""
        return self.over - self.since

    def __str__(self) -> str:
        kept = f" for {self.seconds:g} s" if self.whole else ""
        return f"{self.how}{kept}, {self.lasted:.1f} s until all is there again"


class OutageWorld(World):
    """A world in which every topology is doing something else when the brokers go.

    Parameters
    ----------
    plays : of each topology its kind and its phase
    seed : of the input
    """

    feed: Steady
    flows: list[Subject]

    def __init__(
        self, tmp: Path, prefix: str, nodes: int, plays: Sequence[tuple[str, str]], seed: int
    ) -> None:
        self.outages: list[Outage] = []
        self.phases: dict[str, Phase] = {name: phase() for name, phase in PHASES.items()}
        self.warm = 0.0
        """From when on releases come as they should."""
        self.apart: list[tuple[float, float]] = []
        """Times in which some were held for long, since others were not in their phases yet."""
        self._over = threading.Event()
        super().__init__(tmp, nodes)
        try:
            self.made([partial(Subject, self.boot, tmp, prefix, *play) for play in plays])
            self.feed = Steady(self.subjects, seed)
            self.feed.start()
            for subject in self.subjects:
                subject.begin()
            threading.Thread(target=self._look, daemon=True).start()
        except BaseException:
            self.close()
            raise

    @property
    def subjects(self) -> list[Subject]:
        """The topologies."""
        return self.flows

    @property
    def workers(self) -> list[Worker]:
        """Those that are to run."""
        return [worker for subject in self.subjects for _, worker in subject.workers]

    def _look(self) -> None:
        while not self._over.wait(LOOK):
            for worker in self.workers:
                worker.look()

    def wait_for(self, true: Callable[[], object], what: str, limit: float = 60.0) -> None:
        """Wait for something that must come about."""
        assert self.until(true, limit, 0.05), f"in {limit:g} s it did not come about that {what}"

    def group(self, subject: Subject):
        """The edge's, as its coordinator describes it."""
        return self.ask.group(subject.edge[0].group)

    def behind(self, subject: Subject) -> int:
        """Slots that its newest release is behind its input."""
        return START + self.feed.slot - max(released(subject), default=0)

    def follows(self, subject: Subject) -> bool:
        """Whether releases come, and the raw log is folded in every partition: a release comes of
        one partition, too, while the other is still with a worker that has left.
        """
        group = self.group(subject)
        ours = sum(worker.runs for worker in subject.edges)
        return (
            self.behind(subject) < BEHIND
            and group.state == "Stable"
            and len(group.members) == ours
            and self.ask.left(subject.raw_log) < BEHIND * self.feed.per_slot(subject)
        )

    def calm(self, seconds: float = CALM, limit: float = 120.0) -> None:
        """Wait until every topology follows its input, and for so long after that."""
        for subject in self.subjects:
            follows = lambda subject=subject: self.follows(subject)  # noqa: E731
            self.wait_for(follows, f"{subject.topology.name} follows its input", limit)
        if not self.warm:
            self.warm = time.time()
            self.say("all follow their input")
        time.sleep(seconds)

    # -- what happens
    # ------------------------------------------------------------

    def arrange(self) -> float:
        """Have every topology in its phase, workers stopped in theirs; when the first one was."""
        for _ in range(8):
            held, missed, began = list[float](), "", time.time()
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda each: self._do("ready", each), self.subjects))
                try:
                    for turn in range(3):
                        mine = [x for x in self.subjects if self.phases[x.phase].turn == turn]
                        since = pool.map(lambda each: self._do("hold", each), mine)
                        held += [at for at, x in zip(since, mine, strict=True) if self._stops(x)]
                except Missed as error:
                    missed = str(error)
            now = time.time()
            first = began if missed else min(held, default=now)
            took = now - first
            if not missed and took < TOGETHER:
                shown = {each.name: each.held for each in self.subjects}
                self.say(f"in their phases, within {took:.1f} s: {shown}")
                return first
            late = f"it took {took:.1f} s until all were in their phases"
            self.say(f"{missed or late}: once more")
            self.go_on()
            self.calm(1.0)
            self.apart.append((first, time.time()))
        raise AssertionError("the phases never came together")

    def _do(self, step: str, subject: Subject):
        return getattr(self.phases[subject.phase], step)(self, subject)

    def _stops(self, subject: Subject) -> bool:
        return self.phases[subject.phase].stops

    def go_on(self) -> None:
        """Phases are over, and brokers there."""
        for subject in self.subjects:
            for _, worker in subject.workers:
                worker.resume()
            self._do("over", subject)

    def rehearse(self) -> None:
        """All but the outage: what it costs by itself."""
        self.arrange()
        self.go_on()
        self.calm()

    def outage(self, how: str, seconds: float) -> Outage:
        """Have all brokers away for so long, from the moment when every topology is in its
        phase.
        """
        held = self.arrange()
        made = Outage(how, seconds, self.cluster.freeze(), held=held)
        self.outages.append(made)
        for worker in self.workers:
            worker.resume()
        if how != FROZEN:
            self.cluster.end(signal.SIGKILL)
        self.pause(made.began + seconds - time.time())
        self.cluster.back(how)
        made.over = self.cluster.answer([group for flow in self.flows for group in flow.groups])
        self.say(str(made))
        self.go_on()
        return made

    def roll(self) -> None:
        """A rolling restart: each node ends in order and comes back, and is in sync before the
        next one ends.
        """
        for node in range(self.nodes):
            made = Outage("", 0.0, time.time(), whole=False)
            made.how = self.cluster.bounce(node)
            made.over = time.time()
            self.outages.append(made)
            self.say(str(made))

    def settle(self, limit: float = 240.0) -> None:
        """Close every slot, wait until everything is folded and acknowledged, and end all workers
        in order.
        """
        assert self.folded(limit), (
            f"in {limit:g} s not all was folded: {self.ask.behind(self.logs)}"
        )
        ended = self.workers
        for subject in self.subjects:
            for _, worker in list(subject.workers):
                if worker.runs:
                    subject.tell_to_end(worker)
        for worker in ended:
            worker.wait(60)

    def close(self) -> None:
        self._over.set()
        super().close()


def released(subject: Subject) -> dict[int, float]:
    """When brokers took the last release of each slot, of its copies the first."""
    firsts: dict[bytes, tuple[int, float]] = {}
    for message in subject.read(subject.topology.releases_topic):
        slot = json.loads(message.value()).get("slot")
        if slot is not None:
            firsts.setdefault(message.key(), (slot, message.timestamp()[1] / 1000))
    found: dict[int, float] = {}
    for slot, at in firsts.values():
        found[slot] = max(at, found.get(slot, at))
    return found
