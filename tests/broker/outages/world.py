"""A cluster, topologies over it with their workers and their input, and outages of all brokers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.broker.chaos.judge import Verdict, judge_all
from tests.broker.outages import phases
from tests.broker.outages.cluster import Cluster, Outage
from tests.broker.outages.feed import START, Steady
from tests.broker.outages.phases import PHASES
from tests.broker.outages.subjects import Subject
from tests.broker.outages.worker import Worker

__all__ = ["World"]

LOOK = 0.5  # seconds between two looks at every worker
TOGETHER = 8.0  # seconds for which workers may be stopped until all phases are there: no session
CALM = 6.0  # seconds of input before anything happens


class World:
    """Everything that an outage can happen to.

    Parameters
    ----------
    plays : of each topology its kind and its phase
    """

    def __init__(
        self, tmp: Path, prefix: str, nodes: int, plays: Iterable[tuple[str, str]], seed: int
    ) -> None:
        tmp.mkdir(parents=True, exist_ok=True)
        self.random, self.tmp = random.Random(seed), tmp
        self.cluster = Cluster(tmp / "kafka", nodes)
        self.subjects: list[Subject] = []
        self.outages: list[Outage] = []
        self.phases = {name: PHASES[name]() for name in PHASES}
        self.feed: Steady | None = None
        self.warm = 0.0
        """From when on releases come as they should."""
        self._mine = threading.local()
        self._over = threading.Event()
        self.told: list[str] = []
        self._begun = time.time()
        try:
            boot = self.cluster.boot
            self.admin = AdminClient({"bootstrap.servers": boot, "log_level": 0})
            with ThreadPoolExecutor(8) as pool:
                made = [pool.submit(Subject.make, boot, tmp, prefix, *play) for play in plays]
            self.subjects = [each.result() for each in made]
            self.feed = Steady(boot, self.subjects, seed)
            for subject in self.subjects:
                subject.begin()
            self._looks = threading.Thread(target=self._look, daemon=True)
            self._looks.start()
        except BaseException:
            self.close()
            raise

    def say(self, text: str) -> None:
        """What happens, for whoever reads the test's output."""
        self.told.append(f"{time.time() - self._begun:6.1f} s: {text}")
        print(self.told[-1], flush=True)

    @property
    def workers(self) -> list[Worker]:
        return [worker for subject in self.subjects for worker in subject.workers]

    def _look(self) -> None:
        while not self._over.wait(LOOK):
            for worker in self.workers:
                worker.look()

    # -- what brokers say
    # ------------------------------------------------------------

    def asker(self, group: str) -> Consumer:
        """A client of a group that is no member of it, of this thread alone."""
        mine = self._mine.__dict__.setdefault("askers", {})
        if group not in mine:
            mine[group] = Consumer(
                {
                    "bootstrap.servers": self.cluster.boot,
                    "group.id": group,
                    "enable.auto.commit": False,
                    "reconnect.backoff.max.ms": 200,
                    "log_level": 0,
                }
            )
        return mine[group]

    def end(self, topic: str, partition: int) -> int:
        """Where a log ends."""
        return self.asker("nobody").get_watermark_offsets(
            TopicPartition(topic, partition), timeout=10
        )[1]

    def last(self, topic: str, partition: int) -> tuple[bytes, bytes | None]:
        """Key and value of a partition's last record."""
        return phases.last(self.asker("nobody"), topic, partition)

    def left(self, subject: Subject, *, everything: bool = False) -> int:
        """Messages that the edge, or any role, has not acknowledged."""
        readers = [*subject.flow.topology.flow.readers()] if everything else [subject.edge]
        total = 0
        for role, agent in readers:
            places = [TopicPartition(agent.topic, n) for n in range(agent.partitions)]
            for place in self.asker(role.group).committed(places, timeout=10):
                total += self.end(place.topic, place.partition) - max(0, place.offset)
        return total

    def group(self, subject: Subject):
        """The edge's, as its coordinator describes it."""
        return self.admin.list_groups(subject.edge[0].group, timeout=10)[0]

    def state(self, subject: Subject) -> str:
        return self.group(subject).state

    def members(self, subject: Subject) -> int:
        return len(self.group(subject).members)

    def until(self, true: Callable[[], bool], limit: float = 60.0) -> None:
        """Wait for something."""
        end = time.time() + limit
        while True:
            try:
                if true():
                    return
            except KafkaException:
                pass
            assert time.time() < end, "it did not come about"
            time.sleep(0.05)

    # -- workers
    # ------------------------------------------------------------

    def pause(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            worker.pause()

    def resume(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            worker.resume()

    def end_worker(self, subject: Subject, worker: Worker) -> None:
        """In order."""
        subject.leave(worker)
        code = worker.process.wait(60)
        assert code == 0, f"{worker.log.name}: {code} on SIGTERM, with its brokers there"

    def revive(self) -> None:
        """Start again what has ended by itself, as a supervisor does."""
        for subject in self.subjects:
            for worker in list(subject.workers):
                if not worker.runs:
                    subject.workers.remove(worker)
                    subject.ended.append(worker)
                    subject.start(worker.role)

    # -- what happens
    # ------------------------------------------------------------

    def released(self, subject: Subject) -> dict[int, float]:
        """When brokers took the last release of each slot, of copies the first."""
        flow = subject.flow
        firsts: dict[bytes, tuple[int, float]] = {}
        for message in flow.read(flow.topology.releases_topic):
            if (slot := slot_of(message.value())) is not None:
                at = message.timestamp()[1] / 1000
                firsts.setdefault(message.key(), (slot, at))
        found: dict[int, float] = {}
        for slot, at in firsts.values():
            found[slot] = max(at, found.get(slot, at))
        return found

    def calm(self, seconds: float = CALM, limit: float = 120.0) -> None:
        """Wait until every topology releases what came just before, and for so long after that."""

        def follows() -> bool:
            newest = START + self.feed.slot
            return all(
                not subject.fed or max(self.released(subject), default=0) > newest - 8
                for subject in self.subjects
            )

        self.until(follows, limit)
        if not self.warm:
            self.warm = time.time()
        time.sleep(seconds)

    def arrange(self) -> None:
        """Have every topology in its phase, its workers stopped."""
        for _ in range(5):
            slow = [each for each in self.subjects if self.phases[each.phase].slow]
            fast = [each for each in self.subjects if each not in slow]
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda each: self._do("ready", each), self.subjects))
                held: list[float] = []
                for some in (slow, fast):
                    held += pool.map(self._hold, some)
            took = time.time() - min(held)
            if took < TOGETHER:
                self.say(f"in their phases, within {took:.1f} s: {self.held}")
                return
            self.say(f"not together: {took:.1f} s")
            self.resume(self.workers)
            for subject in self.subjects:
                self._do("over", subject)
            self.calm(2.0)
        raise AssertionError("phases never came together")

    def _do(self, step: str, subject: Subject) -> None:
        getattr(self.phases[subject.phase], step)(self, subject)

    def _hold(self, subject: Subject) -> float:
        for step in ("begin", "hold"):
            self._do(step, subject)
        return time.time()

    @property
    def held(self) -> dict[str, str]:
        """What showed that each was in its phase."""
        return {f"{each.kind} {each.phase}": each.held for each in self.subjects}

    def rehearse(self) -> None:
        """Everything but the outage: what that costs by itself."""
        self.arrange()
        self._go_on()
        self.calm()

    def _go_on(self) -> None:
        self.resume(self.workers)

    def outage(self, how: str, seconds: float) -> Outage:
        """Have the brokers away, while every topology is in its phase."""
        self.arrange()
        made = Outage(how, seconds, self.cluster.freeze())
        self.outages.append(made)
        self._go_on()
        if how == "stopped":
            self.cluster.kill()
        time.sleep(max(0.0, made.began + seconds - time.time()))
        groups = [group for subject in self.subjects for group in subject.groups]
        made.over = self.cluster.back(how, groups)
        self.say(str(made))
        for subject in self.subjects:
            self._do("over", subject)
        return made

    def settle(self, limit: float = 120.0) -> None:
        """Close every slot, and wait until everything is folded, acknowledged and saved."""
        self.feed.close()
        for subject in self.subjects:
            self.until(
                lambda subject=subject: self.left(subject, everything=True) == 0
                and not time.sleep(0.3)
                and self.left(subject, everything=True) == 0,
                limit,
            )
        for worker in self.workers:
            worker.tell_to_end()
        for worker in self.workers:
            worker.process.wait(60)

    def verdicts(self) -> dict[Subject, Verdict]:
        """Of every topology."""
        return dict(
            zip(
                map(id, self.subjects),
                judge_all([each.flow for each in self.subjects]),
                strict=True,
            )
        )

    def close(self) -> None:
        self._over.set()
        if self.feed is not None:
            self.feed.stop()
        for subject in self.subjects:
            subject.close()
        self.cluster.close()


def slot_of(value: bytes) -> int | None:
    """Of a release."""
    import json

    return json.loads(value).get("slot")
