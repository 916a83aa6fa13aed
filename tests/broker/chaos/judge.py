"""What should have come out of a topology, recomputed from its raw log with the edge's key: every
report, state and release, and what every user has spent.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from ldp_kafka.accounting import NEVER, LifetimeLedger
from ldp_kafka.methods.windowed import Windowed
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Partial, Request, Sums
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.recovery.checkpoints import META, checkpoints, latest
from ldp_kafka.runtime.recovery.packing import unpack
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.stages.shards import unpacked
from ldp_kafka.runtime.wire.arrow import ARROW, read_batch
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.chaos import rounds, windows
from tests.broker.chaos.rounds import TOGETHER
from tests.broker.flow import Flow, Reader, header
from tests.fold.judge import shard
from tests.sealed import plain

BOOKING = threading.Lock()  # `booked` changes a class


@dataclass
class Verdict:
    """What the judge found of one topology."""

    events: int = 0
    reports: int = 0
    releases: int = 0
    published: int = 0
    """Releases of a coordinator that are no approximations."""
    late: int = 0
    """Slots that were asked for something when nobody could answer any more."""
    windows: int = 0
    """Windows that a curator has closed, of each stream by itself."""
    states: int = 0
    """Records of changelogs that were recomputed."""
    wrong: Counter[str] = field(default_factory=Counter)
    """How often what went wrong; empty is the promise."""
    details: list[str] = field(default_factory=list)
    """The first few records that are missing or different, as they are: the data are the harness's
    own.
    """


@contextmanager
def booked(ledger) -> Iterator[dict[bytes, Counter[int]]]:
    """Write down what this ledger charges: {user: {slot: micro-epsilon, or reports of
    a lifetime}}.
    """
    book: dict[bytes, Counter[int]] = defaultdict(Counter)
    kind, charge = type(ledger), type(ledger).charge

    def noted(self, state, rows, slot, cost):
        allowed = charge(self, state, rows, slot, cost)
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
    topology, kept = flow.topology, {}
    states = [role.changelog(agent.name) for role, agent in topology.flow.readers()]
    for topic in topology.flow.topics:
        if topic.name not in states:
            flow.read(topic.name)
    for name in states:
        reader = Reader(flow.boot, name, None)
        kept[name] = (flow.gone.get(name, []), reader.read(60))
        reader.consumer.close()
    return kept


def judge_all(flows: list[Flow]) -> list[Verdict]:
    """Each; what brokers are asked for is asked for all at the same time."""
    with ThreadPoolExecutor(24) as pool:  # most of it is waiting
        kept = list(pool.map(gather, flows))
    return [judge(flow, logs) for flow, logs in zip(flows, kept, strict=True)]


def judge(flow: Flow, kept: dict[str, tuple[list, list]]) -> Verdict:
    """Everything that was ever written, against the straight fold of the raw log; ``kept`` is what
    `gather` gives.
    """
    topology = flow.topology
    raw = flow.raw()
    if topology.curated:
        expected = local.run(topology, flow.noise(), raw, together=TOGETHER)
        verdict = Verdict(
            events=int(expected.counts["events"]),
            releases=len(expected.releases),
            windows=int(expected.counts["windows"]),
        )
        windows.check(flow, expected, verdict)
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
    verdict = Verdict(events=int(expected.counts["events"]), releases=len(expected.releases))
    seen = outcome(flow, expected, verdict)
    paid = states(flow, raw, kept, verdict)
    if topology.flow.sums is None:
        verdict.wrong["users over budget"] = overspent(flow, raw, expected, book, seen, paid)
    else:
        terms = topology.method.protocol.terms
        verdict.wrong["users over budget"] = rounds.over(paid.values(), terms.window, terms.budget)
        rounds.check(flow, raw, seen, verdict)
    verdict.wrong = +verdict.wrong
    return verdict


def outcome(flow: Flow, expected: local.Run, verdict: Verdict) -> dict[str, set]:
    """Reports, releases and dead letters; what was seen under each report id."""
    topology, wrong = flow.topology, verdict.wrong
    truth = told(record.value for partition in expected.reports for record in partition)
    seen = told(message.value() for message in flow.read(topology.reports_topic))
    verdict.reports = len(truth)
    wrong["second reports"] = sum(len(found) > 1 for found in seen.values())
    wrong["missing reports"] = len(truth.keys() - seen.keys())
    wrong["different reports"] = sum(found != truth.get(name) for name, found in seen.items())
    wrong["two truths"] = sum(len(found) > 1 for found in truth.values())
    wanted = {(record.key, record.value) for record in expected.releases}
    released = {
        (m.key(), m.value()) for m in flow.read(topology.releases_topic) if not header(m.value())
    }
    wrong["missing releases"], wrong["different releases"] = (
        len(wanted - released),
        len(released - wanted),
    )
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
    verdict.details += [
        f"{name}: {found!r}"
        for name, few in (("missing", wanted - released), ("different", released - wanted))
        for found in sorted(few)[:5]
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


def told(values) -> dict[str, set]:
    """Of each report id all that was ever said under it."""
    said: dict[str, set] = defaultdict(set)
    for value in values:
        batch = read_reports(value)
        for one in () if batch is None else batch.singles():
            said[one.id].add((one.slot, one.phase, str(one.value), one.series, batch.cost))
    return said


# -- states
# ------------------------------------------------------------


def states(
    flow: Flow, raw: list[list[Message]], kept: dict[str, tuple[list, list]], verdict: Verdict
) -> dict[bytes, Counter[int]]:
    """Compare every record of every changelog with the straight fold of the log that it is the
    state of, and the last complete one with the log's end; what users paid by their own ledgers.
    """
    topology = flow.topology
    randomness = flow.noise()
    paid: dict[tuple[str, bytes], Counter[int]] = defaultdict(Counter)
    for role, agent in topology.flow.readers():
        logs = raw if agent.raw else rounds.logged(flow, agent.topic)
        gone, now = kept[role.changelog(agent.name)]
        # Faust writes its keys as JSON
        records = [
            (json.loads(m.key()), m.value())
            for m in (*gone, *now)
            if (m.key(), m.value()) not in flow.forged
        ]
        table = {json.loads(m.key()): m.value() for m in now}
        asked: dict[int, dict[int, list[tuple[str, bytes]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for key, value in records:
            if value is not None:
                number, part, _ = key.split("/")
                seal = randomness.seal if agent.raw else None
                cover, payload = unpack(value if seal is None else plain(key, value, seal))
                asked[int(number)][cover].append((part, payload))
                if agent.raw and part != META and not payload.startswith(ARROW):
                    note_paid(payload, paid)
        for number, log in enumerate(logs):
            verdict.states += sum(map(len, asked[number].values()))
            stage = roles.make(topology, agent, number, randomness)
            verdict.wrong[f"{agent.name} states"] += recompute(stage, log, asked[number])
            best = latest(
                checkpoints(
                    {key: value for key, value in table.items() if value is not None}, number
                )
            )
            if log and (best is None or best.offset != log[-1].offset):
                verdict.wrong[f"{agent.name} partitions without their last state"] += 1
    return summed(paid)


def recompute(stage, log: list[Message], asked: dict[int, list[tuple[str, bytes]]]) -> int:
    """How many of these records (by the offset that they cover) are not what the fold of the log up
    to there gives.
    """
    state, wrong, at = stage.fresh(), 0, 0
    for cover in sorted(asked):
        while at < len(log) and log[at].offset <= cover:
            until = at
            while until < len(log) and log[until].offset <= cover and until < at + TOGETHER:
                until += 1
            stage.fold(state, log[at:until])
            at = until
        for part, payload in asked[cover]:
            if part == META:
                wrong += json.loads(payload)["state"] != json.loads(json.dumps(stage.meta(state)))
            else:
                dumped = stage.dump(state, {part}).get(part)
                wrong += dumped is None or shard(payload) != shard(dumped)
    return wrong


def note_paid(payload: bytes, paid: dict[tuple[str, bytes], Counter[int]]) -> None:
    """What a worker's own ledgers, one or one of each phase, say that its users spent: the ring
    holds the last slots.
    """
    rows = read_batch(unpacked(payload))[0]
    ledgers = [name.removesuffix("ring") for name in rows.schema.names if name.endswith("ring")]
    for row in rows.to_pylist() if ledgers else []:
        for name in ledgers:
            end, ring = row[f"{name}ring_end"], row[f"{name}ring"]
            if end != NEVER:
                ring = ring if isinstance(ring, list) else [ring]
                for slot in range(end - len(ring) + 1, end + 1):
                    by = paid[name, row["user"]]
                    by[slot] = max(by[slot], ring[slot % len(ring)])


def summed(paid: dict[tuple[str, bytes], Counter[int]]) -> dict[bytes, Counter[int]]:
    """The same of all ledgers together."""
    found: dict[bytes, Counter[int]] = defaultdict(Counter)
    for (_, user), by in paid.items():
        found[user].update(by)
    return found


# -- budgets
# ------------------------------------------------------------


def overspent(flow: Flow, raw, expected: local.Run, book, seen: dict[str, set], paid) -> int:
    """Users who, in some run of slots, spent more than the budget: what the ledger charged, or what
    theirs said, and once more for every report beyond the true one.
    """
    method = flow.topology.method
    if isinstance(method, Windowed):
        return windows.overspent(flow, owner(flow, raw), seen)
    real = users(flow, raw)
    truth = told(record.value for partition in expected.reports for record in partition)
    spent: dict[bytes, Counter[int]] = defaultdict(Counter)
    for of in (book, paid):
        for user, by in of.items():
            if user not in real:  # shrinkage tries the method on users of its own
                continue
            for slot, cost in by.items():
                spent[user][slot] = max(spent[user][slot], cost)
    lifetime = isinstance(method.ledger, LifetimeLedger)
    again = {name: len(found - truth.get(name, set())) for name, found in seen.items()}
    if any(again.values()):
        owners = owner(flow, raw)
        for name, times in again.items():
            if times and name in owners:
                user, slot = owners[name]
                spent[user][slot] += times * (1 if lifetime else method.cost)
    if lifetime:
        totals = [sum(by.values()) for by in spent.values()]
        return sum(
            total > method.ledger.reports or method.ledger.lost(total) > method.ledger.budget
            for total in totals
        )
    return rounds.over(spent.values(), method.ledger.run, method.ledger.budget)


def users(flow: Flow, raw) -> set[bytes]:
    """Digests of all who are in the raw log."""
    randomness = flow.noise()
    reader = make_perturb(flow.topology, 0, randomness).reader
    found: set[bytes] = set()
    for events in (reader.read(message.value).events for log in raw for message in log):
        if events is not None:
            found.update(
                digest.tobytes() for digest in randomness.digests(Ids.of(events.users.texts()))
            )
    return found


def owner(flow: Flow, raw) -> dict[str, tuple[bytes, int]]:
    """Whose report, and of which slot, an id is: as only the edge can tell."""
    topology = flow.topology
    randomness = flow.noise()
    reader, method = make_perturb(topology, 0, randomness).reader, topology.method
    found: dict[str, tuple[bytes, int]] = {}
    for log in raw:
        for message in log:
            events = reader.read(message.value).events
            if events is None:
                continue
            digests = randomness.digests(Ids.of(events.users.texts()))
            # a segment's mean is of its slots without a value, too
            ahead = method.delay if isinstance(method, Windowed) else 0
            for back in range(-ahead, method.delay + 1):
                slots = events.times // topology.input.slot_ms - back
                for digest, slot in zip(digests, slots.tolist(), strict=True):
                    at = np.array([slot])
                    for phase in range(max(1, method.dimension)):
                        if method.in_phase(at, phase).all():
                            name = randomness.report_ids(digest[None], at, phase).tobytes().hex()
                            found[name] = (digest.tobytes(), slot)
    return found
