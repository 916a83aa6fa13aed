"""Roles and agents are data: nothing else in the house knows their names, and a third role is seen
by all that is derived from them.
"""

from __future__ import annotations

import ast
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import ldp_kafka
from ldp_kafka.cli import cli
from ldp_kafka.errors import ConfigurationError, InvariantError
from ldp_kafka.metrics import EDGE_ONLY, Metrics
from ldp_kafka.runtime import roles as bindings
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin, setup
from ldp_kafka.runtime.log import Message, Output, Record
from ldp_kafka.runtime.stages.gates import AtClose, AtOnce, Covered, WindowCloses, gate_of
from ldp_kafka.runtime.tools.state import read_state
from ldp_kafka.runtime.worker import children
from ldp_kafka.topology import loads, plan, schema
from ldp_kafka.topology import roles as table
from ldp_kafka.topology.roles import COLLECTOR, EDGE, Agent, Role, Topic
from ldp_kafka.topology.sources import SOURCES
from tests.cases import cases

ROOT = Path(ldp_kafka.__file__).parent
TEXT = """
topology: meters
input: {source: SOURCE, slot: 1h, partitions: 3MORE}
privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
output: {statistics: [mean]}
"""


def topology(source="topic", more="", method=""):
    text = TEXT.replace("SOURCE", source).replace("MORE", more)
    if method:
        text = text.replace("sw_direct, epsilon: 1.0, window: 10", method)
        text = text.replace("[mean]", "[per_user]" if "naive" in method else "[mean]")
    return loads(text)


GIVEN = {"curator": "topic"}
"""Where values come from, of sources that are not that by themselves."""
FLOWS = [
    SOURCES[source]("meters", topology(GIVEN.get(source, source)).input, phases)
    for source in SOURCES
    for phases in (0, 1, 2)
]
NAMES = {*table.ROLES} | {
    agent.name for flow in FLOWS for role in flow.roles for agent in role.agents
}
HOMES = ("topology/roles.py", "topology/sources.py", "runtime/roles.py")
"""The files that may name roles and agents."""
SEARCHED = [
    path
    for place in ("topology", "runtime", "cli", "metrics")
    for path in sorted((ROOT / place).rglob("*.py") if (ROOT / place).is_dir() else [ROOT / place])
]
BY_ATTRIBUTE = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller"}


def names_a_role(text: str) -> bool:
    """Whether a text is the name of a role or an agent, or is made with it, such as
    ``-perturb-changelog``. Prose in which a name stands is neither.
    """
    words = re.findall("[A-Za-z]+", text)
    prose = re.search(r"\s", text.strip()) and not NAMES.issuperset(words)
    return not prose and not NAMES.isdisjoint(words)


