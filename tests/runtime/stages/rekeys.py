"""A topic of somebody else's that is re-keyed, over lists: relays that die, go on as zombies and
are given each other's partitions between any two records that arrive; what the fold makes of our
log; and what it would make of the same events in a topic that is keyed by the user.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ldp_kafka.records import Request, Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message, Output, Record, Stage
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.stages.relaying import Mark, Relaying, relaying_of
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import Topology, loads
from tests.fold.cases import HERE, KEY, SLOT, START
from tests.fold.judge import said

TEXT = """
topology: bikes
kafka: {{bootstrap_servers: "h:1"}}
input: {{topic: theirs, slot: 1m, lateness: 1, hold: 3, partitions: {partitions}, max_ahead: 30d,
  per_slot: {per_slot}, idle: off{more}}}
privacy: {privacy}
output: {{{output}}}
edge: {{key_file: k}}
runtime: {{shards: 3, report_rows: 4}}
"""
SW = "{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}"
LPA = "{method: lpa, epsilon: 2.0, window: 3, domain: [0, 10]}"
CURATOR = (
    "{trust: curator, level: event, method: naive, epsilon: 2.0, delay: 4, setting: sliding,"
    " domain: [0, 10]}"
)
PARTITIONS, SOURCES = 3, 2
SLOTS, USERS = 6, 9
APART = 3 * 60  # slots between two sources
END = START + (SLOTS + SOURCES * APART + 10) * SLOT
Make = Callable[[Topology, int, Mark], Relaying]


def topology(
    *,
    rekey: bool = True,
    privacy: str = SW,
    per_slot: str = "mean",
    per_user: bool = False,
    partitions: int = PARTITIONS,
    sources: int = SOURCES,
    events: str = "$",
) -> Topology:
    """One that re-keys, or the same of a topic that is keyed by the user. Of one name, and so of
    one noise.
    """
    more = f", events: {events}" if events else ""
    if rekey:
        more += f", relay: rekey, sources: {sources}"
    else:
        more += ", partitioning: murmur2, create: false, closing: events"
    output = "statistics: [per_stream]" if "curator" in privacy else "statistics: [mean]"
    if per_user:
        output = "statistics: [mean, per_user], shrinkage: false"
    return loads(TEXT.format(**locals()))


def stage_of(of: Topology, partition: int) -> Any:
    """What folds our log."""
    agent = of.reader(of.raw_topic)[1]
    return roles.make(of, agent, partition, edge_randomness(of, KEY, HERE))


Event = tuple[str, int, float]


def events_of(dice: Random, sources: int = SOURCES, apart: int = APART) -> list[list[Event]]:
    """Of each source, in its order: hours apart from the others, and a slot late at most."""
    made = []
    for source in range(sources):
        found: list[Event] = []
        for slot in range(source * apart, source * apart + SLOTS):
            for user in range(USERS):
                for _ in range(dice.choice((0, 1, 1, 2))):
                    at = max(source * apart, slot - dice.choice((0, 0, 1)))
                    time = START + at * SLOT + dice.randrange(SLOT)
                    found.append((f"u{user}", time, dice.uniform(-1, 11)))
        made.append(found)
    return made


BAD = (b"{", b"[7]", json.dumps([{"user": "x", "time": START, "value": "no"}]).encode())
"""Messages with one bad row each."""


def messages_of(dice: Random, events: Sequence[Event]) -> list[bytes]:
    """As its owner writes them: in arrays, some of which hold a row that is no event."""
    made, left = [], list(events)
    while left:
        size = dice.choice((1, 1, 2, 4, 7))
        rows: list[Any] = [
            {"user": user, "time": time, "value": value} for user, time, value in left[:size]
        ]
        if dice.random() < 0.2:
            rows.insert(dice.randrange(len(rows) + 1), {"user": "x"})
        made.append(json.dumps(rows).encode())
        if dice.random() < 0.1:
            made.append(dice.choice(BAD))
        left = left[size:]
    return made


class World:
    """What brokers hold: the topic, what the group has committed, and our log."""

    def __init__(
        self, of: Topology, theirs: Sequence[Sequence[bytes]], make: Make = relaying_of
    ) -> None:
        self.topology, self.make = of, make
        self.theirs = [
            [Message(at, -1, value) for at, value in enumerate(values)] for values in theirs
        ]
        self.committed = [(0, Mark(0, -1, None)) for _ in theirs]
        self.owner: dict[int, Relay] = {}
        self.ours: list[list[Message]] = [[] for _ in range(of.input.partitions)]
        self.decided: int | None = None

    def add(self, partition: int, value: bytes) -> None:
        """A record arrives in our log."""
        log = self.ours[partition]
        log.append(Message(len(log) + 1, -1, value))

    def relay(self, *sources: int, **more: Any) -> Relay:
        """A new process that is given these partitions; whoever had them does not notice."""
        return Relay(self, sources, **more)


class Relay:
    """One process, as `ldp_kafka.runtime.kafka.relayer` works.

    Parameters
    ----------
    early : whether it commits before all has arrived, as it must not
    """

    def __init__(self, world: World, sources: Sequence[int], *, early: bool = False) -> None:
        self.world, self.early = world, early
        self.lines: dict[int, Relaying] = {}
        self.next: dict[int, int] = {}
        self.flight: list[deque[Record]] = [deque() for _ in world.ours]
        for source in sources:
            self.next[source], mark = world.committed[source]
            self.lines[source] = world.make(world.topology, source, mark)
            world.owner[source] = self

    def send(self, records: Sequence[Record]) -> None:
        """To the producer."""
        for record in records:
            self.flight[record.partition].append(record)

    def copy(self, source: int) -> bool:
        """One record, if it may be copied; else the tick that is due. Whether anything was done."""
        line, at = self.lines[source], self.next[source]
        line.hear(self.world.decided)
        if at >= len(self.world.theirs[source]):
            return False
        message = self.world.theirs[source][at]
        extent = line.extent(message)
        if not line.passes(extent):
            due = line.due(extent)
            if due is not None:
                self.tick(source, due)
            return due is not None
        self.send(line.copied(message, extent, None, ()))
        line.written(extent.time)
        self.next[source] = at + 1
        return True

    def tick(self, source: int, time: int) -> None:
        """Of a partition that is held back, or idle."""
        self.send(self.lines[source].ticks(self.next[source], time))
        self.lines[source].written(time)

    def arrive(self, partition: int, count: int = 10**9) -> None:
        """The first of what is under way to a partition."""
        flight = self.flight[partition]
        for _ in range(min(count, len(flight))):
            self.world.add(partition, flight.popleft().value)

    def commit(self) -> None:
        """How far it is, if all has arrived; refused of what is another's by now."""
        if any(self.flight) and not self.early:
            return
        for source, line in self.lines.items():
            if self.world.owner[source] is self:
                mark = Mark(0, line.time, line.decided)
                self.world.committed[source] = self.next[source], mark

    def finish(self, end: int = END) -> None:
        """All of it, then a tick of each partition; and all arrives."""
        for source in self.lines:
            while self.copy(source):
                pass
            self.tick(source, end)
        for partition in range(len(self.flight)):
            self.arrive(partition)
        self.commit()


