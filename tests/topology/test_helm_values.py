"""What the Helm chart is told of a topology: facts of its roles, and no secret."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.topology import access, load, loads
from ldp_kafka.topology.document import read
from ldp_kafka.topology.dump import write
from ldp_kafka.topology.helm import helm_values
from tests.cases import cases, table

SHIPPED = sorted((Path(__file__).parents[2] / "topologies").glob("*.yaml"))
PASSWORD = "correct horse"
TWO = """\
topology: meters
kafka:
  client: {sasl.mechanism: "${MECHANISM:-SCRAM-SHA-512}"}
  edge:
    bootstrap_servers: ${EDGE_BROKERS}
    client: {sasl.username: "${EDGE_USER}", sasl.password: "${EDGE_PASSWORD}"}
  collector:
    bootstrap_servers: kafka.statistics.example:9093
    client: {sasl.username: "${COLLECTOR_USER:-statistics}", sasl.password: "${COLLECTOR_PASSWORD}"}
input: {slot: 1h, topic: "${RAW:-raw}", relay: true}
privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
output: {statistics: [mean]}
edge:
  key_file: ${LDP_KAFKA_EDGE_KEY_FILE}
  budget_file: budget.yaml
  deployment: ${PLACE}
"""


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    """No variable of this machine has a say."""
    for name in ("LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_FOREIGN_TOPIC", "LDP_KAFKA_EDGE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


def values(tmp_path, text=TWO, name="meters.yaml"):
    (tmp_path / name).write_text(text)
    return helm_values(tmp_path / name)["topology"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_topologies(path):
    """Roles, sides, keys and groups are those of the topology; what an autoscaler looks at is what
    the role has the right to read.
    """
    found, topology = helm_values(path)["topology"], load(path)
    assert loads(found["text"], found["file"]).fingerprint == found["fingerprint"]
    assert [*found["roles"]] == [role.name for role in topology.roles]
    for role in topology.roles:
        mine = found["roles"][role.name]
        assert (mine["side"], mine["sides"]) == (role.side, [*role.sides])
        assert mine["key"] is role.needs_key
        rights = {
            (right.resource, right.name)
            for each in access(topology)
            if (each.role, each.cluster) == (role.name, role.side)
            for right in each.rights
            if "READ" in right.operations
        }
        reads = {topic.name: topic.partitions for topic in topology.flow.topics}
        assert mine["lag"]
        for each in mine["lag"]:
            assert {("group", each["group"]), ("topic", each["topic"])} <= rights
            assert reads[each["topic"]] == mine["partitions"]
    assert found["key"] == {"variable": "LDP_KAFKA_EDGE_KEY_FILE"}
    assert found["bootstrap"]["collector"] == {"variable": "LDP_KAFKA_BOOTSTRAP"}
    assert found["variables"] == [
        {"name": "LDP_KAFKA_BOOTSTRAP", "block": "kafka", "secret": False, "required": True}
    ]


def test_more_workers_help_with_what_has_partitions(tmp_path):
    """Not with partials, which lie in one; where the raw topic is copied, with what is copied."""
    found = values(tmp_path)["roles"]
    assert found["collect"]["lag"] == [{"group": "meters-collect", "topic": "meters.reports"}]
    assert found["perturb"]["lag"] == [
        {"group": "meters-perturb", "topic": "meters.edge"},
        {"group": "meters-relay", "topic": "raw"},
    ]


def test_variables_go_where_they_are_needed(tmp_path):
    """By the block that they stand in; what both have is in the block of both."""
    found = values(tmp_path)
    assert {each["name"]: [*each.values()][1:] for each in found["variables"]} == {
        "MECHANISM": ["kafka", False, False],
        "EDGE_BROKERS": ["edge", False, True],
        "EDGE_USER": ["edge", False, True],
        "EDGE_PASSWORD": ["edge", True, True],
        "COLLECTOR_USER": ["collector", False, False],
        "COLLECTOR_PASSWORD": ["collector", True, True],
        "PLACE": ["edge", False, True],
    }
    assert found["bootstrap"] == {
        "edge": {"variable": "EDGE_BROKERS"},
        "collector": {"address": "kafka.statistics.example:9093"},
    }
    assert (found["budget"], found["oneBlock"]) == ({"file": "budget.yaml"}, False)
    both = TWO.replace("sasl.username:", 'ssl.ca.location: "${CA}", sasl.username:')
    both = both.replace("kafka.statistics.example:9093", "${FAR:-far:9093}")
    found = values(tmp_path, both)
    [file] = [each for each in found["variables"] if each["name"] == "CA"]
    assert file["block"] == "kafka"
    assert found["bootstrap"]["collector"] == {"variable": "FAR", "address": "far:9093"}


def test_devices_have_no_edge_here(tmp_path):
    """Neither their brokers nor a key."""
    text = TWO.replace(', topic: "${RAW:-raw}", relay: true', ", source: devices")
    found = values(tmp_path, text.replace("  budget_file: budget.yaml\n", ""))
    assert [*found["roles"]] == ["collect"]
    assert [*found["bootstrap"]] == ["collector"]
    assert found["key"] == found["budget"] == {}


def test_what_shapes_the_topology_is_settled(tmp_path, monkeypatch):
    """A name of the environment is in the facts, so pods are told the same one; without it the
    file's default holds for both.
    """
    assert values(tmp_path)["environment"] == {}
    monkeypatch.setenv("RAW", "billing.readings")
    found = values(tmp_path)
    assert found["environment"] == {"RAW": "billing.readings"}
    assert found["roles"]["perturb"]["lag"][-1]["topic"] == "billing.readings"


def test_no_secret_is_written_down(tmp_path, monkeypatch, capsys):
    """Though it is in the environment, and whatever else it is used for."""
    monkeypatch.setenv("EDGE_PASSWORD", PASSWORD)
    monkeypatch.setenv("COLLECTOR_PASSWORD", PASSWORD)
    (tmp_path / "meters.yaml").write_text(TWO)
    assert main(["helm-values", str(tmp_path / "meters.yaml")]) == 0
    said = capsys.readouterr()
    assert PASSWORD not in said.out + said.err
    monkeypatch.setenv("COLLECTOR_PASSWORD", "raw")
    found = values(tmp_path, TWO.replace("${RAW:-raw}", "${COLLECTOR_PASSWORD}"))
    [secret] = [each for each in found["variables"] if each["name"] == "COLLECTOR_PASSWORD"]
    assert secret["secret"]
    assert found["environment"] == {}


NO_CHART = table(r"""
${EDGE_PASSWORD} | SECRET | kafka.edge.client.sasl.password | without a default
${EDGE_PASSWORD} | ${A:-SECRET} | kafka.edge.client.sasl.password | without a default
${EDGE_PASSWORD} | SECRET${A} | kafka.edge.client.sasl.password | variable
${COLLECTOR_PASSWORD} | SECRET | kafka.collector.client.sasl.password | variable
sasl.mechanism: | ssl.key.password: SECRET, sasl.mechanism: | kafka.client.ssl.key.password |
    variable
