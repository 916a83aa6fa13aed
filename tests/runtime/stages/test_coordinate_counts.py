"""What the coordinator counts and shows: publications, requests not answered, slots that wait."""

from __future__ import annotations

import json
from math import isnan

import numpy as np

import ldp_kafka as lk
from ldp_kafka.records import Sums
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.cases import cases

WINDOW = 3
REPORTS = 4000


def topology(method):
    return loads(f"""\
topology: meters
input: {{slot: 1m}}
privacy: {{method: {method}, epsilon: 4.0, window: {WINDOW}, domain: [0, 1]}}
output: {{statistics: [mean]}}
""")


class Fed:
    """A coordinator and its log."""

    def __init__(self, method):
        self.made = topology(method)
        self.stage = roles.make(self.made, "coordinate", 0)
        self.state, self.offset, self.counts, self.releases = self.stage.fresh(), 0, {}, []
        self.gauges = {}

    def put(self, slot, phase, mean=None, cost=0):
        """The sums of a phase; without a mean those of no reports. The request, if there is one."""
        support = None
        if mean is not None:
            form = self.made.method.form(phase, cost)
            answers = form.mechanism.perturb(np.full(REPORTS, mean), lk.randomness.seeded(slot))
            support = tuple(form.support(answers).tolist())
        value = encode_json(Sums(slot, phase, cost, support))
        folded = self.stage.fold(self.state, [Message(self.offset, -1, value)])
        self.offset += 1
        for name, count in folded.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        self.gauges |= folded.gauges
        told = [json.loads(record.value) for record in folded.records]
        self.releases += [one for one in told if one["type"] == "release"]
        return next((one for one in told if one["type"] == "request"), None)

    def answer(self, request, mean):
        """Its reports, and that there are no more."""
        if mean is not None:
            self.put(request["slot"], 1, mean, request["epsilon"])
        self.put(request["slot"], 1)


def published(fed):
    return [one["strategy"] == "publish" for one in fed.releases]


@cases("method", ["lpa", "lpd", "lba", "lbd"])
def test_rounds_are_counted(method):
    """A mean that jumps in every slot: something is asked wherever something is left. Every third
    request is not answered.
    """
    fed, asked = Fed(method), 0
    for slot in range(30):
        mean = 0.1 if slot % 2 else 0.9
        request = fed.put(slot, 0, mean)
        waits = request is not None and request["epsilon"] > 0
        assert fed.gauges["waiting"] == waits
        if waits:
            asked += 1
            assert fed.gauges["released"] == slot - 1
            fed.answer(request, mean if asked % 3 else None)
        assert fed.gauges["waiting"] == 0
        assert fed.gauges["released"] == slot
        assert fed.gauges["window_publications"] == sum(published(fed)[-WINDOW:])
        told = fed.releases[-1]["round"]
        for gauge, name in (("dissimilarity", "dissimilarity"), ("publication_error", "error")):
            said, shown = told[name], fed.gauges[gauge]
            assert isnan(shown) if said is None else abs(shown - said) <= 1e-14 * abs(said)
    assert asked >= 9
    assert fed.counts["requests"] == asked
    assert fed.counts["unanswered"] == asked // 3
    assert fed.counts["publications"] == sum(published(fed)) == asked - asked // 3
    assert fed.counts["releases"] == 30


def test_slots_behind_one_that_was_asked_wait_with_it():
    fed = Fed("lpa")
    request = fed.put(0, 0, 0.9)
    assert request["epsilon"] > 0
    for slot in range(1, 5):
        fed.put(slot, 0, 0.9)
        assert fed.gauges["waiting"] == slot + 1
    fed.answer(request, None)
    assert fed.counts["unanswered"] == 1
    assert fed.gauges["waiting"] < 5


@cases(("method", "every"), [("lbu", 1), ("lpu", 1), ("lsp", WINDOW)])
def test_what_decides_nothing_shows_no_decision(method, every):
    fed = Fed(method)
    for slot in range(12):
        fed.put(slot, 0, None if slot % every else 0.5)
        assert fed.gauges["window_publications"] == sum(published(fed)[-WINDOW:])
        assert fed.gauges["waiting"] == 0
    assert not {"dissimilarity", "publication_error"} & fed.gauges.keys()
    assert fed.counts["unanswered"] == fed.counts["requests"] == 0
    assert fed.counts["publications"] == 12 // every
