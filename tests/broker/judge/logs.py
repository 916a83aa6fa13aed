"""What should have come out of a topology, recomputed from its raw log with the edge's key: every
report, state and release, and what every user has spent.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from ldp_kafka.methods.delay.reports import ChargedOnce
from ldp_kafka.records import Partial, Request, Sums
from ldp_kafka.runtime import local
from ldp_kafka.runtime.wire.arrow import ARROW
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.asking import everything, header
from tests.broker.flow import Flow
from tests.broker.judge import rounds
from tests.broker.judge.budgets import over, overspent
from tests.broker.judge.rounds import TOGETHER
from tests.broker.judge.states import states
from tests.broker.judge.verdict import Verdict, compared

__all__ = ["firsts", "judge_all", "outcome"]

BOOKING = threading.Lock()  # `booked` changes a class


@contextmanager
def booked(ledger) -> Iterator[dict[bytes, Counter[int]]]:
    """Write down what this ledger charges: {user: {slot: micro-epsilon, or reports of
    a lifetime}}. Empty where values are charged once each, with their window: nothing is summed.
    """
    book: dict[bytes, Counter[int]] = defaultdict(Counter)
    if isinstance(ledger, ChargedOnce):
        yield book
        return
    kind, charge = type(ledger), type(ledger).charge

    def noted(self, state, rows, slot, cost, *phase):
        allowed = charge(self, state, rows, slot, cost, *phase)
        if self is ledger:
            for user, paid in zip(
                state.digests(rows), (allowed * np.asarray(cost)).tolist(), strict=True
            ):
                book[user.tobytes()][slot] += paid
        return allowed

    kind.charge = noted
    try:
        yield book
    finally:
        kind.charge = charge


def gather(flow: Flow) -> dict[str, tuple[list, list]]:
    """Read all topics of a topology, which takes its time; its changelogs, where a fault made one
    anew with what was in it before.
    """
    changelogs = flow.changelogs
    for topic in flow.topology.flow.topics:
        if topic.name not in changelogs:
            flow.read(topic.name)
    return {name: (flow.gone.get(name, []), everything(flow.boot, name, 60)) for name in changelogs}


def judge_all(flows: list[Flow]) -> list[Verdict]:
    """Each; what brokers are asked for is asked for all at the same time."""
    with ThreadPoolExecutor(24) as pool:  # most of it is waiting
        kept = list(pool.map(gather, flows))
    return [judge(flow, logs) for flow, logs in zip(flows, kept, strict=True)]


def judge(flow: Flow, kept: dict[str, tuple[list, list]]) -> Verdict:
    """Everything that was ever written, against the straight fold of the raw log; ``kept`` is what
    `gather` gives.
    """
    topology, raw, verdict = flow.topology, flow.raw(), Verdict()
    if topology.curated:
        expected = local.run(topology, flow.noise(), raw, together=TOGETHER)
        compared(flow, expected, verdict)
        buried(flow, expected, verdict)
        states(flow, raw, kept, verdict)
        verdict.wrong = +verdict.wrong
        return verdict
    with BOOKING, booked(topology.method.ledger) as book:
        expected = (
            local.run(topology, flow.noise(), raw, together=TOGETHER)
            if topology.flow.requests is None
            else rounds.followed(flow, raw)
        )
    seen = outcome(flow, expected, verdict)
    paid = states(flow, raw, kept, verdict)
    if topology.flow.sums is None:
        verdict.wrong["users over budget"] = overspent(flow, raw, expected, book, seen, paid)
    else:
        terms = topology.method.protocol.terms
        verdict.wrong["users over budget"] = over(paid.values(), terms.window, terms.budget)
        rounds.check(flow, raw, seen, verdict)
    verdict.wrong = +verdict.wrong
    return verdict


def outcome(flow: Flow, expected: local.Run, verdict: Verdict) -> dict[str, set]:
    """Reports, releases, all between them and dead letters; what was seen under each report id."""
    topology, wrong = flow.topology, verdict.wrong
    seen = compared(flow, expected, verdict)
    reports = [record for made in expected.reports for record in made]
    chain = [
        ("batches", reports, topology.reports_topic),
        ("partials", expected.partials, topology.partials_topic),
    ]
    if topology.flow.sums is not None:
        chain.append(("sums", rounds.merged(flow), topology.sums_topic))
    if topology.flow.requests is not None:
        chain.append(("requests", expected.requests, topology.requests_topic))
    for name, records, topic in chain:
        right = firsts((record.partition, record.value) for record in records)
        came = firsts(rounds.written(flow, topic))
        other = [place for place, value in came.items() if right.get(place) != value]
        wrong[f"missing {name}"], wrong[f"different {name}"] = (
            len(right.keys() - came.keys()),
            len(other),
        )
        if name in ("sums", "requests"):
            wrong[f"{name} out of order"] = [each for each in right if each in came] != [
                each for each in came if each in right
            ]
        verdict.details += [
            f"{name} {place}: {came[place]!r} came first, not {right.get(place)!r}"
            for place in other[:5]
        ]
    buried(flow, expected, verdict)
    return seen


def buried(flow: Flow, expected: local.Run, verdict: Verdict) -> None:
    """Dead letters."""
    whole = flow.topology.flow
    dead = {(record.value, record.headers) for record in expected.dead_letters}
    came = {
        (m.value() or b"", tuple(m.headers() or ()))
        for topic in (whole.dead_letters, whole.rejected)
        if topic is not None
        for m in flow.read(topic.name)
        if not header(m.value() or b"")
    }
    verdict.wrong["missing dead letters"], verdict.wrong["different dead letters"] = (
        len(dead - came),
        len(came - dead),
    )


def firsts(values) -> dict[tuple, bytes]:
    """What came first of each batch (partition, offset of its raw message, chunk), partial (source,
    slot, phase), sums (slot, phase, cost, whether there are any) and request (slot): that counts. A
    worker that begins with parts of its state ahead of the rest answers a message again, without
    the users whose reports were there.
    """
    found: dict[tuple, bytes] = {}
    for partition, value in values:
        if header(value):
            continue
        partial = None if value.startswith(ARROW) else decode_json(parse_json(value))
        if isinstance(partial, Partial):
            found.setdefault((partial.source, partial.slot, partial.phase), value)
        elif isinstance(partial, Sums):
            empty = partial.support is None
            found.setdefault((partial.slot, partial.phase, partial.cost, empty), value)
        elif isinstance(partial, Request):
            found.setdefault((partial.slot,), value)
        elif (batch := read_reports(value)) is not None:
            found.setdefault((partition, batch.bound, batch.chunk), value)
    return found
