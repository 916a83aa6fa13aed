"""The seven protocols through the stages that run on Kafka: slot by slot what `Protocol.run`
decides and releases, and report by report what its responder says.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.base import SENT
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.protocols import PROTOCOLS, Request
from ldp_kafka.records import Tick
from ldp_kafka.runtime import local
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads
from tests.fold import cases
from tests.rounds import are_of
from tests.runtime.stages.test_settle import ONE

USERS, SLOTS, WINDOW = 90, 14, 4
START = WINDOW * (cases.START // cases.SLOT // WINDOW)  # a slot in which all protocols report
BEGIN = START * cases.SLOT
IDS = [f"u{user}" for user in range(USERS)]
KINDS = [(name, numeric) for name in PROTOCOLS for numeric in (False, True)]
TEXT = """
topology: t
input:
  {{slot: 1m, lateness: {lateness}, partitions: 2, partitioning: murmur2, hold: {hold},
    per_slot: {per_slot}}}
privacy: {{method: {name}, epsilon: 6.0, window: 4, {kind}}}
output: {{statistics: [{statistic}]}}
runtime: {{shards: 4}}
"""


@cache
def topology(name, numeric, lateness=0, hold=2, per_slot="first"):
    kind = "domain: [0, 10], mechanism: hybrid" if numeric else "categories: 3, mechanism: grr"
    statistic = "mean" if numeric else "frequencies"
    return loads(
        TEXT.format(
            name=name,
            kind=kind,
            statistic=statistic,
            lateness=lateness,
            hold=hold,
            per_slot=per_slot,
        )
    )


@cache
def streams(numeric, quiet=0):
    """(users, slots), with users who join late, fall silent for a while, and leave; in the first
    ``quiet`` slots nobody is there.
    """
    rng = np.random.default_rng(3)
    shares = np.repeat(rng.dirichlet([0.4] * 3, SLOTS // 3 + 1), 3, axis=0)[:SLOTS]
    table = np.stack([rng.choice(3, size=USERS, p=share) for share in shares], axis=1)
    gone = rng.random(table.shape) < 0.25
    gone[:20, :6] = True
    gone[20:35, 5:9] = True
    gone[35:45, 10:] = True
    gone[45:, 0] = False
    gone[:, :quiet] = True
    if numeric:
        return np.where(gone, np.nan, 4.0 * table + rng.random(table.shape))
    return np.where(gone, -1, table)


def present(table):
    """(users, slots), who has a value."""
    return ~np.isnan(table) if table.dtype.kind == "f" else table >= 0


def several(table, taking):
    """One to three values, by (user, slot), for each one of a table; and the table of what they
    come to.
    """
    rng, one = np.random.default_rng(5), table.copy()
    every = {}
    for user, slot in np.argwhere(present(table)).tolist():
        # numbers around the table's, some outside the domain; of categories it comes last
        others = rng.uniform(-3, 3, 2) + table[user, slot]
        if table.dtype.kind != "f":
            others = rng.integers(0, 3, 2)
        values = [*others.tolist(), table[user, slot].item()][rng.integers(3) :]
        every[user, slot], one[user, slot] = values, taking(values)
    return every, one


def raw(table, *, lateness, every=None):
    """Both partitions, three or four messages a slot; with lateness some of a slot's values come in
    the slot after it, among those of others that are of it.

    Parameters
    ----------
    every : by (user, slot), the values that come in place of the table's
    """
    rng = np.random.default_rng(4)
    there = present(table)
    where = partitions_of(IDS, 2)
    logs = [[], []]
    waits = []
    for slot in range(SLOTS + 1):
        now = [(user, slot) for user in range(USERS) if slot < SLOTS and there[user, slot]]
        late = [row for row in now if lateness and rng.random() < 0.15]
        turn = rng.permutation(USERS)  # of a user's own values the earlier comes first
        rows = sorted({*waits, *now} - {*late}, key=lambda row: (turn[row[0]], row[1]))
        waits = late
        for number in range(2):
            mine = [
                (IDS[user], BEGIN + at * cases.SLOT + 60 * user, value)
                for user, at in rows
                if where[user] == number
                for value in ([table[user, at].item()] if every is None else every[user, at])
            ]
            size = max(5, -(-len(mine) // 3))
            logs[number] += [cases.batch(mine[at : at + size]) for at in range(0, len(mine), size)]
    # slot by slot: a clock that jumps by more than values are held leaves no time for a request
    ticks = [encode_json(Tick(BEGIN + (SLOTS + at) * cases.SLOT)) for at in range(lateness + 1)]
    return [
        [Message(offset, -1, value) for offset, value in enumerate([*log, *ticks])] for log in logs
    ]


def reference(of, table):
    """What the protocol makes of the whole streams."""
    protocol = getattr(of.method, "protocol", None) or lk.protocol(
        of.method.name, epsilon=6.0, window=WINDOW, categories=3, oracle="grr"
    )
    return protocol, protocol.run(table, cases.randomness(of), users=IDS, first_slot=START)


def asked(run):
    """The requests that ask, by slot."""
    found = map(json.loads, (record.value for record in run.requests))
    return {each["slot"]: each for each in found if each["epsilon"]}


def said(of, run):
    """Every report: (partition, id, slot, phase) to what it says and costs."""
    found = {}
    for number, records in enumerate(run.reports):
        for record in records:
            made = read_reports(record.value)
            for at in range(len(made)):
                name = (number, made.ids[at].tobytes(), int(made.slots[at]), made.phase)
                assert name not in found
                found[name] = (made.values[at] * made.scale, made.cost)
    return found


def due(of, protocol, table, requests):
    """The same from the protocol's responder, which is told the requests as they were made."""
    noise = cases.randomness(of)
    responder = protocol.responder()
    digests = noise.digests(IDS)
    state, rows, history = responder.state(digests), np.arange(USERS), responder.history()
    where, found = partitions_of(IDS, 2), {}

    def take(step, slot, phase, cost):
        sent = np.flatnonzero(step.status == SENT)
        names = noise.report_ids(digests[sent], np.full(len(sent), slot), phase)
        for row, name, answer in zip(sent, names, step.answers[sent], strict=True):
            found[int(where[row]), name.tobytes(), slot, phase] = (answer, cost)

    for t in range(SLOTS):
        present = protocol.values.present(table[:, t])
        codes = responder.bound(np.where(present, table[:, t], 0))
        slot = START + t
        take(responder.first(state, Batch(rows, slot, codes, noise, present), history), slot, 0, 0)
        if slot in requests:
            ask = Request(
                slot, *(requests[slot].get(each, 1) for each in ("epsilon", "share", "of"))
            )
            step = responder.second(
                state, Batch(rows, ask.slot, codes, noise, present), ask, history
            )
            history.add(ask)
            take(step, slot, 1, ask.cost)
    return found


