"""Edge files: what one may say, what is said of one that is wrong, and what a plan and a run make
of it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError, ConfigurationError, TopologyError
from ldp_kafka.runtime.worker import supervisor as runner
from ldp_kafka.topology import admission, admit, load, load_edge, loads, plan, schema
from ldp_kafka.topology.stamps import APPENDED
from tests.cases import cases, table
from tests.keys import KEY

DAY = 86_400_000
T2027 = 1_798_761_600_000  # 2027-01-01

TOPOLOGY = """\
topology: {name}
input: {{topic: meters.raw, slot: 1h{input}}}
privacy: {{method: {method}, epsilon: {epsilon}, {privacy}}}
output: {{statistics: [mean]}}
edge: {{budget_file: {edge}}}
"""
EDGE = """\
edge: household-meters
raw_topic: meters.raw
limit: {epsilon: 3.0, window: 23h}
kept: 7d
admits:
  - {topology: a.yaml}
  - {topology: b.yaml}
"""
WINDOWED = "window: 24, domain: [0, 10]"
LIFE = "level: user, delta: 1.0e-6, horizon: 10, domain: [0, 10]"


@pytest.fixture
def house(tmp_path):
    """A folder with a budget file and two topologies in it."""

    def write(edge=EDGE, **more):
        for name, how in {"a": {}, "b": {}, **more}.items():
            usual = {"method": "sw_direct", "epsilon": 1.5, "privacy": WINDOWED, "input": ""}
            given = {**usual, "edge": "edge.yaml", "name": name, **how}
            (tmp_path / f"{name}.yaml").write_text(TOPOLOGY.format(**given))
        (tmp_path / "edge.yaml").write_text(edge)
        return tmp_path

    return write


def refused(path):
    """The lines of the error, without the folder."""
    with pytest.raises(TopologyError) as caught:
        load_edge(path / "edge.yaml")
    return str(caught.value).replace(f"{path}/", "").splitlines()


def test_what_it_says(house):
    """Limits in whole micro-epsilon, durations in milliseconds, topologies in their order."""
    text = EDGE.replace("kept", "life: {epsilon: 2, delta: 1.0e-6}\nkept").replace(
        "b.yaml}", "b.yaml, until: 2027-01-01}"
    )
    edge = load_edge(house(text) / "edge.yaml")
    run, life = edge.limits
    assert (edge.name, edge.raw_topic) == ("household-meters", "meters.raw")
    assert (run.most.epsilon, run.run_ms, run.kept_ms) == (3_000_000, 23 * 3_600_000, 7 * DAY)
    assert (life.most.epsilon, float(life.most.delta), life.run_ms) == (2_000_000, 1e-6, None)
    assert [(each.topology.name, each.until_ms) for each in edge.admits] == [
        ("a", None),
        ("b", T2027),
    ]
    # max_ahead before the record's timestamp, and as much again before the broker's clock
    assert edge.admits[1].spender().last_ms == T2027 + 2 * DAY


def test_who_relays_spends_of_the_topic_that_it_copies(house):
    """Two topologies have a copy each, and the values of one topic: both count."""
    own = {"input": ", relay: true}\nkafka: {bootstrap_servers: 'b:1'"}
    found = load_edge(house(a=own, b=own) / "edge.yaml")
    assert [each.topology.raw_topic for each in found.admits] == ["a.edge", "b.edge"]
    lines = refused(house(EDGE.replace("meters.raw", "a.edge"), a=own, b=own))
    assert any("must read the raw topic a.edge; it reads meters.raw" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("2027-01-01", 0), ("2027-01-01T12:30", 45_000_000), ("2027-01-01T00:00:01Z", 1000)],
)
def test_until(house, text, ms):
    """A day begins at midnight, UTC."""
    folder = house(EDGE.replace("b.yaml}", f"b.yaml, until: {text}}}"))
    assert load_edge(folder / "edge.yaml").admits[1].until_ms == T2027 + ms


WRONG = table(r"""
edge: household-meters\n |  | edge.yaml:1: edge: must be given
admits: | admit: | edge.yaml:1: admits: must be given
epsilon: 3.0 | epsilon: 0 | edge.yaml:3: limit.epsilon: must be greater than 0; got 0
epsilon: 3.0 | epsilon: 1.0e-7 | edge.yaml:3: limit.epsilon: must be at least a millionth
epsilon: 3.0 | epsilon: .nan | edge.yaml:3: limit.epsilon: must be a finite number
epsilon: 3.0 | epsilon: 3.0, delta: 1 | edge.yaml:3: limit.delta: must be less than 1; got 1
window: 23h | window: 23 |
    edge.yaml:3: limit.window: must be a positive whole number and ms, s, m, h or d, such as 24h;
    got 23: write its unit too, such as 23s
