"""Plans of protocols: what they say is sent, asked and kept is, and which protocol to take."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ldp_kafka.cli import cli
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.methods.protocols.prediction import LONGEST
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads, plan
from ldp_kafka.topology.comparison import MOVES, compare
from ldp_kafka.topology.planner import PANE_BYTES
from tests.cases import cases

TEXT = """\
topology: meters
input: {{slot: 1m, {input}}}
privacy: {{method: {method}, epsilon: {epsilon}, window: {window}, {shape}}}
output: {{statistics: [{statistics}]}}
runtime: {{shards: 4}}
"""
NUMBERS, CATEGORIES = "domain: [0, 8000]", "categories: 3"
ALL, ADAPTIVE = sorted(PROTOCOLS), ["lba", "lbd", "lpa", "lpd"]
KEY = bytes(range(32))
USERS, SLOTS = 400, 20


def topology(method="lpa", shape=NUMBERS, epsilon=2.0, window=4, source="format: arrow"):
    statistics = "frequencies" if "categories" in shape else "mean"
    given = {"method": method, "epsilon": epsilon, "window": window, "statistics": statistics}
    return loads(TEXT.format(**given, shape=shape, input=source))


def ran(made):
    """A local run of USERS users over SLOTS slots whose mean jumps."""
    values = np.random.default_rng(3).random((USERS, SLOTS)) * 1000
    values[:, ::3] += 6000
    if made.method.kind == "categorical":
        values = (values > 3000).astype(int)
    log = as_log(made, messages(made, from_arrays(made, values, 1_600_000_020_000), 4096))
    return local.run(made, edge_randomness(made, KEY, "here"), log)


@cases("shape", [NUMBERS, CATEGORIES])
@cases("name", ALL)
def test_what_crosses_the_trust_line_is_what_was_planned(name, shape):
    """Reports of each phase, messages and bytes of a slot: at most so many, and not half as many in
    the slot that has most.
    """
    made = topology(name, shape)
    planned = plan(made, USERS)
    if planned.rounds is None:  # the method lpu for categories, which has no coordinator
        assert (name, shape) == ("lpu", CATEGORIES)
        return
    found = ran(made)
    records = [record for part in found.reports for record in part]
    reports, sent, size = Counter(), Counter(), Counter()
    for record in records:
        batch = read_reports(record.value)
        for slot in batch.slots.tolist():
            reports[slot, batch.phase] += 1
        if len(batch):
            slot = int(batch.slots[0])
            sent[slot] += 1
            size[slot] += len(record.value)
    for phase, most in ((0, planned.rounds.first), (1, planned.rounds.second)):
        found_most = max((n for (_, at), n in reports.items() if at == phase), default=0)
        slack = 5 * most**0.5 if name in ("lpa", "lpd", "lpu") else 0
        assert found_most <= most + slack, (phase, found_most, most)
        assert found_most >= most / 4, (phase, found_most, most)
    assert max(sent.values()) <= planned.batched.messages
    most = max(size.values())
    assert most < 1.1 * planned.batched.bytes + 1000
    assert most > planned.batched.bytes / 4
    assert bool(found.requests) == bool(planned.requests)


def test_a_request_is_as_long_as_planned():
    found = ran(topology("lpd"))
    longest = max(len(record.value) for record in found.requests)
    assert 0.5 * longest < plan(topology("lpd")).as_json()["per_slot"]["requests"]["bytes"]
    assert longest < 1.3 * plan(topology("lpd")).as_json()["per_slot"]["requests"]["bytes"]


@cases(
    "source",
    [
        "format: arrow",
        "format: arrow, lateness: 3, hold: 9",
        "lateness: 0, hold: 2",
        "per_slot: last, lateness: 3, hold: 9",
    ],
)
@cases("name", ALL)
def test_the_state_of_a_user_is_what_the_edge_keeps(name, source):
    """With the ring of values that wait for a request: of closed slots alone, where those of open
    ones are in panes.
    """
    made = topology(name, source=source)
    stage = roles.make(made, "perturb", 0, edge_randomness(made, KEY, "here"))
    fields = getattr(stage, "fields", made.method.fields)
    kept = sum(np.dtype(one.dtype).itemsize * max(one.length, 1) for one in fields.values())
    waiting = PANE_BYTES * made.open_slots
    assert (waiting > 0) == ("per_slot" in source)
    assert plan(made).state_bytes_per_user == 16 + kept + waiting
    assert ("held" in fields) == (name in ADAPTIVE)


FIRST_PHASE = (
    "epsilon 0.25 a report of the first phase, in every slot; what the coordinator asks for has at"
    " most 1 in a window"
)


@cases(
    ("name", "said"),
    [
        ("lbu", "epsilon 0.5 a report"),
        ("lsp", "epsilon 2 a report"),
        ("lpa", "epsilon 2 a report"),
        ("lbd", FIRST_PHASE),
    ],
)
def test_what_is_spent(name, said):
    assert f"spending     {said}" in plan(topology(name)).lines()


@cases(("name", "reached"), [("lbu", 4), ("lbd", 8), ("lpu", 1), ("lpd", 1)])
def test_what_is_guaranteed(name, reached):
    found = plan(topology(name))
    assert f"reports that one changed window can alter: {reached};" in found.guarantee_line
    assert "epsilon 2 over any 4 consecutive slots" in found.guarantee_line


@cases("name", ALL)
def test_topics_and_roles_of_a_plan(name):
    found = plan(topology(name))
    names = {topic.name for topic in found.topics}
    assert ("meters.requests" in names) == (name in ADAPTIVE)
    assert "meters.sums" in names
    assert {each.role for each in found.access} == {"perturb", "collect", "coordinate"}
    asked = [line for line in found.lines() if line.startswith("requests")]
    assert len(asked) == (name in ADAPTIVE)


@cases("shape", [NUMBERS, CATEGORIES])
@cases("name", ALL)
def test_a_plan_says_how_far_each_protocol_is_off(name, shape):
    """In text and in JSON, and of the topology's own as its error."""
    found = plan(topology(name, shape), 3000)
    data = json.loads(json.dumps(found.as_json(), allow_nan=False))
    told = data["comparison"]
    assert [each["moves"] for each in told["moves"]] == list(MOVES)
    for each in told["moves"]:
        assert sorted(each["errors"]) == ALL
        assert each["take"] == min(each["errors"], key=each["errors"].get)
    assert told["take"] in ALL
    (prediction,) = data["predictions"]
    assert prediction["error_reason"] == ("no_reports" if name == "lsp" else None)
    if (name, shape) != ("lpu", CATEGORIES):
        errors = [each["errors"][name] for each in told["moves"]]
        assert prediction["error"] == max(errors)
        assert prediction["useful"] is True
    text = "\n".join(found.lines())
    assert f"\ntake         {told['take']}: " in text
    assert ("held in the others, without an error (no_reports)" in text) == (name == "lsp")
    assert "best\n  not at all (0)" in text


