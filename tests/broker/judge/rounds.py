"""What should have come out of a topology with a coordinator.

When a request reaches the edge is a matter of timing, and what is answered follows from where it
then lies in the raw log. So each log is taken as it lies at the broker, and what must come of it
lies in the next one. Beside that replay stand rules that are told from the logs alone: who was
asked, who answered, what it cost, and what was released of it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from ldp_kafka.methods.protocols.coordinator import APPROXIMATE, PUBLISH
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.records import Request
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message, Record
from ldp_kafka.runtime.stages.requests import Forwarding, is_request, read_request
from tests.broker.asking import header
from tests.broker.flow import Flow
from tests.broker.judge.budgets import over
from tests.broker.judge.edge import Answered, answered

TOGETHER = 50  # messages folded at a time


def logged(flow: Flow, topic: str) -> list[list[Message]]:
    """A topic as the log that its agent folds."""
    partitions = next(each.partitions for each in flow.topology.flow.topics if each.name == topic)
    out: list[list[Message]] = [[] for _ in range(partitions)]
    for m in flow.read(topic):
        out[m.partition()].append(Message(m.offset(), m.timestamp()[1], m.value()))
    return out


def written(flow: Flow, topic: str) -> list[tuple[int, bytes]]:
    """(partition, value) of all that workers wrote into a topic, in order."""
    return [
        (m.partition(), m.value())
        for m in flow.read(topic)
        if (m.key(), m.value()) not in flow.forged and not header(m.value() or b"")
    ]


# -- the replay
# ------------------------------------------------------------


def followed(flow: Flow, raw: list[list[Message]]) -> local.Run:
    """What must have come of each log as it lies: reports and partials of the raw log, sums of the
    partials, requests and releases of the sums.
    """
    topology, noise = flow.topology, flow.noise()
    made: dict[str, list[Record]] = defaultdict(list)
    reports: list[list[Record]] = []
    counts: Counter[str] = Counter()
    perturb = topology.reader(topology.raw_topic)[1]
    for number, log in enumerate(raw):
        mine: list[Record] = []
        for record in _folded(roles.make(topology, perturb, number, noise), log, counts):
            (mine if record.topic == topology.reports_topic else made[record.topic]).append(record)
        reports.append(mine)
        collect = topology.reader(topology.reports_topic)[1]
        for record in _folded(roles.make(topology, collect, number), local.log(mine)):
            made[record.topic].append(record)
    for record in [*merged(flow), *decided(flow)]:
        made[record.topic].append(record)
    return local.Run(
        reports,
        made[topology.partials_topic],
        made[topology.releases_topic],
        [*made[topology.dead_letters_topic], *made[topology.collector_dead_letters_topic]],
        counts,
        made[topology.requests_topic],
        raw,
    )


def merged(flow: Flow) -> list[Record]:
    """What must have come of the partials."""
    topology = flow.topology
    stage = roles.make(topology, topology.reader(topology.partials_topic)[1], 0)
    return list(_folded(stage, logged(flow, topology.partials_topic)[0]))


def decided(flow: Flow) -> list[Record]:
    """What must have come of the sums."""
    topology = flow.topology
    stage = roles.make(topology, topology.reader(topology.sums_topic)[1], 0)
    return list(_folded(stage, logged(flow, topology.sums_topic)[0]))


def _folded(stage, log: list[Message], counts: Counter[str] | None = None) -> Iterator[Record]:
    for _, output in local.fold({0: stage}, ((0, message) for message in log), TOGETHER):
        if counts is not None:
            counts.update(output.counts)
        yield from output.records


# -- the rules
# ------------------------------------------------------------


def check(flow: Flow, raw: list[list[Message]], seen: dict[str, set], verdict) -> None:
    """All that must hold of requests, reports and releases; what does not is added to
    ``verdict.wrong``.
    """
    topology, wrong = flow.topology, verdict.wrong
    found = answered(flow, raw)
    of_ids = {name: {what} for name, what in found.said.items()}
    wrong["reports that the protocol does not give"] += sum(
        of_ids.get(name) != what for name, what in seen.items()
    )
    wrong["reports that the protocol gives, and nobody made"] += len(of_ids.keys() - seen.keys())
    wrong["users over budget"] += overspent(flow, found, seen)
    asked = _asked(flow, raw, wrong) if topology.flow.requests is not None else {}
    _released(flow, found, asked, verdict)


def overspent(flow: Flow, found: Answered, seen: dict[str, set]) -> int:
    """Users who, in some window, spent more than the budget: every report that was ever seen is
    charged, in the slot of its value, and two under one id are two.
    """
    terms = flow.topology.method.protocol.terms
    spent: dict[tuple[int, bytes], Counter[int]] = defaultdict(Counter)
    for name, said in seen.items():
        if name in found.owners:
            user, slot = found.owners[name]
            spent[user][slot] += sum(what[-1] or terms.first for what in said)
    return over(spent.values(), terms.window, terms.budget)


def _asked(flow: Flow, raw: list[list[Message]], wrong: Counter[str]) -> dict[int, Request]:
    """What the edge was asked of each slot. Whatever lies in the topic of requests, every raw
    partition has what a forwarder takes of it, all of it and nothing else, and the first of each
    slot in their order. A forwarder that goes on repeats the last of them, and one that was stopped
    for long comes late with what it had; both say what was said before, byte for byte.
    """
    topology = flow.topology
    forwarding = Forwarding(topology.input.slot_ms, topology.input.max_ahead_ms)
    taken = [
        forwarding.take(m.value(), m.timestamp()[1]) for m in flow.read(topology.requests_topic)
    ]
    due = dict.fromkeys(value for value in taken if value is not None)
    for log in raw:
        came = dict.fromkeys(
            m.value for m in log if is_request(m.value) and (None, m.value) not in flow.forged
        )
        wrong["requests missing in a partition"] += len(due.keys() - came.keys())
        wrong["requests that nobody forwarded"] += len(came.keys() - due.keys())
        wrong["requests out of order"] += [each for each in came if each in due] != [
            each for each in due if each in came
        ]
    made = [read_request(value) for _, value in written(flow, topology.requests_topic)]
    by_slot: dict[int, set[Request]] = defaultdict(set)
    for request in made:
        by_slot[request.slot].add(request)
    wrong["slots with two requests"] += sum(len(each) > 1 for each in by_slot.values())
    slots = list(by_slot)
    wrong["slots without a request"] += len(set(range(min(slots), max(slots) + 1)) - set(slots))
    return {request.slot: request for request in map(read_request, due)}


def _released(flow: Flow, found: Answered, asked: dict[int, Request], verdict) -> None:
    """Every slot has one release. What was published is what the reports of its slot tell, what
    nobody could answer any more is approximated, and what is approximated is what stood.
    """
    topology, wrong = flow.topology, verdict.wrong
    protocol = topology.method.protocol
    terms, oracle = protocol.terms, protocol.terms.oracle
    every = {
        value
        for _, value in written(flow, topology.releases_topic)
        if json.loads(value)["type"] == "release"
    }
    releases = sorted(map(json.loads, every), key=lambda each: each["slot"])
    slots = [each["slot"] for each in releases]
    wrong["slots released twice"] += len(slots) - len(set(slots))
    wrong["slots not released"] += len(set(range(slots[0], slots[-1] + 1)) - set(slots))
    if asked:
        decided = {read_request(value).slot for _, value in written(flow, topology.requests_topic)}
        wrong["slots not released"] += len(decided - set(slots))
    stood, error = oracle.prior, None
    for release in releases:
        slot = release["slot"]
        cost = topology.method.phases > 1 and slot in asked and asked[slot].epsilon
        counted = found.answers.get((slot, SECOND, cost), []) if cost else []
        first = found.answers.get((slot, FIRST, 0), [])
        told = release["round"]["reports"]
        wrong["reports miscounted"] += told[0] != len(first)
        source = (cost, counted) if protocol.adaptive else (terms.first, first)
        verdict.published += release["strategy"] == PUBLISH
        if cost and not found.timely[slot]:
            verdict.late += 1
            wrong["published of nothing"] += release["strategy"] != APPROXIMATE
        value, said = (np.atleast_1d(release[name]) for name in ("value", "standard_error"))
        if release["strategy"] == PUBLISH:
            wrong["published of nothing"] += not source[1]
            if not source[1]:
                continue
            sums = oracle.support(source[0], np.array(source[1]))
            estimate = oracle.told(source[0], sums, population=terms.population).stated
            stood, error = estimate.value, estimate.standard_error
            wrong["reports miscounted"] += protocol.adaptive and told[1] != len(counted)
            wrong["publications of other values"] += not (
                np.allclose(value, stood, rtol=1e-12, atol=1e-12)
                and np.allclose(said, error, rtol=1e-12, atol=1e-12)
            )
        else:
            wrong["approximations of other values"] += not np.allclose(
                value, stood, rtol=1e-12, atol=1e-12
            )
            wrong["reports thrown away"] += bool(told[1]) and protocol.adaptive
