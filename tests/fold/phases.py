"""Worlds of the four stages of a topology whose coordinator asks: what they fold, and who judges
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message, Record, Stage
from ldp_kafka.topology import Topology
from tests import rounds
from tests.fold import cases
from tests.fold.driver import Recipe, World
from tests.fold.judge import EdgeJudge, Judge, downstream

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


def world(given: Case, agent: str, recipe: Recipe | None = None) -> World:
    """A world in which an agent folds its logs."""
    logs = given.logs(agent)

    def make(number: int) -> Stage[Any]:
        return given.make(agent, number)

    def judge() -> Judge:
        if agent == "perturb":
            return EdgeJudge(given.topology, cases.randomness(given.topology), logs)
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
