"""The command line: every command explains itself, exit codes mean what they say, and no user's
value or traceback is shown for what was expected.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from ldp_kafka import __main__ as entry
from ldp_kafka.cli import cli, main, options
from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.worker import exits
from ldp_kafka.topology import load
from ldp_kafka.version import __version__
from tests.cases import cases

PAGES = Path(__file__).parents[1] / "deploy" / "docs" / "pages"
GOOD = """
topology: meters
input: {slot: 1h, user: $.u, value: $.v, time: $.t}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}
output: {statistics: [mean]}
"""
BAD = """
topology: meters
input:
  slot: 1h
  lateness: -1
privacy:
  {method: sw_direct, epsilon: 2.0, window: 4,
  epsilonn: 2.0, domain: [0, 10]}
output: {statistics: [mean]}
"""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No broker of the user's is touched."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("LDP_KAFKA_BOOTSTRAP", raising=False)


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return path


def commands(group: click.Group = cli, path: tuple[str, ...] = ()):
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def shell(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "ldp_kafka", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


@cases("path", list(commands()))
def test_every_command_has_help_with_an_example(path):
    """The example is a command line of this command."""
    done = CliRunner().invoke(cli, [*path, "--help"])
    assert done.exit_code == 0
    _, _, example = done.output.partition("Example:\n")
    assert " ".join(("ldp-kafka", *path)) in example


def test_help_and_version_are_light():
    """Asking what there is loads neither Kafka, Faust nor YAML."""
    code = (
        "import sys\nfrom ldp_kafka.cli import main\nmain(['--help']); main(['run',"
        " '--help'])\nprint(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "Commands:" in done.stdout
    heavy = "faust confluent_kafka ruamel.yaml pyarrow matplotlib rich.console"
    assert not [name for name in heavy.split() if f"'{name}'" in done.stderr]
    assert shell("--version").stdout.strip() == f"ldp-kafka, version {__version__}"


def test_exit_codes_are_documented():
    """All that the code has, where one looks for them."""
    codes = {0, options.FAILED, options.WRONG, options.STOPPED, exits.RETRY, exits.HALT}
    page = (PAGES / "how-to" / "operate.md").read_text()
    for text in (
        CliRunner().invoke(cli, ["--help"]).output,
        CliRunner().invoke(cli, ["run", "--help"]).output,
        page[page.index("## Exit codes\n") :][:700],
    ):
        assert codes == {
            int(code) for code in re.findall(r"(?:^ +|: |; )(\d+) +[a-zC]", text, re.MULTILINE)
        }


def test_messages_name_commands_that_exist():
    """Whatever an error, a docstring, the README or a page sends people to."""
    root = Path(entry.__file__).parent
    pages = (root.parent / "README.md", *PAGES.rglob("*.md"))
    texts = [path.read_text() for path in (*root.rglob("*.py"), *pages)]
    words = re.compile(r"`ldp-kafka ((?:[a-z-]+ ?)+)")
    named = {name.strip() for text in texts for name in words.findall(text)}
    known = {" ".join(path) for path in commands() if path}
    assert {"state rewind", "state inspect", "state verify"} <= named
    wrong = {each for each in named if not any(f"{each} ".startswith(f"{one} ") for one in known)}
    assert not wrong


def test_completion_is_what_the_page_says(tmp_path):
    """In bash it completes; for zsh and fish the script is printed that they are told to read."""
    page = (PAGES / "how-to" / "own-topic.md").read_text()
    [line] = re.findall(r"`(eval \"[^`]*)`", page)
    assert "zsh_source" in page
    assert "fish_source" in page
    program = tmp_path / "ldp-kafka"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ldp_kafka "$@"\n')
    program.chmod(0o700)
    asked = "COMP_WORDS=(ldp-kafka state ver); COMP_CWORD=2; _ldp_kafka_completion ldp-kafka"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", f"{line}\n{asked}\necho ${{COMPREPLY[@]}}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("verify\n", "")
    for name, begins in (("zsh", "#compdef ldp-kafka"), ("fish", "function _ldp_kafka_completion")):
        done = shell(_LDP_KAFKA_COMPLETE=f"{name}_source")
        assert done.stdout.lstrip().startswith(begins)


def test_replay_waits_for_what_is_not_there_yet(good, capsys, monkeypatch):
    """For as long as it is told; without that it says at once what to start."""
    waited, module = [], sys.modules["ldp_kafka.cli.replay"]  # its name there is the command's
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=waited.append)
    monkeypatch.setattr(module, "time", clock)
    ask = ["replay", "-t", str(good), "--generate", "lns", "--users", "2", "--slots", "3"]
    assert main(ask) == 1
    assert not waited
    assert "no embedded broker runs for topology meters" in capsys.readouterr().err
    with EmbeddedBroker() as broker:
        raw = load(good).input
        there = [
            lambda: publish("meters", broker),
            # as `run` makes it, a moment before that of the reports, whose readers are looked at
            lambda: broker.create_topic(raw.topic, raw.partitions),
            lambda: prepare(load(good), broker),
            lambda: pytest.fail("it is there"),
        ]
        clock.sleep = lambda _: there.pop(0)()
        assert main([*ask, "--wait", "60s", "--json"]) == 0
        assert len(there) == 1
    assert json.loads(capsys.readouterr().out)["events"] == 6
    assert main([*ask, "--wait", "1 min"]) == 2
    assert "write 1m" in capsys.readouterr().err


def test_only_what_is_built_is_listed():
    """No stubs."""
    assert list(cli.commands) == [
        *("demo", "run", "validate", "plan", "topics", "helm-values", "replay", "status"),
        *("releases", "key", "device", "broker", "state", "prove-once", "audit", "check", "schema"),
        *("mechanisms", "evaluate", "compare"),
    ]


def test_wrong_usage_is_2(capsys):
    """Without a traceback."""
    done = shell("no-such-command")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Usage:" in done.stderr
    for words in ("run", "plan x.yaml --users 0", "run x.yaml --role both", "replay x.csv"):
        assert main(words.split()) == 2
        assert "Usage:" in capsys.readouterr().err


def test_without_the_extra_it_says_how_to_install_it(monkeypatch, capsys):
    """And exits 2."""
    monkeypatch.setattr(entry, "find_spec", lambda name: None if name == "click" else object())
    assert entry.main() == 2
    assert "pip install '.[kafka]' in a checkout" in capsys.readouterr().err


def test_an_extra_that_is_imported_already_is_found(monkeypatch):
    """Faust stands in for itself with a module that has no spec."""
    import faust

    assert faust is not None
    with pytest.raises(ValueError, match="__spec__"):
        find_spec("faust")
    monkeypatch.setattr(sys, "argv", ["ldp-kafka", "--version"])
    assert entry.main() == 0


def test_validate(good, bad, capsys):
    """Every problem with file, line and key; 0 and 2."""
    assert main(["validate", str(good)]) == 0
    assert "valid; w-event, epsilon 2" in capsys.readouterr().out
    assert main(["validate", str(good), str(bad)]) == 2
    said = capsys.readouterr()
    assert f"{bad}:5: input.lateness: must be at least 0" in said.err
    assert f"{bad}:8: privacy.epsilonn: unknown key (did you mean epsilon?)" in said.err
    assert "valid" in said.out
    assert main(["validate", str(bad), "--json"]) == 2
    (found,) = json.loads(capsys.readouterr().out)
    assert found["valid"] is False
    problems = {(problem["line"], problem["key"]) for problem in found["problems"]}
    assert problems == {(5, "input.lateness"), (8, "privacy.epsilonn")}
    assert main(["validate", str(good.with_name("missing.yaml"))]) == 2
    assert "cannot read the topology" in capsys.readouterr().err


def test_validate_tries_messages(good, bad, tmp_path, capsys, monkeypatch):
    """0 where all give events, or so many as are asked for; 1 where more would be dead letters; 2
    where none gives an event.
    """
    sample = tmp_path / "s.jsonl"
    sample.write_text('{"u": "a", "v": 1, "t": 1700000000}\n' * 9)
    ask = ["validate", str(good), "--sample", str(sample)]
    assert main(ask) == 0
    said = capsys.readouterr().out
    assert "valid; w-event" in said
    assert f"{sample}: 9 messages, 9 of them with events\n" in said
    assert "for the edge's own eyes" in said
    sample.write_text(sample.read_text() + '{"u": "a", "v": "s3cret-77", "t": 1700000000}\n')
    assert main(ask) == 1
    said = capsys.readouterr().out
    assert "1 x value: " in said and "at line 10\n" in said and "s3cret" not in said
    assert main([*ask, "--max-bad", "0.1"]) == 0
    assert main([*ask, "--max-bad", "0.09"]) == 1
    capsys.readouterr()
    assert main([*ask, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["sample"]["events"], found["sample"]["bad"]) == (True, 9, 1)
    late = [1700000000 + day * 86_400 for day in (0, 9, 0, 0)]  # as many as are lost count
    sample.write_text("".join(f'{{"u": "a", "v": 1, "t": {time}}}\n' for time in late))
    assert main(ask) == main([*ask, "--max-bad", "0.49"]) == 1
    assert main([*ask, "--max-bad", "0.5"]) == 0
    capsys.readouterr()
    sample.write_text('{"user": "a", "value": 1, "time": 1700000000}\n' * 9)
    assert main([*ask, "--max-bad", "1"]) == 2
    assert "input.user: $.u is not in 9 of them: did you mean $.user?" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(sample.read_bytes())))
    assert main(["validate", str(good), "--sample", "-"]) == 2
    assert "standard input: 9 messages, 0 of them" in capsys.readouterr().out
    assert main(["validate", str(bad), "--sample", str(sample)]) == 2
    assert main(["validate", str(good), "--from-topic", "9"]) == 1
    assert "error: no embedded broker runs for topology meters" in capsys.readouterr().err
    for wrong in ([str(good)], ["--from-topic", "3"]):
        assert main([*ask, *wrong]) == 2


def test_the_page_tries_a_message(tmp_path):
    """With its own lines and its own topology, before there is a key or a broker."""
    steps = (PAGES / "how-to" / "own-topic.md").read_text("utf-8").partition("\n## ")[0]
    (topology,) = re.findall(r"^```yaml\n(.*?)^```$", steps, re.MULTILINE | re.DOTALL)
    (lines,) = re.findall(r"^```sh\n([^`]*--sample[^`]*)```$", steps, re.MULTILINE)
    (tmp_path / "meters.yaml").write_text(topology)
    done = subprocess.run(
        ["bash", "-ec", f'ldp-kafka() {{ "{sys.executable}" -m ldp_kafka "$@"; }}\n{lines}'],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert "messages.jsonl: 1 message, 1 of them with events\n" in done.stdout


def test_validate_tries_what_a_replay_has_sent(good, tmp_path, capsys):
    """From the embedded broker of a topology: our own records are no events, and not bad."""
    (tmp_path / "x.csv").write_text("user,value,time\na,1.5,1700000000\nb,20,1700000000\n")
    with EmbeddedBroker() as broker:
        publish("meters", broker)
        prepare(load(good), broker)
        assert main(["validate", str(good), "--from-topic", "100"]) == 2
        said = capsys.readouterr().out
        assert "meters.raw, newest messages: 2 messages, 0 of them with events, 2 of ours" in said
        assert main(["replay", str(tmp_path / "x.csv"), "-t", str(good)]) == 0
        capsys.readouterr()
        assert main(["validate", str(good), "--from-topic", "100", "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
    assert (found["sample"]["events"], found["sample"]["bad"]) == (2, 0)
    assert found["sample"]["values"]["outside"] == 1


def test_validate_tries_a_table_as_replay_sends_it(good, tmp_path, capsys):
    """With the same columns; what replay would not send is refused with the line."""
    table = tmp_path / "x.csv"
    table.write_text("m;v;t\n017;1;2023-11-14T22:00:00\n;1;2023-11-14T22:00:00\n")
    columns = ["--user-column", "m", "--value-column", "v", "--time-column", "t"]
    assert main(["validate", str(good), "--sample", str(table), *columns]) == 0
    said = capsys.readouterr()
    assert f"note: {table}: cells are parted by semicolon (--delimiter)\n" in said.err
    assert "1 message, 1 of them with events\n" in said.out
    assert "1 row without a user, a value or a time: replay leaves such out\n" in said.out
    assert "epoch" not in said.out  # how the file spells times is not how replay does
    table.write_text("m;v;t\na;1,5;2023-11-14T22:00:00\n")
    assert main(["validate", str(good), "--sample", str(table), *columns]) == 2
    assert f"error: {table}:2: column v must be" in capsys.readouterr().err
    assert main(["validate", str(good), "--sample", str(table)]) == 2
    assert "no column user, value, time among m, v, t: --user-column" in capsys.readouterr().err
    table.write_text("m#v#t\na#1#1700000000\n")
    assert main(["validate", str(good), "--sample", str(table), *columns, "--delimiter", "#"]) == 0


@pytest.mark.parametrize("statistics", ["mean", "mean, per_user"])
def test_validate_and_plan_promise_the_same(good, statistics, capsys):
    """Also by what the reports of a user are linked."""
    good.write_text(GOOD.replace("[mean]", f"[{statistics}]"))
    assert main(["validate", str(good)]) == 0
    line = capsys.readouterr().out.removeprefix(f"{good}: valid; ").strip()
    assert main(["plan", str(good)]) == 0
    assert f"guarantee    {line}\n" in capsys.readouterr().out
    by = (
        "a pseudonym"
        if "per_user" in statistics
        else "partition; also by order or time where 16,384 events or more lie in a partition's"
        " open slots"
    )
    assert line.endswith(f"; not anonymous: reports of a user can be linked by {by}")


def test_key_new(tmp_path, capsys):
    """32 bytes, for its owner only, never overwritten."""
    path = tmp_path / "edge.key"
    assert main(["key", "new", str(path)]) == 0
    key = path.read_bytes()
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["key", "new", str(path)]) == 2
    assert path.read_bytes() == key
    said = capsys.readouterr()
    assert "not overwritten" in said.err
    assert key.hex() not in said.out + said.err


def test_topics(good, capsys):
    """A dry run asks nobody; without a broker it says so; on a broker it checks."""
    assert main(["topics", str(good), "--dry-run"]) == 0
    assert "meters.reports" in capsys.readouterr().out
    assert main(["topics", str(good)]) == 1
    assert "error: no embedded broker runs for topology meters" in capsys.readouterr().err
    with EmbeddedBroker() as broker:
        made = load(good)
        publish("meters", broker)
        prepare(made, broker)
        assert main(["topics", str(good), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["done"] == []
        names = {topic["name"] for topic in found["topics"]}
        assert names == {topic.name for topic in made.topics()}
        good.write_text(GOOD.replace("epsilon: 2.0", "epsilon: 3.0"))
        assert main(["topics", str(good)]) == 2
        assert "was begun under other parameters" in capsys.readouterr().err


def test_replay(good, tmp_path, capsys):
    """A file, slices and generated streams; what was written as JSON; what cannot be replayed at
    all.
    """
    (tmp_path / "x.csv").write_text("u,v,t\na,1.5,2023-11-14T22:00:00\nb,2.5,2023-11-14T23:00:00\n")
    columns = ["--user-column", "u", "--value-column", "v", "--time-column", "t"]
    with EmbeddedBroker() as broker:
        publish("meters", broker)
        prepare(load(good), broker)
        ask = ["replay", str(tmp_path / "x.csv"), "-t", str(good), "--json"]
        assert main([*ask, *columns]) == 0
        made = {"topic": "meters.raw", "events": 2, "users": 2}
        assert json.loads(capsys.readouterr().out).items() >= made.items()
        assert main([*ask, "--slice", "2", "--value-column", "v"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["events"], found["last_slot"] - found["first_slot"]) == (2, 0)
        generated = ["--generate", "lns", "--users", "30", "--slots", "4", "-t", str(good)]
        assert main(["replay", *generated, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["events"] == 120
        assert main([*ask, *columns, "--start", "2100-01-01T00:00:00Z"]) == 2
        assert "max_ahead" in capsys.readouterr().err
        assert main([*ask, "--user-column", "nobody"]) == 2
        assert "error: no column nobody" in capsys.readouterr().err
    assert main(["replay", "-t", str(good)]) == 2
    assert main([*ask, "--start", "yesterday"]) == 2


@pytest.mark.parametrize(
    ("error", "code"), [(BrokerError("down"), 1), (ConfigurationError("wrong\nand more"), 2)]
)
def test_errors_of_ours_are_lines_and_codes(error, code, monkeypatch, good, capsys):
    """No traceback."""

    def raises(*_, **__):
        raise error

    monkeypatch.setattr("ldp_kafka.topology.load", raises)
    assert main(["plan", str(good)]) == code
    said = "".join(f"error: {line}\n" for line in str(error).splitlines())
    assert capsys.readouterr().err == said


def test_run_needs_a_key(good, capsys):
    """Before anything is started."""
    done = shell("run", str(good), LDP_KAFKA_EDGE_KEY="")
    assert done.returncode == 2
    assert "error: the edge needs a key" in done.stderr
    assert "Traceback" not in done.stderr
    assert main(["run", str(good), "--until-idle", "soon"]) == 2
    assert "a duration must be" in capsys.readouterr().err


def test_broker_status_without_one(tmp_path, capsys):
    """Says how to start it, and is not a success."""
    assert main(["broker", "status", "--directory", str(tmp_path / "none")]) == 1
    assert "ldp-kafka broker start" in capsys.readouterr().out
    assert main(["broker", "stop", "--directory", str(tmp_path / "none")]) == 0


def test_schema(capsys):
    """Is a JSON Schema."""
    for words, key in ((["schema"], "privacy"), (["schema", "--edge"], "admits")):
        assert main(words) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["$schema"].startswith("https://json-schema.org/")
        assert key in found["properties"]
