"""Faults in the middle of rounds: a coordinator that is away, requests that come twice and out of
order, a partition without events, a backlog. What is released comes in order, the budgets hold, and
what could not be asked any more is approximated and counted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque

import numpy as np
import pytest

from ldp_kafka.accounting import MICRO
from ldp_kafka.randomness import Ids
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.reports import read_reports
from tests import rounds
from tests.fold import cases
from tests.rounds import FIRST_SLOT, NAMES

USERS, PARTITIONS = 24, 2
WINDOW, HOLD = 4, 2


class Line:
    """All stages over lists, with a forwarder that a test can hold back.

    Parameters
    ----------
    name : of the protocol
    forward : what is done with requests that wait, after each message of the raw logs
    """

    def __init__(self, name, forward=lambda waits: waits):
        self.topology = of = rounds.topology(
            name, PARTITIONS, lateness=0, hold=HOLD, window=WINDOW, epsilon=8.0
        )
        self.noise = cases.randomness(of)
        agents = [agent for _, agent in of.flow.readers()]
        self.stages = {
            (agent.topic, number): roles.make(of, agent, number, self.noise)
            for agent in agents
            for number in range(agent.partitions)
        }
        self.states = {place: stage.fresh() for place, stage in self.stages.items()}
        self.logs = defaultdict(list)
        self.counts = defaultdict(Counter)
        self.requests, self.forward = [], forward
        self.asleep = set()
        """Topics that nobody reads for now."""
        self._waiting = deque()

    def put(self, number, value):
        """One message in a raw partition, and all that it leads to."""
        self._append(self.topology.raw_topic, number, value)
        self.drain()
        ready, self.requests = self.requests, []
        for each in self.forward(ready):
            for partition in range(PARTITIONS):
                self._append(self.topology.raw_topic, partition, each)
        self.drain()

    def awake(self, topic):
        """Somebody reads it again, from where it was left."""
        self.asleep.discard(topic)
        self.drain()

    def _append(self, topic, partition, value):
        log = self.logs[topic, partition]
        log.append(Message(len(log), -1, value))
        if (topic, partition) in self.stages:
            self._waiting.append((topic, partition, log[-1]))

    def drain(self):
        later = deque()
        while self._waiting:
            topic, partition, message = self._waiting.popleft()
            if topic in self.asleep:
                later.append((topic, partition, message))
                continue
            folded = self.stages[topic, partition].fold(self.states[topic, partition], [message])
            self.counts[topic].update(folded.counts)
            for record in folded.records:
                self._append(record.topic, record.partition, record.value)
                if record.topic == self.topology.requests_topic:
                    self.requests.append(record.value)
        self._waiting = later

    # what came of it

    def slot(self, slot, *, only=range(PARTITIONS), quiet=()):
        """Everybody's values of one slot; ``quiet`` partitions have a tick."""
        for number in only:
            value = slot // 2 % 3
            rows = [(f"u{number}.{user}", slot, value if user % 6 else 1) for user in range(USERS)]
            self.put(number, rounds.tick(slot) if number in quiet else rounds.batch(rows))

    def releases(self):
        return [json.loads(m.value) for m in self.logs[self.topology.releases_topic, 0]]

    def strategies(self):
        return "".join(each["strategy"][0] for each in self.releases())

    def asked(self):
        found = [json.loads(m.value) for m in self.logs[self.topology.requests_topic, 0]]
        return [each["slot"] - FIRST_SLOT for each in found if each["epsilon"]]

    def check(self, slots):
        """Releases of all slots in order, none twice; no user above its budget, and no two reports
        of one phase of a slot.
        """
        assert [each["slot"] for each in self.releases()][:slots] == list(
            range(FIRST_SLOT, FIRST_SLOT + slots)
        )
        assert not self.logs[self.topology.dead_letters_topic, 0]
        assert not self.logs[self.topology.collector_dead_letters_topic, 0]
        terms = self.topology.method.protocol.terms
        for number in range(PARTITIONS):
            digests = self.noise.digests(Ids.of([f"u{number}.{user}" for user in range(USERS)]))
            whose, spent = {}, defaultdict(Counter)
            for slot in range(FIRST_SLOT, FIRST_SLOT + slots + 9):
                for phase in (0, 1):
                    names = self.noise.report_ids(digests, np.full(USERS, slot), phase)
                    whose |= {name.tobytes(): (user, slot) for user, name in enumerate(names)}
            seen = set()
            for message in self.logs[self.topology.reports_topic, number]:
                made = read_reports(message.value)
                for name in made.ids:
                    assert name.tobytes() not in seen
                    seen.add(name.tobytes())
                    user, slot = whose[name.tobytes()]
                    spent[user][slot] += made.cost or terms.first
            assert all(
                sum(by[slot - back] for back in range(WINDOW)) <= terms.budget
                for by in spent.values()
                for slot in range(FIRST_SLOT, FIRST_SLOT + slots + 9)
            )
        told = [each["round"]["epsilon"]["largest"] * MICRO for each in self.releases()]
        assert max(told) <= terms.budget


def everything(name, slots=16, **options):
    """A line that has folded so many slots."""
    line = Line(name, **options)
    for slot in range(slots):
        line.slot(slot)
    return line


