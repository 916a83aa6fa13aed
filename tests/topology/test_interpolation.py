"""Variables of the environment in topology files."""

import pytest

from ldp_kafka.errors import TopologyError
from ldp_kafka.topology import loads

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
NAMES = ("NAME", "BROKER", "PASSWORD", "SLOT", "PARTITIONS", "CREATE", "EPSILON", "KEY", "DIRECTORY", "UNSET")


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_typed_as_yaml():
    topology = loads(TEXT)
    assert (topology.name, topology.input.partitions, topology.input.create, topology.privacy.epsilon) == ("meters", 3, True, 1.5)
    assert topology.edge.key_file is None


def test_the_environment_comes_first(monkeypatch):
    values = {"NAME": "other", "BROKER": "a:1,b:2", "SLOT": "30s", "PARTITIONS": "5", "CREATE": "false", "EPSILON": "2", "KEY": "edge.key", "PASSWORD": "0123"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    topology = loads(TEXT, "here/t.yaml")
    assert (topology.name, topology.input.slot_ms, topology.input.partitions, topology.input.create) == ("other", 30_000, 5, False)
    assert topology.edge_kafka.bootstrap_servers == "a:1,b:2"
    assert topology.edge_kafka.client["sasl.password"] == "0123"
    assert topology.privacy.epsilon == 2.0
    assert str(topology.edge.key_file) == "here/edge.key"


def test_an_empty_variable_gives_way_to_the_default(monkeypatch):
    monkeypatch.setenv("PARTITIONS", "")
    monkeypatch.setenv("KEY", "")
    assert loads(TEXT).input.partitions == 3
    assert loads(TEXT).edge.key_file is None


def test_a_password_of_digits_stays_text_even_unquoted():
    assert loads(TEXT.replace('{sasl.password: "${PASSWORD:-none}"}', "\n    sasl.password: ${PASSWORD:-007}")).edge_kafka.client["sasl.password"] == "007"


def test_a_quoted_scalar_stays_text():
    with pytest.raises(TopologyError, match=r't.yaml:7: input.partitions: must be a whole number; got "3"'):
        loads(TEXT.replace("${PARTITIONS:-3}", '"${PARTITIONS:-3}"'), "t.yaml")


def test_an_unset_variable_is_named_with_its_line():
    with pytest.raises(TopologyError) as caught:
        loads(TEXT.replace("${SLOT:-1h}", "${UNSET}").replace("${NAME:-meters}", "a-${UNSET}-b"), "t.yaml")
    assert str(caught.value).splitlines() == [
        "t.yaml:1: topology: the environment variable UNSET must be set, or have a default: ${UNSET:-default}",
        "t.yaml:6: input.slot: the environment variable UNSET must be set, or have a default: ${UNSET:-default}",
    ]


def test_the_edges_key_may_wait():
    assert loads(TEXT.replace("${KEY}", "${DIRECTORY}/edge.key")).edge.key_file is None


def test_pieces_and_dollars(monkeypatch):
    monkeypatch.setenv("NAME", "x")
    assert loads(TEXT.replace("${NAME:-meters}", "${NAME}-${UNSET:-y}.${NAME}")).name == "x-y.x"
    text = TEXT.replace("  partitions", "  user: $$.user['$$${NAME}']\n  partitions")
    assert loads(text).input.user == ("user", "$x")


@pytest.mark.parametrize("wrong", ["${", "${1A}", "${A-b}", "${A B}", "${A"])
def test_half_a_variable_is_refused(wrong):
    with pytest.raises(TopologyError, match=r"t.yaml:1: topology: must hold \$\{NAME\} or"):
        loads(TEXT.replace("${NAME:-meters}", f"'{wrong}'"), "t.yaml")
