"""A cluster, topologies over it with their workers and their input, and outages of all brokers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import KafkaException

from tests.broker.chaos.feed import START
from tests.broker.outages.cluster import Cluster, Outage
from tests.broker.outages.feed import Steady
from tests.broker.outages.phases import PHASES, Missed, Phase
from tests.broker.outages.questions import Questions
from tests.broker.outages.subjects import Subject
from tests.broker.outages.worker import Worker

__all__ = ["World"]

LOOK = 0.5  # seconds between two looks at every worker
TOGETHER = 12.0  # seconds for which workers may be stopped until all phases are there: no session
CALM = 4.0  # seconds of input before anything happens
BEHIND = 8  # slots that the newest release may be behind the input


class World:
    """Everything that an outage can happen to.

    Parameters
    ----------
    plays : of each topology its kind and its phase
    seed : of the input
    """

    def __init__(
        self, tmp: Path, prefix: str, nodes: int, plays: Iterable[tuple[str, str]], seed: int
    ) -> None:
        tmp.mkdir(parents=True, exist_ok=True)
        self.cluster = Cluster(tmp / "kafka", nodes)
        self.ask = Questions(self.cluster.boot)
        self.subjects: list[Subject] = []
        self.outages: list[Outage] = []
        self.phases: dict[str, Phase] = {name: phase() for name, phase in PHASES.items()}
        self.feed: Steady | None = None
        self.warm = 0.0
        """From when on releases come as they should."""
        self.apart: list[tuple[float, float]] = []
        """Times in which some were held for long, since others were not in their phases yet."""
        self._over, self._begun = threading.Event(), time.time()
        try:
            boot = self.cluster.boot
            with ThreadPoolExecutor(8) as pool:
                made = [pool.submit(Subject.make, boot, tmp, prefix, *play) for play in plays]
            self.subjects = [each.result() for each in made]
            self.feed = Steady(boot, self.subjects, seed)
            for subject in self.subjects:
                subject.begin()
            threading.Thread(target=self._look, daemon=True).start()
        except BaseException:
            self.close()
            raise

    def say(self, text: str) -> None:
        """What happens, for whoever reads the test's output."""
        print(f"{time.time() - self._begun:6.1f} s: {text}", flush=True)

    @property
    def workers(self) -> list[Worker]:
        """Those that are to run."""
        return [worker for subject in self.subjects for worker in subject.workers]

    def _look(self) -> None:
        while not self._over.wait(LOOK):
            for worker in self.workers:
                worker.look()

    def until(self, true: Callable[[], bool], what: str, limit: float = 60.0) -> None:
        """Wait for something; a broker that gives no answer is asked again."""
        end, said = time.time() + limit, ""
        while True:
            try:
                if true():
                    return
                said = ""
            except KafkaException as error:
                said = f": {error}"
            assert time.time() < end, f"in {limit:g} s it did not come about that {what}{said}"
            time.sleep(0.05)

    def behind(self, subject: Subject) -> int:
        """Slots that its newest release is behind its input."""
        return START + self.feed.slot - max(released(subject), default=0)

    def follows(self, subject: Subject) -> bool:
        """Whether releases come, and the raw log is folded in every partition: a release comes of
        one partition, too, while the other is still with a worker that has left.
        """
        group = self.ask.group(subject)
        ours = sum(worker.runs for worker in subject.edges)
        return (
            self.behind(subject) < BEHIND
            and group.state == "Stable"
            and len(group.members) == ours
            and self.ask.left(subject) < BEHIND * self.feed.per_slot(subject)
        )

    def calm(self, seconds: float = CALM, limit: float = 120.0) -> None:
        """Wait until every topology follows its input, and for so long after that."""
        for subject in self.subjects:
            follows = lambda subject=subject: self.follows(subject)  # noqa: E731
            self.until(follows, f"{subject.flow.topology.name} follows its input", limit)
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
            for worker in subject.workers:
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
        if how == "stopped":
            self.cluster.kill()
        time.sleep(max(0.0, made.began + seconds - time.time()))
        groups = [group for subject in self.subjects for group in subject.groups]
        made.over = self.cluster.back(how, groups)
        self.say(str(made))
        self.go_on()
        return made

    def roll(self) -> None:
        """A rolling restart: each node ends in order and comes back, and is in sync before the
        next one ends.
        """
        for node in range(self.cluster.nodes):
            self.outages.append(self.cluster.bounce(node))
            self.say(str(self.outages[-1]))

    def settle(self, limit: float = 120.0) -> None:
        """Close every slot, wait until everything is folded and acknowledged, and end all workers
        in order.
        """
        self.feed.close()

        def folded(subject: Subject) -> bool:
            return all(
                self.ask.left(subject, everything=True) == 0 and not time.sleep(0.2)
                for _ in range(3)
            )

        for subject in self.subjects:
            done = lambda subject=subject: folded(subject)  # noqa: E731
            self.until(done, f"{subject.flow.topology.name} has folded all", limit)
        ended = self.workers
        for subject in self.subjects:
            for worker in list(subject.workers):
                if worker.runs:
                    subject.tell_to_end(worker)
        for worker in ended:
            worker.process.wait(60)

    def close(self) -> None:
        """End everything that was started."""
        self._over.set()
        if self.feed is not None:
            self.feed.stop()
        for subject in self.subjects:
            subject.close()
        self.cluster.close()


def released(subject: Subject) -> dict[int, float]:
    """When brokers took the last release of each slot, of its copies the first."""
    flow = subject.flow
    firsts: dict[bytes, tuple[int, float]] = {}
    for message in flow.read(flow.topology.releases_topic):
        slot = json.loads(message.value()).get("slot")
        if slot is not None:
            firsts.setdefault(message.key(), (slot, message.timestamp()[1] / 1000))
    found: dict[int, float] = {}
    for slot, at in firsts.values():
        found[slot] = max(at, found.get(slot, at))
    return found
