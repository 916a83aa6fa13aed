"""Worlds of the four stages of a topology whose coordinator asks: what they fold, and who judges
it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from ldp_kafka.randomness import Ids, Keyed
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import Topology
from tests import rounds
from tests.fold import cases
from tests.fold.driver import Recipe, World
from tests.fold.judge import Judge, behind

AGENTS = ("perturb", "collect", "merge", "coordinate")
USERS = 12  # of a partition


@dataclass(frozen=True)
class Case:
    """One run of all stages: what each of them folds.

    Parameters
    ----------
    raw, reports : by partition; the raw logs with their requests
    partials, sums : of one partition
    """

    topology: Topology
    raw: list[list[Message]]
    reports: list[list[Message]]
    partials: list[list[Message]]
    sums: list[list[Message]]

    def logs(self, agent: str) -> list[list[Message]]:
        """What an agent folds."""
        return dict(zip(AGENTS, (self.raw, self.reports, self.partials, self.sums), strict=True))[
            agent
        ]

    def make(self, agent: str, number: int) -> Stage[Any]:
        noise = cases.randomness(self.topology) if agent == "perturb" else None
        return roles.make(self.topology, agent, number, noise)


def events(number: int, slots: Sequence[int], *, twice: bool = False) -> list[bytes]:
    """Most of a partition in each of these slots, up to five events a message; they move all at
    once, so that there is something to publish. With ``twice`` another value comes first.
    """
    values = []
    for at, slot in enumerate(slots):
        rows = [
            (f"u{number}.{user}", slot, at % 3 if user else 1)
            for user in range(USERS)
            if (user + at) % 5
        ]
        if twice:
            rows = [*((user, slot, (value + 1) % 3) for user, slot, value in rows), *rows]
        values += [rounds.batch(rows[first : first + 5]) for first in range(0, len(rows), 5)]
    return values


@cache
def case(
    name: str,
    partitions: int = 1,
    slots: int = 6,
    *,
    twice: bool = False,
    per_slot: str = "first",
) -> Case:
    """Of a protocol; with ``twice`` every log but the raw ones has parts that come again, as one
    who was killed writes them.
    """
    of = rounds.topology(name, partitions, lateness=0, hold=2, epsilon=8.0, per_slot=per_slot)
    several = per_slot != "first"
    when = [*range(slots - 1), slots + 5, slots + 6]  # further than values are held
    given = [
        rounds.messages(
            [
                *events(number, when, twice=several),
                rounds.tick(slots + 7),
                rounds.tick(slots + 11),
            ]
        )
        for number in range(partitions)
    ]
    run = local.run(of, cases.randomness(of), given)
    raw = [rounds.messages([message.value or b"" for message in log]) for log in run.raw]
    reports = []
    for number, log in enumerate(raw):
        stage = roles.make(of, "perturb", number, cases.randomness(of))
        made = stage.fold(stage.fresh(), log).records
        reports.append([each for each in made if each.topic == of.reports_topic])
    reports = [again(log) if twice else log for log in reports]
    partials, sums = downstream(of, reports)[:2]
    partials, sums = (again(log) if twice else log for log in (partials, sums))
    return Case(
        of,
        raw,
        [local.log(log, 1) for log in reports],
        [local.log(partials, 1)],
        [local.log(sums, 1)],
    )


def again(records: list[Record]) -> list[Record]:
    """With parts of them once more, as of somebody who was killed after every few."""
    return [each for at in range(0, len(records), 5) for each in records[max(0, at - 3) : at + 5]]


def downstream(
    of: Topology, reports: Sequence[Sequence[Record]]
) -> tuple[list[Record], list[Record], list[Record]]:
    """Partials, sums, and all else that the collector's side makes of reports as they were
    written: releases, requests, dead letters.
    """
    partials: list[Record] = []
    rest: list[Record] = []
    for number, records in enumerate(reports):
        collect = behind(of, "collect", number)
        partials += collect.fold(collect.fresh(), local.log(records, 1)).records
    rest += [each for each in partials if each.topic != of.partials_topic]
    partials = [each for each in partials if each.topic == of.partials_topic]
    merge = behind(of, "merge", 0)
    sums = merge.fold(merge.fresh(), local.log(partials, 1)).records
    rest += [each for each in sums if each.topic != of.sums_topic]
    sums = [each for each in sums if each.topic == of.sums_topic]
    decides = behind(of, "coordinate", 0)
    rest += decides.fold(decides.fresh(), local.log(sums, 1)).records
    return partials, sums, rest


@lru_cache(512)
def _led_to(of: Topology, reports: tuple[tuple[Record, ...], ...]) -> set[Any]:
    return {(each.topic, each.key, each.value) for each in downstream(of, reports)[2]}


class AnswerJudge(Judge):
    """Looks at each report by itself, as an outside consumer would, at what the collector's side
    makes of them, and at every user's budget.
    """

    def __init__(self, topology: Topology, noise: Keyed, logs: Sequence[Sequence[Message]]) -> None:
        super().__init__(lambda number: roles.make(topology, "perturb", number, noise), logs)
        self.topology, self.noise = topology, noise

    @cached_property
    def expected(self) -> dict[tuple[int, bytes], Any]:
        return dict(
            item
            for number, pure in enumerate(self.pure)
            for item in self.said(number, pure.records)
        )

    @cached_property
    def decided(self) -> set[Any]:
        """By the reports of the straight fold."""
        return self.led_to([self.reports(pure.records) for pure in self.pure])

    def reports(self, records: Sequence[Record]) -> list[Record]:
        return [record for record in records if record.topic == self.topology.reports_topic]

    def led_to(self, reports: Sequence[Sequence[Record]]) -> set[Any]:
        return _led_to(self.topology, tuple(map(tuple, reports)))

    def said(self, number: int, records: Sequence[Record]) -> list[tuple[tuple[int, bytes], Any]]:
        """Each report: its place and id, and all that it says, its cost too."""
        return [
            ((number, name), what)
            for record in self.reports(records)
            for name, what in _singles(record.value)
        ]

    def outcome(self, world: World) -> None:
        of = self.topology
        written = [world.topics[of.reports_topic, number] for number in range(len(self.logs))]
        seen: dict[tuple[int, bytes], set[Any]] = defaultdict(set)
        for number, records in enumerate(written):
            for name, what in self.said(number, records):
                seen[name].add(what)
        if seen.keys() - self.expected.keys():
            self.complaints.add("unknown report")
        if self.expected.keys() - seen.keys():
            self.complaints.add("missing report")
        if any(what != {self.expected.get(name)} for name, what in seen.items()):
            self.complaints.add("second report")
        if self.overspent(seen):
            self.complaints.add("over budget")
        dead = {
            (record.value, record.headers)
            for (topic, _), records in world.topics.items()
            if topic == of.dead_letters_topic
            for record in records
        }
        if dead != {
            (record.value, record.headers)
            for pure in self.pure
            for record in pure.records
            if record.topic == of.dead_letters_topic
        }:
            self.complaints.add("dead letters")
        if self.led_to(written) != self.decided:
            self.complaints.add("different release")

    @cached_property
    def users(self) -> dict[bytes, tuple[str, int]]:
        """Whose report, and of which slot, an id is: as only the edge can tell."""
        slots = {slot for slot, *_ in self.expected.values()}
        names = [f"u{number}.{user}" for number in range(2) for user in range(USERS)]
        digests = self.noise.digests(Ids.of(names))
        return {
            row.tobytes(): (name, slot)
            for slot in slots
            for phase in (0, 1)
            for name, row in zip(
                names,
                self.noise.report_ids(digests, np.full(len(names), slot), phase),
                strict=True,
            )
        }

    def overspent(self, seen: dict[tuple[int, bytes], set[Any]]) -> bool:
        """Whether any user, in any run of the window, said more than the budget allows: each
        different report costs.
        """
        terms = self.topology.method.protocol.terms
        spent: dict[str, Counter[int]] = defaultdict(Counter)
        for (_, name), what in seen.items():
            if name in self.users:
                user, slot = self.users[name]
                spent[user][slot] += sum(cost or terms.first for _, _, cost, *_ in what)
        return any(
            sum(by[slot - back] for back in range(terms.window)) > terms.budget
            for by in spent.values()
            for slot in list(by)
        )


@lru_cache(4096)
def _singles(value: bytes) -> list[tuple[bytes, Any]]:
    """Of a batch: each id, and all that its report says."""
    made = read_reports(value)
    assert made is not None
    shared = made.phase, made.cost, made.scale
    return [
        (made.ids[at].tobytes(), (int(made.slots[at]), *shared, made.values[at].tobytes()))
        for at in range(len(made))
    ]


def world(given: Case, agent: str, recipe: Recipe | None = None) -> World:
    """A world in which an agent folds its logs."""
    logs = given.logs(agent)

    def make(number: int) -> Stage[Any]:
        return given.make(agent, number)

    def judge() -> Judge:
        if agent == "perturb":
            return AnswerJudge(given.topology, cases.randomness(given.topology), logs)
        return Judge(make, logs)

    return World(
        make,
        logs,
        recipe or Recipe(),
        watch=cases.judge(given.topology, agent, logs, judge),
    )


def broken(change: Callable[[type[Any]], type[Any]]) -> Recipe:
    """A recipe whose stages are of a changed class."""
    made: dict[type[Any], type[Any]] = {}

    def make(stage: Any) -> Any:
        kind = made.setdefault(type(stage), change(type(stage)))
        found = object.__new__(kind)
        found.__dict__.update(stage.__dict__)
        return found

    return Recipe(stage=make)


def read(records: Sequence[Message]) -> list[Any]:
    """JSON records."""
    return [json.loads(record.value or b"") for record in records]