def literals(source: str) -> list[tuple[int, str]]:
    """(line, text) of each literal that names a role: keys of dicts, patterns and the parts of
    f-strings are literals too; docstrings, names of methods and what a file offers are not.
    """
    tree = ast.parse(source)
    passed = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            passed |= {id(each) for each in ast.walk(node)}
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in BY_ATTRIBUTE:
                passed |= {id(argument) for argument in node.args}
            if called == "dict":
                found += [(node.lineno, each.arg) for each in node.keywords if each.arg in NAMES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in passed:
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(text, str) and names_a_role(text):
                found.append((node.lineno, text))
    return found


@cases("path", SEARCHED)
def test_no_literal_names_a_role(path):
    """Elsewhere roles and agents are looked up, by what they read or by what they are."""
    found = literals(path.read_text(encoding="utf-8"))
    assert bool(found) == (str(path.relative_to(ROOT)) in HOMES), found


@cases(
    "planted",
    [
        'role = "perturb"',
        'if agent == "merge": pass',
        'group = f"{name}-collect"',
        'topic = f"{name}-perturb-perturb-changelog"',
        'sides = {"curate": 1}',
        "sides = dict(coordinate=1)",
        'roles = "perturb collect".split()',
        'key = b"collect/0"',
        'match role:\n    case "perturb": pass',
        'stage = "collect_devices"',
        'def f(role: str = "collect") -> None: ...',
        "text = f\"{name} {'merge'}\"",
    ],
)
def test_a_planted_literal_is_found(planted):
    """Alone, and at the end of a file that has none."""
    assert literals(planted)
    whole = (ROOT / "runtime/kafka/setup.py").read_text(encoding="utf-8")
    assert not literals(whole)
    assert literals(f"{whole}\n\n{planted}\n")


@cases(
    "harmless",
    [
        '"""The perturb role\'s."""',
        'def f():\n    """perturb"""',
        'x: int = 0\n"""perturb"""',
        "value.perturb(1); merge(2)",
        '__all__ = ["make_perturb"]',
        'getattr(mechanism, "perturb")',
        'side = "collector"',
        'text = "the perturb role needs it"',
        'text = f"{name} has no perturb role"',
    ],
)
def test_prose_and_methods_are_none(harmless):
    """Else nobody could write a sentence about a role."""
    assert not literals(harmless)


def test_each_source_has_a_table():
    """The sources that a file may name, and no others."""
    given = schema()["$defs"]["input"]["properties"]["source"]["enum"]
    assert list(SOURCES) == [*given, *GIVEN]


@pytest.mark.parametrize(
    "flow", FLOWS, ids=lambda flow: ", ".join(role.agents[0].stage for role in flow.roles)
)
def test_a_table_fits_together(flow):
    """Every agent has a stage, what it reads is written by somebody or comes from outside, and a
    log that is folded is on its role's side.
    """
    agents = [agent for role in flow.roles for agent in role.agents]
    assert {agent.stage for agent in agents} <= bindings.STAGES.keys()
    written = [topic for agent in agents for topic in agent.writes]
    assert {agent.topic for agent in agents} - {topic.name for topic in written} == {
        (flow.raw or flow.reports).name
    }
    assert all(agent.reads.side == role.side for role in flow.roles for agent in role.agents)
    assert all(role.needs_key == any(agent.raw for agent in role.agents) for role in flow.roles)
    assert sum(agent.ticks for agent in agents) == 1
    assert len({topic.name for topic in flow.topics}) == len(flow.topics)


def test_no_stage_is_idle():
    """What is bound is an agent's in some table."""
    used = {agent.stage for flow in FLOWS for role in flow.roles for agent in role.agents}
    assert used == bindings.STAGES.keys()


def test_no_gate_is_idle():
    """Each is some edge's, as the method and the input ask."""
    methods = (
        "sw_direct, epsilon: 1.0, window: 10",
        "sw_direct, epsilon: 1.0, window: 10, cover: true",
        "lba, epsilon: 1.0, window: 10",
        "naive, level: event, epsilon: 1.0, delay: 4",
    )
    found = {
        type(gate_of(topology(more=more, method=method), None))
        for method in methods
        for more in ("", ", per_slot: mean")
    }
    assert found == {AtOnce, AtClose, Covered, WindowCloses}


def test_someone_elses_raw_topic_is_not_ours():
    """Nor has it a header; it is among the topics all the same, for who has to look at it."""
    made = topology(more=", create: false, topic: theirs, gaps: allow")
    role, agent = made.reader("theirs")
    assert (role.name, agent.header, agent.gaps) == ("perturb", False, True)
    assert "theirs" in {topic.name for topic in made.flow.topics}
    assert "theirs" not in {topic.name for topic in made.topics()}
    assert "ours" not in made.flow.topics[0].as_json()


def test_who_reaches_which_side():
    """The edge writes to the collector's cluster; the collector knows nothing of the edge's."""
    edge, collector = topology().roles
    assert (edge.side, edge.sides, edge.needs_key) == (EDGE, (EDGE, COLLECTOR), True)
    assert (collector.side, collector.sides) == (COLLECTOR, (COLLECTOR,))
    assert not collector.needs_key


def test_what_is_not_there():
    """Says what is, and why it is not."""
    devices = topology("devices")
    why = r"its devices perturb by themselves \(ldp_kafka.Client\)"
    with pytest.raises(
        ConfigurationError, match=f"meters has no perturb role: {why}; its roles: collect$"
    ):
        devices.role("perturb")
    with pytest.raises(ConfigurationError, match=f"no agent perturb: {why}"):
        devices.agent("perturb")
    with pytest.raises(ConfigurationError, match=f"no role that reads meters.raw: {why}"):
        devices.reader(devices.raw_topic)
    with pytest.raises(ConfigurationError, match="has no raw topic"):
        devices.dead_letters_topic  # noqa: B018
    with pytest.raises(ConfigurationError, match=r"no role that reads x$"):
        topology().reader("x")


def test_the_edge_draws_nothing_without_a_key():
    """It says so before anything is folded."""
    with pytest.raises(ConfigurationError, match="the edge needs a key"):
        bindings.make(topology(), "perturb", 0)


def test_wrong_tables_are_refused():
    """A role that no one knows, a log on the other side, and two agents of one name."""
    flow = topology().flow
    edge, collector = flow.roles
    with pytest.raises(InvariantError, match="a role must be one of perturb, curate, collect"):
        Role("meters", "toy", ())
    with pytest.raises(InvariantError, match="must lie on the collector's side"):
        replace(collector, agents=edge.agents)
    with pytest.raises(InvariantError, match="different names"):
        replace(flow, roles=(edge, collector, collector))


class Toy:
    """Answers each message with its offset, and keeps nothing."""

    fingerprint = layout = key = ""

    def __init__(self, topic):
        self.topic = topic

    def fresh(self):
        return None

    def fold(self, state, messages):
        del state
        made = [Record(self.topic, 0, None, str(message.offset).encode()) for message in messages]
        output = Output(None)
        output.send(*made)
        output.count("releases", len(made))
        return output


def with_toy(name, source, phases):
    """The table of a raw topic, and a further role on the collector's side."""
    flow = OF_TOPIC(name, source, phases)
    wishes = Topic(f"{name}.wishes", 1, {"cleanup.policy": "delete"}, "wishes", COLLECTOR)
    granted = Topic(f"{name}.granted", 2, {"cleanup.policy": "delete"}, "granted", COLLECTOR)
    grant = Agent("grant", "grant", wishes, (granted,), "wishes that wait")
    return replace(flow, roles=(*flow.roles, Role(name, "toy", (grant,))))


OF_TOPIC = SOURCES["topic"]


@pytest.fixture
def toy(monkeypatch):
    """A topology with a third role: one line in `ROLES`, one entry in a table, one stage, one
    binding, and nothing else.
    """
    monkeypatch.setitem(table.ROLES, "toy", COLLECTOR)
    monkeypatch.setitem(SOURCES, "topic", with_toy)
    monkeypatch.setitem(
        bindings.STAGES, "grant", lambda topology, *_: Toy(f"{topology.name}.granted")
    )
    return topology()


def test_a_new_roles_topics_group_and_stage(toy):
    """They come after the others', on its side."""
    before = [topic.name for topic in OF_TOPIC("meters", toy.input, 0).topics]
    new = ["meters.wishes", "meters.granted", "meters-toy-grant-changelog"]
    assert [topic.name for topic in toy.topics()] == before + new
    assert {topic.side for topic in toy.topics() if topic.name in new} == {COLLECTOR}
    assert toy.group("toy") == "meters-toy"
    assert toy.changelog("toy", "grant") == new[-1]
    assert [role.name for role in toy.roles] == ["perturb", "collect", "toy"]
    made = bindings.make(toy, "grant", 0)
    assert made.fold(made.fresh(), [Message(7, -1, b"")]).records[0].value == b"7"


def test_a_new_role_changes_no_digest(toy):
    """Its topology's noise and state are what they were."""
    plain = loads(TEXT.replace("SOURCE", "devices").replace("MORE", ""))
    assert toy.fingerprint == plain.fingerprint
    assert toy.layout != plain.layout  # as without the role: devices have another one
    assert (toy.fingerprint, toy.layout) == DIGESTS


DIGESTS = (topology().fingerprint, topology().layout)


@cases("command", [["run"], ["state", "inspect"], ["state", "verify"], ["state", "rewind"]])
def test_a_new_role_can_be_chosen(toy, command):
    """By its name, which the help shows; another is refused with what there is."""
    del toy
    assert (
        "[perturb|curate|collect|coordinate|toy]"
        in CliRunner().invoke(cli, [*command, "--help"]).output
    )
    wrong = CliRunner().invoke(cli, [*command, "x.yaml", "--role", "both"])
    assert wrong.exit_code == 2
    assert (
        "'both' is not one of 'perturb', 'curate', 'collect', 'coordinate', 'toy'" in wrong.output
    )


def test_a_new_role_that_was_not_given_is_asked_for(toy):
    """Where a command needs one."""
    del toy
    said = CliRunner().invoke(cli, ["state", "rewind", "x.yaml"]).output
    assert "Missing option '--role'" in said and "toy" in said


def test_a_new_role_is_planned(toy):
    """Its topics are in the plan, for people and for programs."""
    made = plan(toy, 100)
    assert "meters.wishes" in "\n".join(made.lines())
    assert "meters-toy-grant-changelog" in json.dumps(made.as_json())


def test_a_new_role_is_measured(toy):
    """Under its own label, and with what its side may show."""
    metrics = Metrics(toy.name, "toy", "sw_direct")
    output = Output(None)
    output.count("releases", 2)
    metrics.count(output)
    metrics.lag(3)
    shown = {
        sample.name: (sample.value, sample.labels["role"])
        for family in metrics.registry.collect()
        for sample in family.samples
    }
    assert shown["ldp_releases_total"] == (2, "toy")
    assert {role for _, role in shown.values()} == {"toy"}
    assert EDGE_ONLY.isdisjoint(shown)
    clamped = Output(None)
    clamped.count("clamped")
    with pytest.raises(InvariantError, match="the toy role has no metric ldp_clamped_total"):
        metrics.count(clamped)


def test_a_new_role_is_set_up_and_inspected(toy, monkeypatch, tmp_path):
    """Its topics are made, its log begins with a header record and its group at offset 1; the tools
    find its table, of itself and among all.
    """
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with EmbeddedBroker() as broker:
        publish(toy.name, broker)
        done = setup.prepare(toy, broker)
        assert {
            "created topic meters.wishes",
            "created topic meters-toy-grant-changelog",
            "wrote the header record of meters.wishes partition 0",
            "committed offset 1 of meters.wishes for group meters-toy: partition 0",
        } <= set(done)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        assert admin.committed(config, "meters-toy", "meters.wishes", [0]) == {0: 1}
        assert setup.prepare(toy, broker, (COLLECTOR,)) == []
        (held,) = read_state(toy, ["toy"])
        assert (held.table, held.topic, held.violations) == ("grant", "meters.wishes", [])
        assert [held.table for held in read_state(toy)] == (
            ["perturb"] * 3 + ["collect"] * 3 + ["merge", "grant"]
        )


def test_a_new_role_gets_a_process(toy, monkeypatch):
    """Beside the others, and a port for its metrics."""
    started = []

    def starter(topology, role, bound, *_):
        started.append((topology.name, role, bound.getsockname()[1]))
        return lambda: subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)

    monkeypatch.setattr(children, "starter", starter)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert children.keep(toy, toy.roles, 0, "127.0.0.1", None, "text") == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert [found[:2] for found in started] == [
        ("meters", role) for role in ("perturb", "collect", "toy")
    ]
    assert len({port for *_, port in started}) == 3


def test_without_it_nothing_knows_it():
    """So that what is shown above is the new role's doing."""
    with pytest.raises(ConfigurationError, match="no toy role; its roles: perturb, collect"):
        topology().role("toy")
    assert "toy" not in CliRunner().invoke(cli, ["run", "--help"]).output
    with pytest.raises(ConfigurationError):
        Metrics("meters", "toy", "sw_direct")
