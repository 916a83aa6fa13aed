"""Variables of the environment in topology files."""

import base64
import json

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError, ConfigurationError, TopologyError
from ldp_kafka.runtime.device.provisioning import Files, files_of, provision
from ldp_kafka.runtime.kafka.setup import client_config, prepare
from ldp_kafka.runtime.keys import read_key
from ldp_kafka.topology import loads, unset
from tests.cases import cases
from tests.keys import KEY

TEXT = """\
topology: ${NAME:-meters}
kafka:
  bootstrap_servers: ${BROKER:-embedded}
  client: {sasl.password: "${PASSWORD:-none}"}
input:
  slot: ${SLOT:-1h}
  partitions: ${PARTITIONS:-3}
  create: ${CREATE:-true}
privacy:
  method: sw_direct
  epsilon: ${EPSILON:-1.5}
  window: 10
  domain: [0, 1]
output:
  statistics: [mean]
edge:
  key_file: ${KEY}
"""
NAMES = [
    *("NAME", "BROKER", "PASSWORD", "SLOT", "PARTITIONS", "CREATE", "EPSILON", "KEY"),
    *("DIRECTORY", "UNSET"),
]


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_typed_as_yaml():
    topology = loads(TEXT)
    assert (topology.name, topology.privacy.epsilon) == ("meters", 1.5)
    assert (topology.input.partitions, topology.input.create) == (3, True)
    assert [problem.key for problem in unset(topology)] == ["edge.key_file"]