${EDGE_BROKERS} | embedded | kafka.edge.bootstrap_servers | address of brokers
${LDP_KAFKA_EDGE_KEY_FILE} | edge.key | edge.key_file | a variable alone
${LDP_KAFKA_EDGE_KEY_FILE} | ${HERE}/edge.key | edge.key_file | a variable alone
budget.yaml | ../budget.yaml | edge.budget_file | beside the topology
""")


@cases(("old", "new", "key", "says"), NO_CHART)
def test_what_no_chart_can_run(tmp_path, old, new, key, says):
    """Each with its line, and without the secret."""
    assert old in TWO
    text = TWO.replace(old, new.replace("SECRET", PASSWORD), 1)
    with pytest.raises(TopologyError) as found:
        values(tmp_path, text.replace(", relay: true", "") if new == "embedded" else text)
    assert found.value.key == key
    assert says in found.value.reason
    assert f"meters.yaml:{found.value.line}: {key}: " in str(found.value)
    assert PASSWORD not in str(found.value)


def test_a_file_must_have_a_name_for_a_config_map(tmp_path):
    with pytest.raises(ConfigurationError, match="letters, digits"):
        values(tmp_path, name="my meters.yaml")
    with pytest.raises(ConfigurationError, match="cannot read"):
        helm_values(tmp_path / "none.yaml")


def test_as_yaml_and_as_json(tmp_path, capsys):
    """The same; Helm reads either."""
    (tmp_path / "meters.yaml").write_text(TWO)
    assert main(["helm-values", str(tmp_path / "meters.yaml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == helm_values(tmp_path / "meters.yaml")
    assert main(["helm-values", str(tmp_path / "meters.yaml")]) == 0
    said = capsys.readouterr().out
    assert "\n  text: |\n" in said  # people read it, and compare it
    assert plain(said) == found


def test_the_codes(tmp_path, capsys):
    (tmp_path / "meters.yaml").write_text(TWO.replace("${EDGE_PASSWORD}", PASSWORD))
    assert main(["helm-values", str(tmp_path / "meters.yaml")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "kafka.edge.client.sasl.password" in said.err


def plain(text):
    """YAML as data; what looks like a variable is text."""
    return read(text.replace("$", "$$"), "values.yaml", {}).data


ANY = [
    *("", "\n", "a: 1", "a: 1\n\n\n", "  indented: 1\nless: 2\n", "\n\nlate: 1\n", "true", "0123"),
    *("trailing \n  \n", "windows: 1\r\nlines: 2\r\n", "tab:\t1\nb: 2\n", "---\na: 1\n...\n"),
    *("# é 电 \U0001f600\na: 1\n", "a: \x85b\nc: \ufeffd\n", "no: |\n  block\n"),
]


@cases("text", ANY)
def test_yaml_holds_any_text(text):
    for value in (text, [text, {text: text}], {"a": {"b": [text]}}):
        assert plain(write({"k": value})) == {"k": value}


def test_a_shipped_file_stands_as_it_is(tmp_path, capsys):
    """Line by line, so that a change is seen in the values too."""
    shutil.copy(SHIPPED[0], tmp_path)
    assert main(["helm-values", str(tmp_path / SHIPPED[0].name)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in SHIPPED[0].read_text().splitlines():
        assert (f"    {line}" if line else "") in lines
