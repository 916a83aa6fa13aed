"""Single reports that are counted many at a time: as one by one, to the byte."""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter
from functools import cache

import numpy as np
import pytest

from ldp_kafka.records import Reports, Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages import collect
from ldp_kafka.runtime.stages.collect import Collect
from ldp_kafka.runtime.wire.records import encode_json, header
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.topology import loads
from tests.depth import depth

TEXT = """
topology: single
input: {{slot: 1m, lateness: 1, partitions: 2, hold: 2}}
privacy: {{{privacy}}}
output: {{statistics: {statistics}}}
"""
BUDGET = "epsilon: 3.0, window: 3"
NUMBERS = f"method: sw_direct, {BUDGET}, domain: [0, 10]"
CATEGORIES = f"method: lpu, {BUDGET}, categories: 12"
CHANGES = "method: cgm, level: user, epsilon: 8.0, horizon: 20, delta: 1.0e-5, domain: [1, 10]"
CAPP = f"method: capp, {BUDGET}, block: 2, domain: [0, 10]"
VECTOR = f"{BUDGET}, domain: [0, 10], dimension: 2"
CASES = {
    "mean": (NUMBERS, "[mean]"),
    "categories": (f"{CATEGORIES}, mechanism: grr", "[frequencies]"),
    "bits": (f"{CATEGORIES}, mechanism: oue", "[frequencies]"),
    "subset": (f"{CATEGORIES}, mechanism: subset_selection", "[frequencies]"),
    "shrunk": (CAPP, "[mean, per_user]"),
    "per_user": (CAPP, "[per_user], shrinkage: false"),
    "exponential": (f"{CHANGES}, change: multiplicative", "[per_user], shrinkage: false"),
    "vector": (f"method: budget_split, {VECTOR}", "[mean, per_user]"),
    "turns": (f"method: sample_split, {VECTOR}", "[mean, per_user]"),
    "asked": (f"method: lbd, {BUDGET}, categories: 3, mechanism: grr", "[frequencies]"),
    "asked_numbers": (f"method: lpa, {BUDGET}, domain: [0, 10], mechanism: hybrid", "[mean]"),
}
SLOT = 29_000_000


@cache
def topology(case):
    privacy, statistics = CASES[case]
    return loads(TEXT.format(privacy=privacy, statistics=statistics))


class Edge:
    """Whoever writes a log of reports, most of them good."""

    def __init__(self, of, dice):
        self.of, self.dice, self.rng = of, dice, np.random.default_rng(dice.getrandbits(32))
        self.offset, self.now, self.closed, self.settled = 0, 0, None, None
        self.turns = Counter()
        self.cost = 0  # of the second phase, while it is that
        self.ids = self.rng.integers(0, 2**64, (300, 2), np.uint64)

    def message(self, wild):
        """The next one; ``wild``: how often it is special."""
        dice = self.dice
        self.offset += 1
        if dice.random() < 0.02:
            self.now += dice.choice((1, 1, 4))
        if dice.random() < 0.02:
            self.closed = SLOT + self.now - dice.choice((1, 2, 3))
        if self.of.method.phases and dice.random() < 0.01:
            self.settled = SLOT + self.now - dice.choice((1, 1, 3))
        if dice.random() > wild:
            return write_reports(self.batch(1))
        return dice.choice((self.several, self.other, self.bad, self.bad, self.old))()

    def batch(self, rows, **changed):
        """A batch as the edge makes it."""
        of, dice = self.of, self.dice
        slots = SLOT + self.now - self.rng.choice(3, rows, p=(0.7, 0.2, 0.1))
        phase, cost = 0, 0
        if of.method.phases and dice.random() < 0.05:
            self.cost = 0 if self.cost else self.asked()
        if self.cost:
            phase, cost = 1, self.cost
        elif not of.method.in_phase(slots[:1], 0).all():
            phase = 1
        given = {
            "slots": slots,
            "values": self.values(rows),
            "scale": of.method.scale if self.values(1).dtype != np.uint8 else 1,
            "fingerprint": of.fingerprint,
            "bound": self.offset,
            "closed": self.closed,
            "chunk": 0,
            "phase": phase,
            "series": self.ids[self.rng.integers(0, 7, rows)] if of.per_user else None,
            "cost": cost,
            "settled": self.settled,
        } | changed
        return Reports(self.ids[self.rng.integers(0, len(self.ids), rows)], **given)

    def asked(self):
        """What reports of a second phase cost."""
        terms = self.of.method.protocol.terms
        return terms.budget if terms.population else self.dice.choice((1, 2)) * terms.second // 2

    def next(self, kinds):
        """Each of them in turn."""
        self.turns[len(kinds)] += 1
        return kinds[self.turns[len(kinds)] % len(kinds)]

    def values(self, rows):
        method = self.of.method
        low, high = method.index_range
        blank = method.blank(rows)
        if blank.dtype == np.int64:
            return self.rng.integers(low, high + 1, blank.shape)
        held = getattr(method.mechanism, "omega", 5)
        bits = np.zeros((rows, method.categories), np.uint8)
        bits[:, :held] = 1
        return np.packbits(self.rng.permuted(bits, axis=1), axis=1)

    def several(self):
        made = self.batch(self.dice.choice((0, 2, 5, 60)))
        return write_reports(made.gather(np.argsort(made.ids[:, 0].byteswap())))

    def other(self):
        return self.next(
            (header("single", self.of.fingerprint, self.of.layout), None, b"", b"{", b"\xff" * 9,
             encode_json(Tick(1)), b'{"ldp_kafka":1,"type":"report"}')
        )  # fmt: skip

    def old(self):
        """A message of before, or of a log that was begun anew."""
        at = max(0, self.offset - self.dice.choice((1, 2, 10, 1000)))
        changed = {"bound": at, "chunk": self.dice.choice((0, 1))}
        if self.dice.random() < 0.5:
            changed["closed"] = SLOT + self.now + 5
        if self.dice.random() < 0.3:
            self.offset -= self.dice.choice((1, 3, 30))
        return write_reports(self.batch(1, **changed))

    def bad(self):
        """One report that is refused, or that is still good."""
        wrong = self.next(
            (
                {"fingerprint": "0" * 32}, {"scale": 3.0}, {"phase": 1}, {"phase": 7}, {"cost": 77},
                {"slots": np.array([SLOT - 9])}, {"slots": np.array([SLOT + self.now + 30])},
                {"values": np.array([2**40])}, {"values": np.array([-1])},
                {"values": np.array([[1, 2, 3]])}, {"values": np.array([[255, 255]], np.uint8)},
                {"values": np.array([[0, 0]], np.uint8)}, {"values": np.array([[1]], np.uint8)},
                {"series": None}, {"series": self.ids[:1]}, {"closed": SLOT + self.now - 1},
                {"closed": None}, {"settled": SLOT + self.now - 2}, {"chunk": 3},
            )
        )  # fmt: skip
        return write_reports(self.batch(1, **wrong))


