"""Everything that a fault can happen to: brokers, two worker processes that run every topology,
their disks and clocks, and a supervisor.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.brokers.local_kafka import KafkaServer
from tests.broker.askers import Askers
from tests.broker.chaos.crew import AGAIN, AWAY, BETWEEN, CLOCK
from tests.broker.chaos.feed import Feed
from tests.broker.chaos.judge import Verdict, judge_all
from tests.broker.chaos.place import Place, alive
from tests.broker.flow import Flow, client
from tests.broker.test_methods import flow_of

REPO = Path(__file__).parents[3]
SESSION = 6.0  # seconds, of the topologies
STARTING = threading.Lock()  # two that look for a free port at a time find the same
DISPATCH = (
    "import numpy._core._multiarray_umath as m; print(' '.join(x for x in m.__cpu_dispatch__ if"
    " m.__cpu_features__[x]))"
)


def cpu_features() -> list[str]:
    """What numpy chooses by at run time on this machine; some are left out on the second worker, so
    that it computes as another CPU would.
    """
    return subprocess.run(
        [sys.executable, "-c", DISPATCH], capture_output=True, text=True, check=True
    ).stdout.split()


@dataclass
class Crew:
    """A worker machine, one group of processes: what it runs with, and whether it is down on
    purpose.
    """

    number: int
    scratch: Place
    clock: Path
    log: Path
    process: subprocess.Popen | None = None
    disabled: list[str] = field(default_factory=list)
    held: bool = False
    """Not to be started again by the supervisor."""
    starts: int = 0
    begun: float = 0.0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tell(self) -> None:
        """Have its processes write where they stand into the log."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)

    @property
    def retried(self) -> int:
        """How often one of its processes asked to be started again."""
        return self.log.read_text(errors="replace").count(AGAIN) if self.log.exists() else 0

    @property
    def crashed(self) -> int:
        """How often one of its processes was ended by a signal that nobody had sent: native code
        that crashed, at which a supervisor shrugs as at any other death.
        """
        ends = (
            re.findall(r" ended with -(\d+)$", self.log.read_text(errors="replace"), re.MULTILINE)
            if self.log.exists()
            else []
        )
        return sum(int(number) not in (signal.SIGKILL, signal.SIGTERM) for number in ends)

    def signal(self, number: int) -> None:
        """To all of its processes."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    @property
    def pids(self) -> list[int]:
        """Of its workers."""
        assert self.process is not None
        return [
            int(pid)
            for pid in subprocess.run(
                ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
            ).stdout.split()
        ]

    @property
    def said(self) -> str:
        """The end of what it wrote."""
        return self.wrote(4000)

    def wrote(self, characters: int) -> str:
        """So much of the end of what it wrote."""
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""


class World:
    """Brokers, topologies, workers, input; faults call its methods.

    Parameters
    ----------
    nodes : of the cluster, 1 or 3
    methods : one topology each, by what `tests.broker.test_methods.flow_of` knows it as
    seed : of everything that is random but the workers
    """

    def __init__(
        self, tmp: Path, prefix: str, nodes: int, methods: list[str], seed: int, **environment: str
    ) -> None:
        self.random, self.tmp, self.nodes = random.Random(seed), tmp, nodes
        self.names = methods
        self.environment = environment
        self.disk = Place(tmp / "kafka", 700 * nodes)
        self.server = KafkaServer("4.3.1", tmp / "kafka", nodes=nodes)
        self.crews = [
            Crew(n, Place(tmp / f"scratch-{n}", 8), tmp / f"clock-{n}", tmp / f"crew-{n}.log")
            for n in (0, 1)
        ]
        self.between = tmp / "between"
        """Begins the names of files that kill a topology's forwarder, see `crew`."""
        self.features = cpu_features()
        self.crews[1].disabled = list(self.features)
        self.faults: list[tuple[str, str]] = []
        """What happened, and what became of it."""
        self.unexpected: list[str] = []
        self.feed: Feed | None = None
        self.flows: list[Flow] = []
        self._askers: Askers | None = None
        try:
            with STARTING:
                self.boot = self.server.start().bootstrap_servers
            self._askers = Askers(self.boot)
            self.admin = AdminClient(client(self.boot))
            with ThreadPoolExecutor(12) as pool:
                self.flows = list(pool.map(lambda method: self.make(prefix, method), methods))
        except BaseException:
            self.close()
            raise

    def make(self, prefix: str, method: str) -> Flow:
        """A topology and its topics. Of three nodes one may not know a topic yet that another has
        just made: `prepare` says so, and is asked again as an operator would.
        """
        for _ in range(10):
            try:
                return flow_of(self.boot, self.tmp, prefix, method)
            except BrokerError as error:
                if "UNKNOWN_TOPIC_OR_PART" not in str(error):
                    raise
                time.sleep(1)
        raise BrokerError("the nodes never agreed on what topics there are")

    def begin(self, seed: int) -> None:
        """Start input and workers, and wait until they are at work."""
        self.feed = Feed(self.flows, seed)
        for crew in self.crews:
            self.start(crew)
        if not self.steady(120):
            self.unexpected.append("the workers were not at work after 120 s")

    # -- workers
    # ------------------------------------------------------------

    @property
    def retried(self) -> int:
        """How often a process asked to be started again."""
        return sum(crew.retried for crew in self.crews)

    def start(self, crew: Crew, away: str = "") -> None:
        """A new process, whatever became of the last one, without the roles that are ``away``."""
        environment = {
            **os.environ,
            **self.environment,
            CLOCK: str(crew.clock),
            AWAY: away,
            BETWEEN: str(self.between),
            "TMPDIR": str(crew.scratch.path),
        }
        if crew.disabled:
            environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(crew.disabled)
        words = [
            sys.executable,
            "-m",
            "tests.broker.chaos.crew",
            *(str(flow.path) for flow in self.flows),
        ]
        with crew.log.open("ab") as log:
            log.write(f"--- start {crew.starts}\n".encode())
            crew.process = subprocess.Popen(
                words, stdout=log, stderr=log, cwd=REPO, env=environment, process_group=0
            )
        crew.starts, crew.held, crew.begun = crew.starts + 1, False, time.time()

    def end(self, crew: Crew, number: int = signal.SIGKILL, limit: float = 60.0) -> int:
        """End a process on purpose; its exit code."""
        crew.held = True
        process = crew.process
        assert process is not None
        if process.poll() is None:
            crew_or_all = crew.signal if number == signal.SIGKILL else process.send_signal
            crew_or_all(number)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            crew.tell()
            time.sleep(1)
            self.unexpected.append(f"crew {crew.number} did not end in {limit:g} s: {crew.said}")
            crew.signal(signal.SIGKILL)
            return process.wait()

    def leave(self, crew: Crew) -> None:
        """End it gracefully: each of its processes must say 0, or 75 where something else had
        happened to it. One that was only just started may not know yet what to do then.
        """
        young = time.time() - crew.begun < 30
        code = self.end(crew, signal.SIGTERM)
        if code and not (young and code == -signal.SIGTERM):
            self.unexpected.append(
                f"crew {crew.number} ended with {code} on SIGTERM: {crew.said[-600:]}"
            )

    def supervise(self) -> None:
        """A machine starts again what asks for it; that it ends by itself is wrong."""
        for crew in self.crews:
            if not crew.held and not crew.running and crew.process is not None:
                self.unexpected.append(
                    f"crew {crew.number} ended with {crew.process.returncode}: {crew.said[-1500:]}"
                )
                self.start(crew)

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        until = time.time() + seconds
        while time.time() < until:
            time.sleep(0.1)
            self.supervise()

    def until(self, true, limit: float) -> bool:
        """Wait for something, for so long at most."""
        end = time.time() + limit
        while not (found := self.answered(true)):
            if time.time() > end:
                return False
            self.pause(0.3)
        return bool(found)

    @staticmethod
    def answered(ask):
        """What a broker says; None where it does not answer."""
        try:
            return ask()
        except KafkaException:
            return None

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

    def write(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        """Append one record."""
        producer = Producer(client(self.boot))
        failed: list[object] = []
        producer.produce(
            topic,
            value,
            key,
            partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if producer.flush(30) or failed:
            raise BrokerError(f"{topic} was not written")

    @property
    def asked(self) -> list[Flow]:
        """Those whose coordinator asks."""
        return [flow for flow in self.flows if flow.topology.flow.requests is not None]

    @property
    def curated(self) -> list[Flow]:
        """Those with a curator."""
        return [flow for flow in self.flows if flow.topology.curated]

    # -- what brokers say
    # ------------------------------------------------------------

    def groups(self) -> dict[str, str]:
        """{group: role}, a forwarder's with that of its processes."""
        return {
            group: role.name
            for flow in self.flows
            for role in flow.topology.roles
            for group in (role.group, *([role.forward.group] if role.forward else []))
        }

    def stable(self, members: int | None = None) -> bool:
        """Whether every group has so many members, by default one in every crew that runs, and has
        given out its partitions.
        """
        return not self.unstable(members)

    def unstable(self, members: int | None = None) -> dict[str, str]:
        """{group: how it stands} of all others."""
        members = sum(crew.running for crew in self.crews) if members is None else members
        # A client forgets a node that is away, and asks it for nothing until it hears of it again
        self.admin.list_topics(timeout=5)
        # The old call, as librdkafka ends the process (an assertion) where a broker is lost during
        # the new one
        found = {group.id: group for group in self.admin.list_groups(timeout=5)}
        stands = {
            name: f"{found[name].state}, {len(found[name].members)} members"
            if name in found
            else "unknown"
            for name in self.groups()
        }
        return {name: how for name, how in stands.items() if how != f"Stable, {members} members"}

    def steady(self, limit: float = 30.0) -> bool:
        """Wait until every group is stable; whether they are."""
        return self.until(self.stable, limit)

    def logs(self, flow: Flow) -> list[tuple[str, TopicPartition]]:
        """(group, place) of all that a topology's agents fold, and that is forwarded."""
        found = []
        for role in flow.topology.roles:
            for agent in role.agents:
                places = [TopicPartition(agent.topic, p) for p in range(agent.partitions)]
                found += [(role.group, place) for place in places]
            if role.forward is not None:
                found.append((role.forward.group, TopicPartition(role.forward.reads.name, 0)))
        return found

    def ends(self, places: list[TopicPartition]) -> dict[tuple[str, int], int]:
        """Where logs end."""
        return {(place.topic, place.partition): self._askers.end(place, 5) for place in places}

    def stands(self, group: str, places: list[TopicPartition]) -> dict[tuple[str, int], int]:
        """Committed offsets, 0 where there are none."""
        return {
            (p.topic, p.partition): max(0, p.offset)
            for p in self._askers.committed(group, places, 5)
        }

    def left(self, flows: list[Flow] | None = None, upto: dict | None = None) -> int:
        """Records that are not yet folded and acknowledged, of the logs as they are, or as they
        were.
        """
        return sum(self.behind(flows, upto).values())

    def behind(
        self, flows: list[Flow] | None = None, upto: dict | None = None
    ) -> dict[tuple[str, int], int]:
        """The same by partition."""
        logs: dict[str, list[TopicPartition]] = defaultdict(list)
        for flow in self.flows if flows is None else flows:
            for group, place in self.logs(flow):
                logs[group].append(place)
        ends = (
            self.ends([place for places in logs.values() for place in places])
            if upto is None
            else upto
        )
        stands = {
            at: offset
            for group, places in logs.items()
            for at, offset in self.stands(group, places).items()
        }
        return {at: end - stands[at] for at, end in ends.items() if end > stands.get(at, end)}

    def raw_ends(self, flow: Flow) -> dict[tuple[str, int], int]:
        """Where a raw topic ends now: `acknowledged` waits until that is folded."""
        return self.ends(
            [
                TopicPartition(flow.topology.raw_topic, p)
                for p in range(flow.topology.input.partitions)
            ]
        )

    def acknowledged(
        self, flow: Flow, upto: dict[tuple[str, int], int], limit: float = 90.0
    ) -> bool:
        """Wait until a raw log is folded and acknowledged so far; where it is not, say what is
        left, and have the crews write where they stand.
        """
        done = self.until(lambda: self.left([flow], upto) == 0, limit)
        if not done:
            print(f"left after {limit:g} s: {self.behind([flow], upto)}")
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
        assert self.feed is not None
        for crew in self.crews:
            crew.clock.unlink(missing_ok=True)
            if crew.held:
                self.start(crew)
        self.feed.close()
        # What is left of one log becomes the next one's, and there are so many in a row
        row = max(
            len([*flow.topology.flow.readers()]) + 2 * (flow.topology.flow.requests is not None)
            for flow in self.flows
        )
        if not self.until(
            lambda: all(self.left() == 0 and not time.sleep(0.5) for _ in range(row)), limit
        ):
            by = self.answered(self.behind)
            for crew in self.crews:
                crew.tell()
            time.sleep(1)
            said = "\n".join(crew.wrote(40_000) for crew in self.crews)
            self.unexpected.append(f"records are not folded after {limit:g} s: {by}\n{said}")
        marks = self.marks()
        for crew in self.crews:
            self.leave(crew)
        if self.heard(marks, "ldp-kafka: ", ("ending in order came to nothing",)):
            said = "\n".join(crew.said for crew in self.crews)
            self.unexpected.append(f"a worker hung in its end, and nothing was wrong: {said}")

    def verdicts(self) -> dict[str, Verdict]:
        """Of every method; a raw record that a broker has acknowledged must be there."""
        assert self.feed is not None
        found = dict(zip(self.names, judge_all(self.flows), strict=True))
        for name, flow in zip(self.names, self.flows, strict=True):
            there = {
                (m.partition(), m.offset(), m.value()) for m in flow.read(flow.topology.raw_topic)
            }
            taken = self.feed.taken[flow.topology.raw_topic]
            assert taken, "nothing was ever acknowledged"
            if lost := len(taken - there):
                found[name].wrong["lost events"] = lost
        return found

    def close(self) -> None:
        """End everything that was started."""
        if self.feed is not None:
            self.feed.stop()
        for crew in self.crews:
            if crew.running:
                crew.signal(signal.SIGKILL)
                crew.process.wait()
            crew.scratch.close()
        if self._askers is not None:
            self._askers.close()
        for flow in self.flows:
            flow.close()
        self.disk.free()
        self.server.stop()
        self.disk.close()

    def pids(self) -> list[int]:
        """Of the brokers."""
        return [pid for pid in self.server.pids().values() if alive(pid)]