window: 23h | windows: 23h | edge.yaml:3: limit.windows: unknown key (did you mean window?)
limit: {epsilon: 3.0, window: 23h}\n |  |
    edge.yaml:5: admits[0].topology: a is of level w-event: limit must be given
kept: 7d | kept: soon |
    edge.yaml:4: kept: must be a positive whole number and ms, s, m, h or d, such as 15d; got "soon"
b.yaml | c.yaml |
    edge.yaml:7: admits[1].topology: cannot read the topology c.yaml: No such file or directory
b.yaml | a.yaml |
    edge.yaml:7: admits[1].topology: admits a twice: two topologies of one name would draw the same
    noise
b.yaml} | b.yaml, until: tomorrow} |
    edge.yaml:7: admits[1].until: must be a date or a time in UTC, such as 2027-01-01 or
    2027-01-01T12:00Z; got "tomorrow"
b.yaml} | b.yaml, until: 2027-02-29} |
    edge.yaml:7: admits[1].until: must be a day of the calendar, from 1970 on
edge: household-meters | edge: ${NOWHERE} |
    edge.yaml:1: edge: must be written out, without the variable NOWHERE: LIMITS
raw_topic: meters.raw | raw_topic: ${NOWHERE:-meters.raw} |
    edge.yaml:2: raw_topic: must be written out, without the variable NOWHERE: LIMITS
epsilon: 3.0 | epsilon: '${NOWHERE}' |
    edge.yaml:3: limit.epsilon: must be written out, without the variable NOWHERE: LIMITS
a.yaml} | '${NOWHERE:-a}.yaml'} |
    edge.yaml:6: admits[0].topology: must be written out, without the variable NOWHERE: LIMITS
raw_topic: meters.raw | raw_topic: other.raw |
    edge.yaml:6: admits[0].topology: a must read the raw topic other.raw; it reads meters.raw
