"""What the judge of the chaos harness says of a topology with a coordinator: nothing of what its
stages wrote, and of each record that is none of theirs what is wrong.
"""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace
from functools import cache

import pytest

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from tests import rounds as lines
from tests.broker.judge import rounds
from tests.broker.judge.logs import outcome
from tests.broker.judge.verdict import Verdict
from tests.rounds import NAMES
from tests.runtime.test_rounds_faults import PARTITIONS, Line

SLOTS = 14


class Read:
    """A record as a consumer gives it."""

    def __init__(self, partition, message, key):
        self._given = partition, message.offset, message.value, key

    def partition(self):
        return self._given[0]

    def offset(self):
        return self._given[1]

    def value(self):
        return self._given[2]

    def key(self):
        return self._given[3]

    def headers(self):
        return None

    def timestamp(self):
        return 0, 2**61  # no request is of a slot to come


class Kept:
    """The logs of a line in place of a flow's topics."""

    def __init__(self, line):
        self.topology, self.logs, self._noise = line.topology, line.logs, line.noise
        self.forged = set()

    def noise(self):
        return self._noise

    def read(self, topic):
        return [
            Read(number, message, self._key(topic, message.value))
            for (name, number), log in sorted(self.logs.items())
            if name == topic
            for message in log
        ]

    def raw(self):
        return [self.logs[self.topology.raw_topic, number] for number in range(PARTITIONS)]

    def _key(self, topic, value):
        if topic != self.topology.releases_topic:
            return None
        told = json.loads(value)
        return f"{told['statistic']}/{told['slot']}".encode()

    def change(self, topic, number, at, *values):
        """Other records in place of one."""
        log = self.logs[topic, number]
        rest = [message.value for message in log]
        rest[at : at + 1] = values
        log[:] = [Message(offset, -1, value) for offset, value in enumerate(rest)]

    def place(self, topic, number, wanted):
        """Where the first record is that is wanted."""
        return next(
            (at, message.value)
            for at, message in enumerate(self.logs[topic, number])
            if wanted(message.value)
        )


def judged(kept):
    verdict = Verdict()
    seen = outcome(kept, rounds.followed(kept, kept.raw()), verdict)
    rounds.check(kept, kept.raw(), seen, verdict)
    verdict.wrong = +verdict.wrong
    return verdict


def kept(name, **options):
    line = Line(name, **options)
    for slot in range(SLOTS):
        line.slot(slot)
    for slot in range(SLOTS, SLOTS + 9):
        for number in range(PARTITIONS):
            line.put(number, lines.tick(slot))
    return Kept(line)


@cache
def plain(name):
    """One that is never altered."""
    return kept(name)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_where_nothing_is_wrong(name):
    verdict = judged(plain(name))
    assert not verdict.wrong
    assert verdict.published > 2 and not verdict.late


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_late_is_approximated(name):
    """The forwarder is away until it has twelve requests to forward, each twice."""
    held, asked = [], []

    def forward(waits):
        held.extend(waits)
        asked.extend(waits)
        if 3 < len(asked) < 12:
            return []
        ready, held[:] = [*held, *held], []
        return ready

    verdict = judged(kept(name, forward=forward))
    assert not verdict.wrong
    assert verdict.late and verdict.published


def asks(value):
    return is_request(value) and read_request(value).epsilon > 0


def of_second(value):
    batch = read_reports(value)
    return batch is not None and batch.phase == 1 and len(batch) > 0


def one_partition_skipped(flow):
    at, _ = flow.place(flow.topology.raw_topic, 1, asks)
    flow.change(flow.topology.raw_topic, 1, at)


def asked_by_nobody(flow):
    at, value = flow.place(flow.topology.raw_topic, 0, asks)
    other = encode_json(replace(read_request(value), epsilon=1000))
    flow.change(flow.topology.raw_topic, 0, at, value, other)


def second_answer(flow):
    """Another request of the same slot is answered too, for as much as there is."""
    topic = flow.topology.reports_topic
    at, value = flow.place(topic, 0, of_second)
    batch = read_reports(value)
    values = (batch.values + 1) % 3
    cost = flow.topology.method.protocol.terms.budget
    again = replace(batch, bound=batch.bound + 10**6, values=values, cost=cost)
    flow.change(topic, 0, at, value, write_reports(again))


def other_values(flow):
    topic = flow.topology.reports_topic
    at, value = flow.place(topic, 0, of_second)
    batch = read_reports(value)
    flow.change(topic, 0, at, write_reports(replace(batch, values=(batch.values + 1) % 3)))


def no_answer(flow):
    topic = flow.topology.reports_topic
    at, _ = flow.place(topic, 0, of_second)
    flow.change(topic, 0, at)


def decided_anew(flow):
    topic = flow.topology.requests_topic
    at, value = flow.place(topic, 0, asks)
    flow.change(topic, 0, at, encode_json(replace(read_request(value), epsilon=7)), value)


def not_asked(flow):
    at, _ = flow.place(flow.topology.requests_topic, 0, asks)
    flow.change(flow.topology.requests_topic, 0, at)


def other_sums(flow):
    topic = flow.topology.sums_topic
    at, value = flow.place(topic, 0, lambda value: len(set(json.loads(value)["support"] or ())) > 2)
    told = json.loads(value)
    told["support"][1:] = told["support"][2:] + told["support"][1:2]
    flow.change(topic, 0, at, json.dumps(told, separators=(",", ":")).encode())


def released(flow, wanted, **changed):
    topic = flow.topology.releases_topic
    at, value = flow.place(topic, 0, lambda value: json.loads(value)["strategy"] == wanted)
    told = json.loads(value) | changed
    flow.change(topic, 0, at, json.dumps(told, separators=(",", ":")).encode())


def other_error(flow):
    released(flow, "publish", standard_error=[0.01, 0.01, 0.01])


def publication_of_nothing(flow):
    released(flow, "approximate", strategy="publish")


def other_approximation(flow):
    released(flow, "approximate", value=[0.5, 0.25, 0.25])


WRONG = {
    one_partition_skipped: "requests missing in a partition",
    asked_by_nobody: "requests that nobody forwarded",
    second_answer: "second reports",
    other_values: "reports that the protocol does not give",
    no_answer: "reports that the protocol gives, and nobody made",
    decided_anew: "different requests",
    not_asked: "missing requests",
    other_sums: "different sums",
    other_error: "publications of other values",
    publication_of_nothing: "published of nothing",
    other_approximation: "approximations of other values",
}


@pytest.mark.parametrize("alter", WRONG, ids=lambda alter: alter.__name__)
@pytest.mark.parametrize("name", ["lba", "lpa"])
def test_what_is_wrong_is_said(name, alter):
    flow = copy(plain(name))
    flow.logs = {place: list(log) for place, log in flow.logs.items()}
    alter(flow)
    found = judged(flow).wrong
    assert found[WRONG[alter]] > 0
    if alter is second_answer:
        assert found["users over budget"] > 0
