"""The systemd units: they are what systemd reads, and say what the code says: commands, exit codes,
the time that an end in order takes, and which role has the key.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ldp_kafka.cli import cli
from ldp_kafka.runtime.worker import exits, health_rules
from ldp_kafka.topology import load, loads, unset
from ldp_kafka.topology.roles import COLLECTOR, EDGE, ROLES
from tests import needs
from tests.cases import cases
from tests.deploy.code_blocks import ROOT, blocks

FOLDER = ROOT / "deploy" / "systemd"
UNITS = {re.fullmatch(r"ldp-kafka-(.+)@", path.stem)[1]: path for path in FOLDER.glob("*.service")}
KEY = "LDP_KAFKA_EDGE_KEY_FILE"
PROGRAM = "/opt/ldp-kafka/bin/ldp-kafka"
MOST_EXPOSED = 1.5  # of systemd's ten; the network alone counts 0.5
TWO = next(
    block.text
    for block in blocks(ROOT / "deploy" / "docs" / "pages" / "how-to" / "two-clusters.md")
    if block.file == "meters.yaml"
)


def settings(role):
    """The directives of a unit: of each name its values, in order."""
    found = {}
    for line in UNITS[role].read_text().replace("\\\n", " ").splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def needs_key():
    """The roles that work with the edge's key, in the topologies that there are."""
    return {
        role.name
        for path in (ROOT / "topologies").glob("*.yaml")
        for role in load(path).roles
        if role.needs_key
    }


def test_each_role_has_a_unit():
    """They are one text, but for the key of those who need it."""
    assert UNITS.keys() == ROLES.keys()
    assert needs_key() == {name for name, side in ROLES.items() if side == EDGE}
    texts = {role: path.read_text() for role, path in UNITS.items()}
    [with_key], [without] = (
        {text for role, text in texts.items() if (role in needs_key()) == wanted}
        for wanted in (True, False)
    )
    begin = with_key.index("# The edge's key")
    part = with_key[begin : with_key.index("\n\n", begin) + 2]
    assert "LoadCredential" in part and KEY in part
    assert with_key.replace(part, "") == without
    assert "edge" not in without.lower()


def test_the_key_is_given_where_the_worker_looks():
    """Under the name that the variable says, and every shipped topology reads."""
    found = settings("perturb")
    [credential] = found["LoadCredential"]
    name, _, source = credential.partition(":")
    assert f"{KEY}=%d/{name}" in found["Environment"]
    assert source == f"/etc/ldp-kafka/{name}"
    for path in (ROOT / "topologies").glob("*.yaml"):
        assert f"key_file: ${{{KEY}}}" in path.read_text()


def test_restarts_follow_the_exit_codes():
    """A worker that halts, or may not run, stays down; one that says so is started again."""
    for role in ROLES:
        found = settings(role)
        assert found["Restart"] == ["on-failure"]
        [stays] = found["RestartPreventExitStatus"]
        assert {int(code) for code in stays.split()} == {exits.HALT, exits.WRONG}
        assert found["RestartForceExitStatus"] == [str(exits.RETRY)]
        assert found["StartLimitIntervalSec"] == ["0"]  # however often
    told = (FOLDER / "README.md").read_text()
    rows = re.findall(r"^\| (\d+.*?) +\| .* \| (\w+)", told, re.MULTILINE)
    assert dict(rows) == {
        "0": "leaves",
        str(exits.HALT): "leaves",
        str(exits.WRONG): "leaves",
        f"{exits.RETRY}, or a signal": "starts",
    }


def test_a_worker_has_the_time_to_end_in_order():
    """A snapshot may come just before the bound, and then all of it counts anew."""
    longest = 2 * health_rules.LEAVE + health_rules.GOODBYE
    for role in ROLES:
        [seconds] = settings(role)["TimeoutStopSec"]
        assert longest < float(seconds) < 2 * longest