""")


@cases(("old", "new", "said"), WRONG)
def test_what_is_wrong_is_said_with_line_and_key(house, old, new, said):
    """And with what must hold."""
    assert old in EDGE
    limits = "each of its values would have limits of its own"
    assert said.replace("LIMITS", limits) in refused(house(EDGE.replace(old, new)))


FIELDS = (
    "b must take user and time from the same fields, and in the same way, as a: what is lost of one"
    " user in one run is summed"
)
UNFIT = table(r"""
epsilon | -1 | cannot be admitted: b.yaml:3: privacy.epsilon: must be greater than 0; got -1
edge | ~ | b must name this file as its edge.budget_file, or it would run unasked
edge | other.yaml | b must name this file as its edge.budget_file; it names other.yaml
input | , user: $.person | FIELDS
input | , time_unit: us | FIELDS
input | , user: [$.user, $.site] | FIELDS
input | , time: $.when | FIELDS
""")
NOTHING = (
    "b guarantees nothing that could be counted (calibration published): no limit holds beside it"
)
PUBLISHED = {"method": "app", "privacy": f"{WINDOWED}, calibration: published"}
FOR_LIFE = {"method": "gaussian_direct", "privacy": LIFE}


@cases(
    ("how", "said"),
    [
        *(({key: value}, said.replace("FIELDS", FIELDS)) for key, value, said in UNFIT),
        (PUBLISHED, NOTHING),
        (FOR_LIFE, "b is of level user: life must be given"),
    ],
)
def test_topologies_that_fit_no_edge(house, how, said):
    """The line is that of the entry."""
    assert refused(house(b=how)) == [f"edge.yaml:7: admits[1].topology: {said}"]


ENVIRONMENT = {"STAGE": "b", "FIELD": "$.person", "NUMBER": "1", "TEXT": "mean"}
VARIABLES = [
    ({"name": "${STAGE}"}, 1, "topology", "STAGE"),
    ({"name": "'${STAGE:-b}'"}, 1, "topology", "STAGE"),
    ({"name": "${UNSET}"}, 1, "topology", "UNSET"),
    ({"input": ", user: '${FIELD}'"}, 2, "input.user", "FIELD"),
    ({"input": ", user: ['$.site', '${FIELD}']"}, 2, "input.user[1]", "FIELD"),
    ({"input": ", value: '${FIELD}'"}, 2, "input.value", "FIELD"),
    ({"input": ", per_slot: '${TEXT}'"}, 2, "input.per_slot", "TEXT"),
    ({"input": ", max_ahead: '${NUMBER}d'"}, 2, "input.max_ahead", "NUMBER"),
    ({"epsilon": "'${NUMBER}'"}, 3, "privacy.epsilon", "NUMBER"),
    ({"privacy": "window: '${NUMBER:-24}', domain: [0, 10]"}, 3, "privacy.window", "NUMBER"),
    ({"privacy": "window: 24, domain: [0, '${NUMBER}0']"}, 3, "privacy.domain[1]", "NUMBER"),
]


@cases(("how", "line", "key", "variable"), VARIABLES)
def test_each_value_of_a_variable_would_have_the_whole_limit(
    house, monkeypatch, how, line, key, variable
):
    """Name, slot, user, privacy: what says whose values are read, and what is lost of them, is
    written out, whether the variable is set, has a default, or neither.
    """
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("UNSET", raising=False)
    folder = house(b=how)
    assert refused(folder) == [
        f"b.yaml:{line}: {key}: must be written out, without the variable {variable}:"
        f" {folder}/edge.yaml admits this topology, and each value of the variable would have the"
        " whole limit".replace(f"{folder}/", "")
    ]


def test_variables_of_a_machine_are_nobodys_budget(house, monkeypatch):
    """Addresses, logins, the edge's files, and how a process runs."""
    monkeypatch.setenv("EDGE_FILE", "edge.yaml")
    kafka = "\nkafka: {bootstrap_servers: '${SERVERS:-b:1}', client: {client.id: '${ID:-a}'}}"
    own = {
        "edge": "'${EDGE_FILE}', key_file: '${KEY}'",
        "input": "}" + kafka + "\nruntime: {session_timeout: '${SECONDS:-10}s'",
    }
    found = load_edge(house(b=own) / "edge.yaml")
    assert [each.topology.name for each in found.admits] == ["a", "b"]


