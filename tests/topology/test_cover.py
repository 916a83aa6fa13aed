"""Topologies that hide presence: what they are given, what they refuse, and what it costs."""

from __future__ import annotations

import re

import pytest

from ldp_kafka.errors import TopologyError
from ldp_kafka.topology import loads, plan

TEXT = """
topology: t
input: {slot: 1m}
privacy: {method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10], cover: true}
output: {statistics: [mean]}
"""
CODES = (
    TEXT.replace("sw_direct", "lpu")
    .replace("domain: [0, 10]", "categories: [a, b, c]")
    .replace("[mean]", "[frequencies]")
)


def test_slots_close_by_the_clock_of_its_workers():
    topology = loads(TEXT)
    assert topology.input.clock and topology.holds_slots
    assert topology.linked == "partition"


@pytest.mark.parametrize("method", ["sw_direct", "pm_direct", "sampling", "lpu"])
def test_it_moves_the_fingerprint(method):
    """Where it is true."""
    text = CODES if method == "lpu" else TEXT.replace("sw_direct", method)
    with_it, without, plain = (
        loads(text.replace("cover: true", each)).fingerprint
        for each in ("cover: true", "cover: false", "calibration: sound")
    )
    assert with_it != without == plain


def test_it_says_since_when_presence_is_hidden():
    said = loads(TEXT).guarantee
    assert said.protects == "values and presence"
    known = "protects values and presence, from a user's first event on, whose slot is not hidden"
    assert f"{known};" in said.describe()
    batches = loads(TEXT.replace("slot: 1m", "slot: 1m, format: arrow")).guarantee.describe()
    assert f"{known}, as long as the same messages can be read;" in batches
    assert loads(TEXT.replace(", cover: true", "")).guarantee.protects == "values"


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("slot: 1m", "slot: 1m, source: devices", "input.source"),
        ("slot: 1m", "slot: 1m, create: false", "input.create"),
        (
            "input: {slot: 1m",
            "kafka: {bootstrap_servers: 'h:1'}\ninput: {slot: 1m, topic: x, relay: true",
            "input.create",
        ),
        ("slot: 1m", "slot: 1m, closing: events", "input.closing"),
        ("[mean]", "[mean, per_user]", "output.statistics[1]"),
        ("cover: true", "cover: 1", "privacy.cover"),
        ("sw_direct", "capp", "privacy.cover"),
        ("sw_direct", "ipp_s", "privacy.cover"),
        ("method: sw_direct", "method: lpu", "privacy.cover"),
        ("[mean]", "[mean], postprocess: {smooth: kalman}", "output.postprocess"),
    ],
)
def test_what_shows_presence_is_refused(old, new, key):
    with pytest.raises(TopologyError) as caught:
        loads(TEXT.replace(old, new))
    assert key in {problem.key for problem in caught.value.problems}


def test_protocols_do_not_stand_for_what_hides_presence():
    with pytest.raises(TopologyError, match=r"output\.postprocess"):
        loads(CODES.replace("[frequencies]", "[frequencies], postprocess: {norm_sub: true}"))
    assert plan(loads(CODES), 5000).comparison is None
    assert plan(loads(CODES.replace(", cover: true", "")), 5000).comparison is not None


@pytest.mark.parametrize("text", [TEXT, CODES])
def test_a_plan_says_what_it_costs(text):
    """By what is predicted of a release of all users, and of half of them without it."""
    planned = plan(loads(text), 2000)
    plain = plan(loads(text.replace(", cover: true", "")), 1000)
    [line] = [each for each in planned.lines() if each.startswith("cover ")]
    found = re.search(r"standard error (\S+) \(without cover (\S+)\)", line)
    [mine], [theirs] = planned.predictions, plain.predictions
    assert float(found[1]) == pytest.approx(2 * mine.error, rel=1e-3)
    assert float(found[2]) == pytest.approx(theirs.error, rel=1e-3)
    assert float(found[1]) > 1.3 * float(found[2])
    assert not [each for each in plain.lines() if each.startswith("cover ")]
    assert any("cover: any topology on t.raw" in warning for warning in planned.warnings)