@pytest.mark.parametrize("name", NAMES)
def test_nothing_goes_wrong(name):
    """What faults are compared with: nothing is late, and what is asked is published."""
    line = everything(name)
    line.check(15)
    counts = line.counts[line.topology.raw_topic]
    assert (counts["requests_late"], counts["requests_refused"]) == (0, 0)
    assert line.strategies().count("p") == len(line.asked()) > 3
    assert line.counts[line.topology.sums_topic]["overdue"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_coordinator_is_away_for_ten_slots(name):
    """The slots in between are released when it is back, as approximations but for the last ones,
    whose values are still held. It reads its log as it would have then, and asks in vain; what
    that used up comes back with the window.
    """
    line = Line(name)
    for slot in range(24):
        if slot == 5:
            line.asleep.add(line.topology.sums_topic)
        if slot == 15:
            assert len(line.releases()) == 4
            line.awake(line.topology.sums_topic)
        line.slot(slot)
    line.check(23)
    settled = 14 - 1 - HOLD  # when it came back
    assert set(line.strategies()[4 : settled + 1]) == {"a"}
    assert line.counts[line.topology.raw_topic]["requests_late"] >= PARTITIONS * (settled - 3)
    assert "p" in line.strategies()[settled + 1 :][: 2 * WINDOW]


@pytest.mark.parametrize("name", NAMES)
def test_slots_that_come_all_at_once(name):
    """A gateway that was away brings eight slots in one message: nobody is asked for those that are
    settled when the coordinator comes to them, and nothing is used up for them.
    """
    line = Line(name)
    for slot in range(4):
        line.slot(slot)
    for number in range(PARTITIONS):
        rows = [(f"u{number}.{user}", slot, 2) for slot in range(4, 12) for user in range(USERS)]
        line.put(number, rounds.batch(rows))
    for slot in range(12, 20):
        line.slot(slot)
    line.check(19)
    settled = 11 - 1 - HOLD
    overdue = line.counts[line.topology.sums_topic]["overdue"]
    asked = [slot for slot in line.asked() if 4 <= slot <= settled]
    assert len(asked) <= 1  # the first one that it looks at
    assert overdue in (settled - 4, settled - 3)
    assert set(line.strategies()[4 : settled + 1]) == {"a"}
    assert "p" in line.strategies()[settled + 1 :]


@pytest.mark.parametrize("name", NAMES)
def test_requests_come_late(name):
    """The forwarder is away for ten slots, the coordinator is not: a slot that it waits for is
    approximated at its deadline, and the next one decided then.
    """
    kept = []

    def forward(waits):
        kept.extend(waits)
        if len(line.releases()) < 4 or len(line.logs[line.topology.raw_topic, 0]) >= 20:
            ready, kept[:] = list(kept), []
            return ready
        return []

    line = Line(name, forward)
    for slot in range(30):
        line.slot(slot)
    line.check(27)
    counts = line.counts[line.topology.raw_topic]
    assert counts["requests_late"] > 4
    assert "p" in line.strategies()[-8:]


@pytest.mark.parametrize("name", NAMES)
def test_requests_come_twice_and_out_of_order(name):
    """By runs of three, the last first, each twice: who comes too late is not answered, and nobody
    answers twice.
    """
    kept = []

    def forward(waits):
        kept.extend(waits)
        if len(kept) < 2:
            return []
        ready, kept[:] = [*kept[::-1], *kept], []
        return ready

    line = everything(name, 24, forward=forward)
    line.check(20)
    counts = line.counts[line.topology.raw_topic]
    assert counts["requests_late"] >= counts["requests"] > 0
    plain = everything(name, 24)
    assert line.strategies().count("p") < plain.strategies().count("p")
    assert "p" in line.strategies()


@pytest.mark.parametrize("name", NAMES)
def test_repeated_requests_change_nothing(name):
    """Each at once, and again, and all of the last ten once more."""
    told = []

    def forward(waits):
        told.extend(waits)
        return [*waits, *waits, *(told[-10:] if waits else [])]

    line, plain = everything(name, forward=forward), everything(name)
    line.check(15)
    assert line.releases() == plain.releases()


@pytest.mark.parametrize("name", NAMES)
def test_an_idle_partition(name):
    """Nothing comes out while a partition is silent; with a tick it goes on, by the other one's
    reports.
    """
    line = Line(name)
    for slot in range(4):
        line.slot(slot)
    before = len(line.releases())
    for slot in range(4, 8):
        line.slot(slot, only=[0])
    assert len(line.releases()) == before
    for slot in range(8, 20):
        line.slot(slot, quiet=[1] if slot < 14 else [])
    line.check(19)
    halves = [sum(each["round"]["reports"]) for each in line.releases()]
    assert 0 < max(halves[9:13]) < max(halves)
    assert "p" in line.strategies()[9:]


@pytest.mark.parametrize("name", NAMES)
def test_a_backlog_of_fifty_slots(name):
    """All of it is folded at the edge before a request comes: approximated, counted, and what comes
    after it is asked and published.
    """
    line = Line(name)
    line.asleep = {line.topology.reports_topic}
    for slot in range(50):
        line.slot(slot)
    line.awake(line.topology.reports_topic)
    assert len(line.releases()) >= 47
    for slot in range(50, 62):
        line.slot(slot)
    line.check(60)
    said = line.strategies()
    assert said[: 48 - HOLD] == "a" * (48 - HOLD)
    assert "p" in said[48:]
    late = line.counts[line.topology.raw_topic]["requests_late"]
    assert late >= PARTITIONS * (48 - HOLD)