def test_a_home_is_a_variable_too(house, tmp_path, monkeypatch):
    """Each user of a machine has another: ``~`` is a folder of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    [line] = refused(house(EDGE.replace("a.yaml}", "~/a.yaml}")))
    assert line.startswith("edge.yaml:6: admits[0].topology: cannot read the topology ~/a.yaml")


def test_no_file(house, tmp_path):
    """Or no text, or no mapping."""
    with pytest.raises(ConfigurationError, match="cannot read the budget file"):
        load_edge(tmp_path / "none.yaml")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(TopologyError, match="must be UTF-8"):
        load_edge(tmp_path / "binary")
    said = "a budget file must be a mapping of keys such as edge, raw_topic, limit and admits"
    assert refused(house("[]")) == [f"edge.yaml:1: {said}"]


def test_exactly_the_limit(house):
    """To one micro-epsilon."""
    folder = house()
    assert admit(load(folder / "b.yaml"), T2027) is None
    folder = house(b={"epsilon": 1.500001})
    with pytest.raises(ConfigurationError, match=r"limit epsilon 3: 0\.000001 too much"):
        admit(load(folder / "b.yaml"), T2027)
    assert admit(load(folder / "a.yaml"), T2027) is None  # what comes later takes nothing away


def test_a_run_touches_one_slot_more_than_fit_into_it(house):
    """24 hours touch 25 slots, which are two windows of 24."""
    folder = house(EDGE.replace("23h", "24h"))
    assert admit(load(folder / "a.yaml"), T2027) is None
    said = re.escape(
        "any run of 1d: spent epsilon 3 (a 3), requested by b epsilon 3, together epsilon 6,"
        " limit epsilon 3: 3 too much"
    )
    with pytest.raises(ConfigurationError, match=said):
        admit(load(folder / "b.yaml"), T2027)


def test_who_was_refused_still_counts(house):
    """Else the next one would take what it waits for, and both would run when a third
    is retired.
    """
    folder = house(EDGE + "  - {topology: c.yaml}\n", b={"epsilon": 2.0}, c={"epsilon": 1.0})
    for name in "bc":
        with pytest.raises(ConfigurationError, match=f"requested by {name}"):
            admit(load(folder / f"{name}.yaml"), T2027)


def test_retirement(house):
    """It runs until then and not after; what it lost counts until the last moment at which a new
    topology may read a run of the same values.
    """
    folder = house(EDGE.replace("a.yaml}", "a.yaml, until: 2027-01-01}"), b={"epsilon": 2.0})
    a, b = load(folder / "a.yaml"), load(folder / "b.yaml")
    assert admit(a, T2027 - 1) == T2027
    with pytest.raises(ConfigurationError, match="retired a on 2027-01-01T00:00:00Z"):
        admit(a, T2027)
    free = T2027 + 2 * DAY + 7 * DAY + 23 * 3_600_000  # max_ahead twice, kept, a run
    with pytest.raises(ConfigurationError, match="room for it: after 2027-01-10T23:00:00Z"):
        admit(b, free, APPENDED)
    assert admit(b, free + 1, APPENDED) is None
    for now, said in ((free, "counts until 2027-01-10T23:00:00Z"), (free + 1, "no longer counts")):
        lines = "\n".join(plan(b, now_ms=now).lines())
        assert f"retired 2027-01-01T00:00:00Z, {said}" in lines


def test_who_is_not_admitted(house):
    """By name, or because it is another topology under that name."""
    folder = house(c={})
    with pytest.raises(
        ConfigurationError, match="edge household-meters does not admit c; it admits a, b"
    ):
        admit(load(folder / "c.yaml"), T2027)
    text = (folder / "a.yaml").read_text()
    for old, new in (("1.5", "0.5"), ("slot: 1h", "slot: 1h, lateness: 2")):
        with pytest.raises(ConfigurationError, match=r"as a, and not .*copy\.yaml"):
            admit(loads(text.replace(old, new), str(folder / "copy.yaml")), T2027)
    assert admit(loads(text, str(folder / "copy.yaml")), T2027) is None


def test_no_edge_file():
    """Nobody sums, and a plan has no sum."""
    topology = loads(
        "topology: m\ninput: {slot: 1h}\nprivacy: {method: sw_direct, epsilon: 1, window: 2,"
        " domain: [0, 1]}\noutput: {statistics: [mean]}"
    )
    assert admit(topology) is admission(topology) is None
    assert plan(topology).as_json()["edge_budget"] is None
    assert not [line for line in plan(topology).lines() if "edge budget" in line]


def test_a_file_left_to_a_variable(house, monkeypatch):
    """Is asked for by the role that needs it, and is never the same as none."""
    monkeypatch.delenv("EDGE_FILE", raising=False)
    folder = house(b={"edge": "'${EDGE_FILE}'"})
    topology = load(folder / "b.yaml")
    with pytest.raises(
        TopologyError,
        match="variable EDGE_FILE is not set here, and has no default: the perturb role needs it",
    ):
        admit(topology)
    assert plan(topology).edge_budget is None
    assert len(load_edge(folder / "edge.yaml").admits) == 2
    monkeypatch.setenv("EDGE_FILE", "edge.yaml")
    assert admit(load(folder / "b.yaml"), T2027) is None


def test_levels_beside_each_other(house):
    """One of level user counts whole in every run, with its delta, and for life; one of windows in
    runs alone.
    """
    text = EDGE.replace("kept", "life: {epsilon: 1, delta: 1.0e-6}\nkept").replace(
        "3.0,", "3.0, delta: 1.0e-6,"
    )
    folder = house(text, b={"method": "gaussian_direct", "privacy": LIFE, "epsilon": 1.0})
    found = admission(load(folder / "b.yaml"), T2027)
    assert [claim["by"] for claim in found.as_json()["admits"][1]["claims"]] == [
        {"a": {"epsilon": 1.5, "delta": 0.0}},
        {},
    ]
    assert not found.refusals
    folder = house(
        text.replace("3.0, delta: 1.0e-6", "3.0"),
        b={"method": "gaussian_direct", "privacy": LIFE, "epsilon": 1.0},
    )
    said = r"any run of 23h: spent epsilon 1.5 \(a 1.5\), requested by b epsilon 1 and delta 1e-06"
    with pytest.raises(ConfigurationError, match=said):
        admit(load(folder / "b.yaml"), T2027)


def test_plan_prints_it(house, capsys):
    """The sum, where each part comes from, and every fingerprint; as JSON too."""
    folder = house(b={"epsilon": 1.0})
    assert main(["plan", str(folder / "b.yaml")]) == 0
    text = capsys.readouterr().out
    assert (
        "edge budget  household-meters, any run of 23h: spent epsilon 1.5 (a 1.5), requested by b"
        " epsilon 1, together epsilon 2.5, limit epsilon 3: 0.5 is left\n" in text
    )
    fingerprints = [load(folder / f"{name}.yaml").fingerprint for name in "ab"]
    assert (
        "  a  1.5 x 1 window of 24 slots, over the 24 slots of 1h that a run can touch;"
        f" fingerprint {fingerprints[0]}\n" in text
    )
    assert f"fingerprint {fingerprints[1]}\n" in text
    assert main(["plan", str(folder / "b.yaml"), "--json"]) == 0
    budget = json.loads(capsys.readouterr().out)["edge_budget"]
    assert (budget["edge"], budget["admitted"]) == ("household-meters", True)
    assert [each["fingerprint"] for each in budget["admits"]] == fingerprints
    house(b={"epsilon": 1.6})
    assert main(["plan", str(folder / "b.yaml")]) == 2
    text = capsys.readouterr().out
    assert re.search(
        r"^refused      edge household-meters, .* 0\.1 too much; room for it: never, as long as"
        r" nothing more is retired$",
        text,
        re.MULTILINE,
    )
    assert f"{load(folder / 'b.yaml').fingerprint}; refused\n" in text


@cases(
    ("name", "change"),
    [
        ("b", {"b": {"epsilon": 1.6}}),
        ("c", {"c": {}}),
        ("a", {"edge": EDGE.replace("a.yaml}", "a.yaml, until: 2020-01-01}")}),
    ],
)
def test_plan_ends_as_run_does(house, capsys, monkeypatch, name, change):
    """Where the budget file refuses: code 2 and the same words, after all that the plan says."""
    monkeypatch.delenv("LDP_KAFKA_EDGE_KEY", raising=False)
    path = str(house(**change) / f"{name}.yaml")
    assert main(["run", path]) == 2
    why = capsys.readouterr().err
    assert main(["plan", path]) == 2
    said = capsys.readouterr()
    assert said.err == why
    assert all(word in said.out for word in ("guarantee ", "edge budget ", "refused  "))
    assert main(["plan", path, "--json"]) == 2
    said = capsys.readouterr()
    assert said.err == why
    assert json.loads(said.out)["edge_budget"]["admitted"] is False


NOBODY_SUMS = "edge.budget_file is not set: what other topologies on meters.raw spend"


def test_plan_warns_where_nobody_sums(house, capsys, monkeypatch):
    """Without a budget file; not where a variable names it elsewhere, and not of devices, which no
    file can sum.
    """
    monkeypatch.delenv("EDGE_FILE", raising=False)
    folder = house(b={"edge": "'${EDGE_FILE}'"})
    alone = folder / "alone.yaml"
    alone.write_text((folder / "a.yaml").read_text().replace("edge: {budget_file: edge.yaml}", ""))
    devices = folder / "devices.yaml"
    devices.write_text(
        alone.read_text().replace("topic: meters.raw", "source: devices")
        + "kafka: {edge: {bootstrap_servers: a:1}, collector: {bootstrap_servers: b:1}}\n"
    )
    none = ((folder / "a.yaml", 0), (folder / "b.yaml", 0), (devices, 0))
    for path, expected in ((alone, 1), *none):
        assert main(["plan", str(path)]) == 0
        assert capsys.readouterr().out.count(f"warning      {NOBODY_SUMS}") == expected
        assert main(["plan", str(path), "--json"]) == 0
        warnings = json.loads(capsys.readouterr().out)["warnings"]
        assert sum(warning.startswith(NOBODY_SUMS) for warning in warnings) == expected


@pytest.mark.parametrize("role", [[], ["--role", "perturb"]])
def test_run_refuses(house, role, capsys, monkeypatch):
    """With exit code 2 and the sum, before it asks for a key or a broker."""
    monkeypatch.delenv("LDP_KAFKA_EDGE_KEY", raising=False)
    folder = house(b={"epsilon": 1.6})
    assert main(["run", str(folder / "b.yaml"), *role]) == 2
    said = capsys.readouterr().err
    assert (
        "spent epsilon 1.5 (a 1.5), requested by b epsilon 1.6, together epsilon 3.1, limit epsilon"
        " 3: 0.1 too much; room for it: never" in said
    )
    assert "Traceback" not in said
    assert main(["run", str(folder / "a.yaml"), *role]) == 2
    assert "the edge needs a key" in capsys.readouterr().err


def test_a_collector_does_not_need_the_file(house, monkeypatch, capsys):
    """It has neither the file nor a say in it."""
    monkeypatch.setattr(
        "ldp_kafka.runtime.kafka.setup.resolve",
        lambda _: (_ for _ in ()).throw(BrokerError("this far")),
    )
    folder = house()
    (folder / "edge.yaml").unlink()
    assert runner.run(load(folder / "a.yaml"), role="collect") == 75
    assert "this far" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="cannot read the budget file"):
        runner.run(load(folder / "a.yaml"), role="perturb")


def test_a_running_one_ends_when_it_is_retired(house, monkeypatch):
    """Its process does, with the code of what may not run; the worker is told the moment of the
    file.
    """
    script = (
        "import time; from ldp_kafka.runtime.worker.health import Health; health = Health();"
        " health.retires = 'a', time.time() + 0.3; health.start(); time.sleep(60)"
    )
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (2, "ldp-kafka: a is retired by its budget file\n")
    assert time.monotonic() - begun > 0.3
    told = []
    folder = house(EDGE.replace("a.yaml}", "a.yaml, until: 9000-01-01}"))
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY", KEY.hex())
    monkeypatch.setattr("ldp_kafka.runtime.kafka.setup.resolve", lambda _: ("b:1", "b:1"))
    monkeypatch.setattr(runner, "_ready", lambda *_: None)
    monkeypatch.setattr("ldp_kafka.runtime.kafka.deployment.read_deployment", lambda *_: "here")
    monkeypatch.setattr(
        "ldp_kafka.runtime.worker.app.work",
        lambda *_, health, **__: told.append(health.retires) or 0,
    )
    for name, role in (("a", "perturb"), ("a", "collect"), ("b", "perturb")):
        assert runner.run(load(folder / f"{name}.yaml"), role=role) == 0
    until_ms = load_edge(folder / "edge.yaml").admits[0].until_ms
    assert told == [("a", until_ms / 1000), *[("", float("inf"))] * 2]


def test_the_example_of_the_readme(tmp_path):
    """It is a budget file, but for the topologies that it names."""
    text = (Path(__file__).parents[2] / "topologies" / "README.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(edge: .*?)```", text, re.DOTALL)
    (tmp_path / "edge.yaml").write_text(block)
    assert all("cannot read the topology" in line for line in refused(tmp_path))
    keys = []
    for name, place in schema("edge")["properties"].items():
        below = place.get("items", place).get("properties", {})
        keys += [f"{name}.{key}" for key in below] or [name]
    assert not [key for key in keys if f"`{key}`" not in text]