@pytest.mark.parametrize(("lateness", "quiet"), [(0, 3), (2, 0)])
@pytest.mark.parametrize(("name", "numeric"), KINDS)
def test_local_run_is_the_protocol(name, numeric, lateness, quiet):
    """Values, errors, strategies and numbers of reports of each slot from the first one with a
    report on, every single report, and what each release says of its round.
    """
    of, table = topology(name, numeric, lateness), streams(numeric, quiet)
    run = local.run(of, cases.randomness(of), raw(table, lateness=lateness))
    assert run.counts["duplicates"] == 0
    is_the_protocol(of, run, table, quiet)


@pytest.mark.parametrize("lateness", [0, 2])
@pytest.mark.parametrize(("name", "numeric"), KINDS)
def test_local_run_is_the_protocol_of_what_slots_come_to(name, numeric, lateness):
    """The same where each slot has several values of a user, which are taken together."""
    how = "mean" if numeric else "last"
    of = topology(name, numeric, lateness, per_slot=how)
    every, table = several(streams(numeric), ONE[how])
    run = local.run(of, cases.randomness(of), raw(table, lateness=lateness, every=every))
    assert run.counts["events"] == sum(map(len, every.values())) > 1.5 * len(every)
    assert run.counts["duplicates"] == (0 if numeric else run.counts["events"] - len(every))
    is_the_protocol(of, run, table)


def is_the_protocol(of, run, table, quiet=0):
    """What `test_local_run_is_the_protocol` says of a run."""
    protocol, trace = reference(of, table)
    assert not run.dead_letters
    assert (run.counts["late"], run.counts["refused"]) == (0, 0)
    first = int(np.flatnonzero(trace.reports[:, 0])[0])
    assert first >= quiet
    slots = list(range(START + first, START + SLOTS))
    released = [json.loads(record.value) for record in run.releases][: len(slots)]
    are_of(released, trace, first, START)
    requests = asked(run)
    seen = said(of, run)
    assert seen == due(of, protocol, table, requests)
    assert len(seen) == trace.reports.sum() == run.counts["reports"]
    if not of.method.phases:
        return  # a method of that name stands for its protocol: it has no rounds
    assert [each["strategy"] for each in released] == trace.strategy[first:].tolist()
    told = [each["round"] for each in released]
    assert [each["reports"] for each in told] == trace.reports[first:].tolist()
    for key, mine in (("dissimilarity", trace.dissimilarity), ("error", trace.error)):
        theirs = np.array([np.nan if each[key] is None else each[key] for each in told])
        assert np.allclose(theirs, mine[first:], rtol=1e-13, atol=0, equal_nan=True)
    ends = range(first, SLOTS)
    spent = np.array([trace.spent[:, max(0, t - 3) : t + 1].sum(1).max() for t in ends])
    largest = np.array([each["epsilon"]["largest"] for each in told]) * 1e6
    assert ((spent <= largest + 0.5) & (largest <= 6e6)).all()
    if protocol.adaptive:
        published = (trace.strategy == "publish").sum()
        assert len(requests) >= published > 2
        assert run.counts["requests"] == 2 * len(run.requests)
        asking = [json.loads(record.value)["slot"] for record in run.requests]
        assert asking[: len(slots)] == slots