def test_the_protocol_to_take():
    """The paper's advice: hold what stands still; divide the users where it moves; and of two that
    divide, never the budget.
    """
    told = compare(topology(window=20), 3000)
    assert told.moving[0].best.protocol == "lsp"
    assert told.moving[-1].best.protocol == "lpu"
    assert told.take in ("lpa", "lpd", "lpu")
    for moving in told.moving:
        for budget, population in (("lbu", "lpu"), ("lbd", "lpd"), ("lba", "lpa")):
            assert moving.of(population).error < 0.7 * moving.of(budget).error


def test_a_drift_that_is_given_is_the_only_one():
    (moving,) = compare(topology(), 3000, 0.01).moving
    assert moving.drift == 80.0  # a share of the domain
    (moving,) = compare(topology(shape=CATEGORIES), 3000, 0.01).moving
    assert moving.drift == 0.01  # of a frequency
    many = compare(topology(shape="categories: 100"), 3000).moving
    assert [each.drift for each in many] == [share / 50 for share in MOVES.values()]


@cases("drift", [-0.1, 1.1, float("nan")])
def test_what_a_drift_must_be(drift):
    with pytest.raises(ConfigurationError, match="drift must lie between 0 and 1"):
        plan(topology(), drift=drift)


def test_what_a_topology_cannot_run_is_not_compared():
    """Requests are written into a raw topic, if there is one, and it must be ours for that."""
    told = compare(topology("lpu", source="create: false"), 3000)
    assert [each.protocol for each in told.moving[0].expected] == ["lbu", "lpu", "lsp"]
    told = compare(topology("lpu", source="source: devices"), 3000)
    assert [each.protocol for each in told.moving[0].expected] == sorted(PROTOCOLS)