def started(role, instance="meters"):
    """The words of a unit's command, and the variables that it takes from its environment."""
    found = settings(role)
    [line] = found["ExecStart"]
    prefix = UNITS[role].stem.removesuffix("@")
    # systemd.unit(5): %i is the instance, %j what stands behind the prefix's last dash
    line = line.replace("%i", instance).replace("%j", prefix.rpartition("-")[2])
    assert "%" not in line
    [file] = found["EnvironmentFile"]
    given = dict(each.split("=", 1) for each in found["Environment"])
    assert file == f"/etc/ldp-kafka/%i-{'%j'}.env"
    return line.split(), given


@cases("role", ROLES)
def test_the_command_is_one_of_ours(role):
    """Of the unit's own role, with a log of JSON."""
    (program, command, *words), given = started(role)
    assert program == PROGRAM
    values = {"${METRICS_PORT}": "9464", "${METRICS_HOST}": given["METRICS_HOST"]}
    words = [values.get(word, word) for word in words]
    found = cli.commands[command].make_context(command, words).params
    assert found["role"] == role
    assert str(found["topology"]) == "/etc/ldp-kafka/meters.yaml"
    assert (found["log_format"], found["metrics_host"]) == ("json", "127.0.0.1")
    assert found["metrics_port"] == 9464
    assert found["until_idle"] is None


def variables(path):
    """Of a file as systemd reads it."""
    lines = [each for each in path.read_text().splitlines() if each and each[0] != "#"]
    return dict(each.split("=", 1) for each in lines)


@cases("role", ["perturb", "collect"])
def test_the_examples_have_what_a_role_needs(role, monkeypatch):
    """All that the unit's command and the topology of the docs leave to them, and no more: nothing
    of the edge at the collector.
    """
    given = variables(FOLDER / f"meters-{role}.env")
    words, own = started(role)
    assert {word[2:-1] for word in words if word[0] == "$"} == {"METRICS_HOST", "METRICS_PORT"}
    assert "METRICS_HOST" in own
    assert given.pop("METRICS_PORT").isdecimal()
    wanted = {name for name in re.findall(r"\$\{(\w+)\}", TWO) if name != KEY}
    for name in wanted | {KEY}:
        monkeypatch.delenv(name, raising=False)
    for name, value in {**given, **own}.items():
        monkeypatch.setenv(name, value)
    topology = loads(TWO)
    needs = (*topology.role(role).sides, *(("key",) if role in needs_key() else ()))
    assert unset(topology, needs) == ()
    assert given.keys() <= wanted
    if ROLES[role] == COLLECTOR:
        assert not [name for name in given if name.startswith("EDGE")]
        assert unset(topology, (EDGE,)) and unset(topology, ("key",))


@pytest.fixture
def analyze():
    return needs.program("systemd-analyze", how="apt-get install systemd", required=False)


def copied(role, folder: Path, change=lambda text: text):
    """The unit with a program that this machine has."""
    path = folder / UNITS[role].name
    path.write_text(change(UNITS[role].read_text().replace(PROGRAM, sys.executable)))
    return path


def ask(*words):
    """Its code, and all that it says."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("role", ROLES)
def test_systemd_reads_it(role, analyze, tmp_path):
    """And finds nothing to say; a word that it does not know would be said."""
    assert ask(analyze, "verify", str(copied(role, tmp_path))) == (0, "")
    wrong = copied(role, tmp_path, lambda text: text.replace("PrivateTmp", "PrivateTemp"))
    assert "Unknown key" in ask(analyze, "verify", str(wrong))[1]


@pytest.mark.parametrize("role", ROLES)
def test_a_worker_may_do_little(role, analyze, tmp_path):
    """By systemd's own measure."""
    words = [analyze, "security", "--offline=yes", f"--threshold={MOST_EXPOSED * 10:.0f}"]
    code, said = ask(*words, str(copied(role, tmp_path)))
    if "unrecognized option" in said:
        pytest.skip("this systemd-analyze cannot judge a file: 250 can")
    assert code == 0, said
    open_one = copied(role, tmp_path, lambda text: text.replace("DynamicUser=yes", ""))
    assert ask(*words, str(open_one))[0] != 0