def hunted(world: World, dice: Random, steps: int = 120, **more: Any) -> None:
    """Faults between any two records, until one relay is left that copies all."""
    every = range(len(world.theirs))
    live, gone = [world.relay(*every, **more)], list[Relay]()
    for _ in range(steps):
        one = dice.choice(live + gone)
        match dice.choice("ccccccaaaakkzsx"):
            case "c" if one.lines:
                source = dice.choice(sorted(one.lines))
                for _ in range(dice.choice((1, 1, 3, 10))):
                    one.copy(source)
            case "a":
                one.arrive(dice.randrange(len(world.ours)), dice.choice((1, 2, 5, 10**9)))
            case "k":
                one.commit()
            case "x" if one in live:  # killed: what was under way is gone, or half of it
                live.remove(one)
                live.append(world.relay(*one.lines, **more))
            case "z" if one in live:  # stopped, and another has its partitions; it goes on later
                live.remove(one)
                gone.append(one)
                live.append(world.relay(*one.lines, **more))
            case "s" if one in live:  # a rebalance: some of its partitions are a new one's
                given = [source for source in one.lines if dice.random() < 0.5]
                if given:
                    live.append(world.relay(*given, **more))
                    for source in given:
                        del one.lines[source]
    last = world.relay(*every, **more)
    zombie = dice.choice(gone) if gone else None
    if zombie is not None:
        for source in zombie.lines:
            for _ in range(8):
                zombie.copy(source)
    last.finish()
    if zombie is not None:  # it comes late
        for partition in range(len(world.ours)):
            zombie.arrive(partition)


def folded(stage: Stage[Any], log: Sequence[Message], dice: Random | None = None) -> Output:
    """All that a log gives; with dice, folded in runs of any length."""
    whole, state, at = Output(lambda *_: Record("", 0, None, b"")), stage.fresh(), 0
    while at < len(log):
        size = len(log) if dice is None else dice.choice((1, 2, 5, 30))
        found = stage.fold(state, log[at : at + size])
        whole.send(*found.sent)
        for name, count in found.counts.items():
            whole.count(name, count)
        at += size
    return whole


def told(
    stages: Sequence[Any], logs: Sequence[Sequence[Message]], dice: Random | None = None
) -> Any:
    """What comes of logs: each report or release and what it says, with how often it came; and the
    counts.
    """
    found: Counter[Any] = Counter()
    counts: Counter[str] = Counter()
    for number, (stage, log) in enumerate(zip(stages, logs, strict=True)):
        output = folded(stage, log, dice)
        counts.update(output.counts)
        topic = getattr(stage, "reports_topic", None)
        reports = [record for record in output.records if record.topic == topic]
        found.update(said(number, reports))
        found.update(each for each in output.records if each.topic.endswith(".releases"))
    return found, counts


def keyed(of: Topology, events: Sequence[Event], end: int = END) -> list[list[Message]]:
    """The same events in a topic that is keyed by the user: by time, one a record, then a tick."""
    logs: list[list[Message]] = [[] for _ in range(of.input.partitions)]
    homes = partitions_of([user for user, _, _ in events], len(logs)).tolist()
    for (user, time, value), home in sorted(zip(events, homes, strict=True), key=lambda e: e[0][1]):
        text = json.dumps([{"user": user, "time": time, "value": value}])
        logs[home].append(Message(len(logs[home]) + 1, -1, text.encode()))
    for log in logs:
        log.append(Message(len(log) + 1, -1, encode_json(Tick(end))))
    return logs


def asked(slot: int) -> bytes:
    """A request for a slot."""
    return encode_json(Request("x", slot, 1, 0, slot + 4))