def log(of, dice, n, wild=0.1):
    """Mostly single reports; stretches come again, as of an edge that crashed."""
    edge = Edge(of, dice)
    values = [edge.message(wild) for _ in range(n)]
    for _ in range(dice.choice((0, 1, 3))):
        at = dice.randrange(n)
        values[at:at] = values[max(0, at - dice.choice((5, 40))) : at]
    return [Message(offset, -1, value) for offset, value in enumerate(values, 3)]


def cuts(dice, n):
    """Any lengths that make up n."""
    while n:
        size = min(n, dice.choice((1, 2, 7, 50, 1000)))
        n -= size
        yield size


def made(of, size):
    """A stage whose slot shards have so many slots."""
    stage = roles.make(of, "collect", 1)
    stage.__dict__["size"] = size
    return stage


def folded(stage, state, messages, sizes):
    """All that folding gives: records in order, counts, what changed, and the state to the byte."""
    records, counts, gauges, at, touched = [], Counter(), {}, 0, []
    for size in sizes:
        found = stage.fold(state, messages[at : at + size])
        at += size
        records += found.records
        counts.update(found.counts)
        gauges |= found.gauges
    assert at == len(messages)
    touched = stage.dirty(state)
    shards = stage.dump(state, stage.shards_of(state))
    return records, counts, gauges, touched, json.dumps(stage.meta(state)), list(shards.items())


def strictly(stage, state, messages):
    """The same, message by message, each by the strict reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "read_plain_reports", lambda _: ())
        return folded(stage, state, messages, [1] * len(messages))


@pytest.mark.parametrize("case", CASES)
def test_together_or_one_by_one(case, monkeypatch):
    """However a log is cut, from its start or with a state whose slot shards are ahead."""
    seed = secrets.randbits(32)
    dice, of, seen, together = random.Random(seed), topology(case), Counter(), Counter()
    count = Collect._count

    def counted(self, state, batch, *rest, **how):
        together[len(batch) if how.get("singles") else "batches"] += 1
        count(self, state, batch, *rest, **how)

    monkeypatch.setattr(Collect, "_count", counted)
    for turn in range(depth(3, 60)):
        messages = log(of, dice, depth(400, 1000), (0.4, 0.1, 0.02)[turn % 3])
        stage = made(of, dice.choice((1, 2, 100)))
        expected = strictly(stage, stage.fresh(), messages)
        seen.update(expected[1])
        for sizes in ([len(messages)], list(cuts(dice, len(messages)))):
            found = folded(stage, stage.fresh(), messages, sizes)
            assert found == expected, (seed, turn, sizes)
        # some slot shards were written down later than the rest of the state
        first, second = sorted(dice.sample(range(len(messages)), 2))
        early, late = stage.fresh(), stage.fresh()
        stage.fold(early, messages[:first])
        stage.fold(late, messages[:second])
        cover = messages[second - 1].offset if second else -1
        meta = json.loads(json.dumps(stage.meta(early)))
        shards = {
            name: (-1 if of_late is early else cover, payload)
            for of_late in (early, late)
            for name, payload in stage.dump(of_late, stage.shards_of(of_late)).items()
            if of_late is early or dice.random() < 0.7
        }
        rest = messages[first:]
        expected = strictly(stage, stage.load(meta, shards), rest)
        for sizes in ([len(rest)], list(cuts(dice, len(rest)))):
            found = folded(stage, stage.load(meta, shards), rest, sizes)
            assert found == expected, (seed, turn, "ahead", sizes)
    # many were counted together, and everything that can happen to a report did
    assert sum(n * times for n, times in together.items() if n != "batches" and n > 5) > 400
    names = {"fingerprint", "wrong_fields", "closed", "restarted", "not_json", "empty"}
    assert {f"dead_letters:{name}" for name in names} <= seen.keys()
    assert all(seen[name] for name in ("reports", "repeated", "partials", "second_reports")), seen
    assert (seen["releases"] > 0) == of.per_user