def test_the_environment_comes_first(monkeypatch):
    values = {
        "NAME": "other",
        "BROKER": "a:1,b:2",
        "SLOT": "30s",
        "PARTITIONS": "5",
        "EPSILON": "2",
    }
    values |= {"CREATE": "false", "KEY": "edge.key", "PASSWORD": "0123"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    topology = loads(TEXT, "here/t.yaml")
    assert (topology.name, topology.input.slot_ms) == ("other", 30_000)
    assert (topology.input.partitions, topology.input.create) == (5, False)
    assert topology.edge_kafka.bootstrap_servers == "a:1,b:2"
    assert topology.edge_kafka.client["sasl.password"] == "0123"
    assert topology.privacy.epsilon == 2.0
    assert str(topology.edge.key_file) == "here/edge.key"


def test_an_empty_variable_gives_way_to_the_default(monkeypatch):
    monkeypatch.setenv("PARTITIONS", "")
    monkeypatch.setenv("KEY", "")
    assert loads(TEXT).input.partitions == 3
    assert [error.key for error in unset(loads(TEXT))] == ["edge.key_file"], "it has no default"


def test_a_password_of_digits_stays_text_even_unquoted():
    quoted, plain = '{sasl.password: "${PASSWORD:-none}"}', "\n    sasl.password: ${PASSWORD:-007}"
    topology = loads(TEXT.replace(quoted, plain))
    assert topology.edge_kafka.client["sasl.password"] == "007"


def test_a_quoted_scalar_stays_text():
    said = r't.yaml:7: input.partitions: must be a whole number; got "3"'
    with pytest.raises(TopologyError, match=said):
        loads(TEXT.replace("${PARTITIONS:-3}", '"${PARTITIONS:-3}"'), "t.yaml")


def test_an_unset_variable_is_named_with_its_line():
    text = TEXT.replace("${SLOT:-1h}", "${UNSET}").replace("${NAME:-meters}", "a-${UNSET}-b")
    with pytest.raises(TopologyError) as caught:
        loads(text, "t.yaml")
    why = "the environment variable UNSET must be set, or have a default: ${UNSET:-default}"
    said = [f"t.yaml:1: topology: {why}", f"t.yaml:6: input.slot: {why}"]
    assert str(caught.value).splitlines() == said


NOT_SET = "the environment variable {} is not set here, and has no default: "
KEY_IS_NEEDED = "whoever perturbs needs it, or the key itself in LDP_KAFKA_EDGE_KEY"


def test_the_edges_key_may_wait():
    topology = loads(TEXT.replace("${KEY}", "${DIRECTORY}/edge.key"), "t.yaml")
    [said] = map(str, unset(topology))
    assert said == f"t.yaml:17: edge.key_file: {NOT_SET.format('DIRECTORY')}{KEY_IS_NEEDED}"


def test_pieces_and_dollars(monkeypatch):
    monkeypatch.setenv("NAME", "x")
    assert loads(TEXT.replace("${NAME:-meters}", "${NAME}-${UNSET:-y}.${NAME}")).name == "x-y.x"
    text = TEXT.replace("  partitions", "  user: $$.user['$$${NAME}']\n  partitions")
    assert loads(text).input.user == ("user", "$x")


@cases("wrong", ["${", "${1A}", "${A-b}", "${A B}", "${A"])
def test_half_a_variable_is_refused(wrong):
    with pytest.raises(TopologyError, match=r"t.yaml:1: topology: must hold \$\{NAME\} or"):
        loads(TEXT.replace("${NAME:-meters}", f"'{wrong}'"), "t.yaml")


EDGE_CLIENT = """
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.username: edge
      sasl.password: "${EDGE_PASSWORD}"
"""
SIDES = f"""\
topology: meters
kafka:
  bootstrap_servers: 127.0.0.1:1
  edge:
    bootstrap_servers: ${{EDGE_BROKER}}
    client:{EDGE_CLIENT}\
  collector:
    client:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.username: collector
      sasl.password: "a-${{COLLECTOR_PASSWORD}}-${{SUFFIX}}"
input: {{slot: 1h}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 1]}}
output: {{statistics: [mean]}}
edge: {{key_file: "${{KEY}}"}}
"""
SECRETS = {
    "EDGE_BROKER": "edge:9092",
    "EDGE_PASSWORD": "1",
    "COLLECTOR_PASSWORD": "2",
    "SUFFIX": "3",
    "KEY": "edge.key",
}


@pytest.fixture
def secrets(monkeypatch):
    """Sets some of them."""
    for name in SECRETS:
        monkeypatch.delenv(name, raising=False)
    return lambda *names: [monkeypatch.setenv(name, SECRETS[name]) for name in names]


def test_nobody_needs_the_others_secrets(secrets):
    """They are asked for where a side's clients are made, and only then: each with its place, and
    who needs it.
    """
    secrets("COLLECTOR_PASSWORD", "SUFFIX")
    topology = loads(SIDES, "t.yaml")
    assert client_config(topology, "collector")["sasl.password"] == "a-2-3"
    role = "the perturb role needs it"
    assert [str(problem) for problem in unset(topology)] == [
        f"t.yaml:5: kafka.edge.bootstrap_servers: {NOT_SET.format('EDGE_BROKER')}{role}",
        f"t.yaml:10: kafka.edge.client.sasl.password: {NOT_SET.format('EDGE_PASSWORD')}{role}",
        f"t.yaml:20: edge.key_file: {NOT_SET.format('KEY')}{KEY_IS_NEEDED}",
    ]
    for needed in (lambda: client_config(topology, "edge"), lambda: prepare(topology)):
        with pytest.raises(TopologyError, match="EDGE_BROKER") as caught:
            needed()
        assert len(caught.value.problems) == 2
    # gets as far as the collector's own broker, which is not there
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1 gave no"):
        prepare(topology, sides=("collector",))


def test_perturb_needs_both(secrets):
    """It writes the reports."""
    secrets("EDGE_BROKER", "EDGE_PASSWORD")
    topology = loads(SIDES, "t.yaml")
    assert client_config(topology, "edge")["bootstrap.servers"] == "edge:9092"
    with pytest.raises(
        TopologyError,
        match=(
            r"t.yaml:16: kafka.collector.client.sasl.password: the environment variables"
            r" COLLECTOR_PASSWORD, SUFFIX are not set"
        ),
    ):
        prepare(topology)
    secrets(*SECRETS)
    assert unset(loads(SIDES)) == ()


@pytest.mark.parametrize(
    "text",
    [
        SIDES.replace("127.0.0.1:1", "${EDGE_BROKER}"),
        SIDES.replace("1h", '"${EDGE_BROKER}"'),
        SIDES.replace(EDGE_CLIENT, " ${EDGE_BROKER}\n"),
    ],
)
def test_what_everybody_needs_is_still_required(secrets, text):
    """Also a mapping of which nothing is known."""
    with pytest.raises(TopologyError, match="EDGE_BROKER must be set"):
        loads(text)


def test_validate_and_plan_say_what_is_missing(secrets, tmp_path, capsys):
    """On a machine that is not the edge's they still say what the topology promises."""
    path = tmp_path / "t.yaml"
    path.write_text(SIDES)
    for command in ("validate", "plan"):
        assert main([command, str(path)]) == 0
        said = capsys.readouterr()
        assert "w-event, epsilon 1" in said.out
        assert all(name in said.err for name in SECRETS)
    assert main(["validate", str(path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [each["line"] for each in found["unset"]] == [5, 10, 16, 20]
    assert main(["plan", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unset"] == found["unset"]
    assert main(["topics", str(path)]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in SECRETS if name != "KEY")


EDGE = """\
  key_file: "${KEY}"
  budget_file: "${DIRECTORY}/${UNSET}"
  deployment: "${NAME}"
"""


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_every_variable_below_edge_that_is_not_set_is_named(command, tmp_path, capsys):
    """With its line and its key, for people and for programs; what is not set is no mistake, and
    no key that would be missed later without a word.
    """
    path = tmp_path / "t.yaml"
    path.write_text(TEXT.replace("  key_file: ${KEY}\n", EDGE).replace("${NAME:-meters}", "m"))
    assert main([command, str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = (found[0] if command == "validate" else found)["unset"]
    assert {each["key"]: (each["file"], each["line"]) for each in named} == {
        "edge.key_file": (str(path), 17),
        "edge.budget_file": (str(path), 18),
        "edge.deployment": (str(path), 19),
    }
    assert main([command, str(path)]) == 0
    said = capsys.readouterr().err
    assert all(name in said for name in ("KEY is", "DIRECTORY, UNSET are", "NAME is"))
    assert said.count("note: ") == 3


def test_nothing_is_left_out_that_no_role_could_do_without():
    """A block that is one variable says nothing of a key, or of none."""
    with pytest.raises(TopologyError, match=r"t.yaml:16: edge: the environment variable KEY must"):
        loads(TEXT.replace("edge:\n  key_file: ${KEY}", "edge: ${KEY}"), "t.yaml")


def test_a_key_that_is_not_named_here(monkeypatch):
    """Is taken from the environment, or the error says which variable is missing, and where."""
    topology = loads(TEXT, "t.yaml")
    monkeypatch.delenv("LDP_KAFKA_EDGE_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"needs a key: t.yaml:17: edge.key_file: .* KEY"):
        read_key(topology.edge.key_file)
    monkeypatch.setenv("KEY", "")
    with pytest.raises(ConfigurationError, match=r"key_file: .* KEY is not set here \(empty\)"):
        read_key(loads(TEXT, "t.yaml").edge.key_file)
    with pytest.raises(ConfigurationError, match=r"edge.key_file: .* KEY is not set here,"):
        files_of(topology, "x.db", None)
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY", base64.b64encode(KEY).decode())
    assert read_key(topology.edge.key_file).first == KEY
    assert files_of(topology, "x.db", None).key is None
    written = loads(TEXT.replace("${KEY}", "${KEY:-}"), "t.yaml")
    assert written.edge.key_file is None, "nothing, as it is written"


def test_a_device_without_a_key_leaves_nothing_behind(tmp_path, monkeypatch):
    """It can be provisioned when the key is there."""
    monkeypatch.delenv("LDP_KAFKA_EDGE_KEY", raising=False)
    topology = loads(TEXT, "t.yaml")
    with pytest.raises(ConfigurationError, match="needs a key"):
        provision(topology, Files(tmp_path / "x.db", None), "here")
    assert not [*tmp_path.iterdir()]


def test_a_variable_as_shells_write_it_is_refused_and_a_password_is_not_said(monkeypatch):
    """It would be taken as text. Two dollars are one; more beside it are no variable."""
    monkeypatch.setenv("PASSWORD", "0123")
    text = TEXT.replace("${PASSWORD:-none}", "$HIDDEN")
    with pytest.raises(TopologyError) as caught:
        loads(text)
    said = "kafka.client.sasl.password: must be written ${NAME} where it is a variable, $$NAME"
    assert said in str(caught.value) and "HIDDEN" not in str(caught.value)
    for written, meant in (("$$HIDDEN", "$HIDDEN"), ("$HIDDEN.",) * 2, ("$hidden",) * 2):
        topology = loads(TEXT.replace("${PASSWORD:-none}", written))
        assert topology.edge_kafka.client["sasl.password"] == meant