def test_windows_that_are_too_long_to_simulate():
    """Those that decide nothing are compared; of the others no error is said."""
    made = topology("lpa", window=LONGEST + 1, epsilon=20.0)
    found = plan(made, 3000)
    assert [each.protocol for each in found.comparison.moving[0].expected] == ["lbu", "lpu", "lsp"]
    assert found.predictions == ()
    assert not any(line.startswith("error") for line in found.lines())


@cases(
    "privacy",
    [
        "{method: capp, epsilon: 1, window: 4, domain: [0, 1]}|per_user",
        "{method: budget_split, epsilon: 1, window: 4, domain: [0, 1], dimension: 2}|mean",
        "{method: cgm, level: user, epsilon: 1, delta: 1.0e-5, horizon: 9, domain: [0, 1]}|mean",
    ],
)
def test_nothing_is_compared_where_no_protocol_fits(privacy):
    method, statistic = privacy.split("|")
    made = loads(
        f"topology: t\ninput: {{slot: 1h}}\nprivacy: {method}\n"
        f"output: {{statistics: [{statistic}]}}"
    )
    assert plan(made).comparison is None


WARNINGS = [
    ({}, 100, "are too few to see a change by"),
    ({"source": "format: arrow"}, 3000, None),
    ({"method": "lbd"}, 29, "are too few to see a change by"),
    ({"method": "lsp"}, 29, None),
]


@cases(("how", "users", "said"), WARNINGS)
def test_too_few_to_look(how, users, said):
    found = [each for each in plan(topology(**how), users).warnings if "too few" in each]
    assert len(found) == (said is not None)
    assert all(said in each for each in found)


@cases(("slot", "hold", "warned"), [("1s", 4, True), ("1s", 10, False), ("1m", 2, False)])
def test_a_hold_that_a_restart_outlasts(slot, hold, warned):
    given = {"method": "lpa", "shape": NUMBERS, "epsilon": 1.0, "window": 4, "statistics": "mean"}
    text = TEXT.format(**given, input=f"hold: {hold}").replace("slot: 1m", f"slot: {slot}")
    found = [each for each in plan(loads(text), 3000).warnings if each.startswith("hold")]
    assert len(found) == warned


def test_the_topology_of_the_page():
    """It loads as it stands there, and is planned."""
    pages = Path(__file__).parents[2] / "deploy" / "docs" / "pages"
    page = (pages / "how-to" / "choose-a-method.md").read_text("utf-8")
    (text,) = [one for one in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "hold" in one]
    found = plan(loads(text), 3000)
    assert found.rounds.second > 0
    assert found.comparison.take in ALL


def test_the_option_of_the_command(tmp_path):
    file = tmp_path / "meters.yaml"
    given = {"method": "lpa", "shape": NUMBERS, "epsilon": 2.0, "window": 4, "statistics": "mean"}
    file.write_text(TEXT.format(**given, input="").replace("slot: 1m, ", "slot: 1m"))
    done = CliRunner().invoke(cli, ["plan", str(file), "--drift", "0.02", "--json"])
    assert done.exit_code == 0, done.output
    (moves,) = json.loads(done.stdout)["comparison"]["moves"]
    assert moves["drift"] == 160
    wrong = CliRunner().invoke(cli, ["plan", str(file), "--drift", "2"])
    assert wrong.exit_code == 2
