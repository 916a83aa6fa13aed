"""Every block of code on every page runs, here or where its page says so; few are only checked."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import ldp_kafka as lk
from ldp_kafka.cli import cli
from ldp_kafka.runtime.kafka.client_options import check_topology
from ldp_kafka.runtime.wire.events import event_reader
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.topology import loads
from ldp_kafka.topology.document import read
from ldp_kafka.topology.schema import problems
from tests.deploy.code_blocks import CHECKED, ROOT, blocks, written
from tests.deploy.shell import Shell, environment

PAGES = written()
BLOCKS = [block for page in PAGES for block in blocks(page)]
HERE = [block for block in BLOCKS if block.language and not block.elsewhere]
RUN = [
    page
    for page in PAGES
    if any(block.page == page and block.language in {"python", "sh"} for block in HERE)
]
TASKS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["poe"]["tasks"]
LONGEST = 300  # seconds; half a minute on a machine that does nothing else
# blocks that nothing runs, where a page has more than one
MOST_CHECKED = {"how-to/two-clusters.md": 2}


def name(page: Path) -> str:
    pages = ROOT / "deploy" / "docs" / "pages"
    return str(page.relative_to(pages if page.is_relative_to(pages) else ROOT))


def test_there_are_some():
    """Of each kind, and on pages of both kinds."""
    assert {block.language for block in HERE} >= {"json", "python", "sh", "yaml"}
    assert {"tutorial.md", "README.md", "guarantee.md"} <= {name(page) for page in RUN}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_something_runs_it(block):
    """A language that is known here, or a file that knows the page, or a reason."""
    known = {"", "json", "python", "sh", "text", "yaml"}
    assert block.language in known or block.elsewhere
    if block.elsewhere and not block.elsewhere.startswith(CHECKED):
        assert block.page.stem in (ROOT / block.elsewhere).read_text("utf-8")


def test_few_are_only_checked():
    """One a page, or what is said above."""
    for page in PAGES:
        only = [one for one in blocks(page) if one.elsewhere.startswith(CHECKED)]
        assert len(only) <= MOST_CHECKED.get(name(page), 1), page


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.elsewhere.startswith(CHECKED)], ids=str
)
def test_what_is_only_checked_could_run(block):
    """Bash reads it, and its commands have the options that they are given."""
    assert block.language == "sh"
    check(block.text)


def check(text):
    """Parse, and run nothing."""
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    words = list(shlex.shlex(text, posix=True, punctuation_chars=True))
    # which drops the ends of lines: commands end at what follows
    found = 0
    for line in text.replace("\\\n", " ").splitlines():
        parts = [[]]
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        for word in lexer:
            if set(word) <= set("|&;<>()"):
                parts.append([])
            elif parts[-1] or not re.fullmatch(r"\w+=.*", word):
                parts[-1].append(word)
        for command, *rest in filter(None, parts):
            found += 1
            if Path(command).name == "ldp-kafka":
                parsed(rest)
            elif command == "poe":
                assert rest[0] in TASKS
    assert found or not words


def parsed(words):
    """A command line of ours is read to its end."""
    context, command = None, cli
    while True:
        context = command.make_context(command.name, list(words), parent=context)
        if not isinstance(command, click.Group):
            return
        words = [*context._protected_args, *context.args]
        _, command, words = command.resolve_command(context, words)


@pytest.mark.parametrize(
    "wrong",
    [
        "ldp-kafka runn x.yaml",
        "ldp-kafka run --rol perturb x.yaml",
        "poe nothing",
        "x | ldp-kafka a",
    ],
)
def test_the_check_has_teeth(wrong):
    with pytest.raises((click.ClickException, AssertionError)):
        check(wrong + "\n")


@pytest.mark.parametrize(
    "block", [block for block in HERE if block.language in {"json", "yaml"}], ids=str
)
def test_data_are_what_they_look_like(block, monkeypatch):
    """A topology loads, a part of one where it is completed; a budget file fits its schema; probes
    are there; JSON is a record of ours, or a message for the topology that comes next.
    """
    if block.language == "json" and "ldp_kafka" in json.loads(block.text):
        [record] = lk.decode(block.text.encode())
        assert record.topology == json.loads(block.text)["topology"]
        return
    if block.language == "json":
        monkeypatch.setenv("LDP_KAFKA_BOOTSTRAP", "kafka:9092")
        follows = next(
            each
            for each in blocks(block.page)
            if each.line > block.line and each.language == "yaml" and "input:" in each.text
        )
        found = event_reader(loads(whole(follows.text))).read(block.text.encode())
        assert found.events is not None and not found.bad
        return
    if "Probe: " in block.text:
        probes = read(block.text, "pod.yaml", {}).data
        assert {each["httpGet"]["path"] for each in probes.values()} <= {*Health().pages}
        return
    for variable in re.findall(r"\$\{(\w+)\}", block.text):
        monkeypatch.setenv(variable, f"a{variable}")
    if block.text.startswith("edge: ") and "\nadmits:" in block.text:
        assert not list(problems(read(block.text, "budget.yaml", {}), "edge"))
        return
    made = loads(whole(block.text))
    check_topology(made)  # its client options
    assert made.guarantee.epsilon > 0


def whole(text):
    """A topology, with what a part of one lacks."""
    for key, more in (
        ("topology", "t"),
        ("input", "{slot: 1h}"),
        ("privacy", "{method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 10]}"),
        ("output", "{statistics: [mean]}"),
    ):
        if not re.search(rf"^{key}:", text, re.MULTILINE):
            text = f"{key}: {more}\n{text}"
    return text


@pytest.fixture
def no_longer():
    """A page that waits for what does not come is a failure after some minutes."""

    def too_long(*_):
        raise AssertionError(f"a page took more than {LONGEST} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("no_longer")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    """Its files are saved, its lines pasted into one shell, its Python into one interpreter."""
    settings = environment(tmp_path)
    for variable in ("LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_EDGE_KEY", "LDP_KAFKA_EDGE_KEY_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", settings["XDG_RUNTIME_DIR"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as an interpreter has the folder that it is in
    before = set(sys.modules)
    found, said = {}, []
    with Shell(tmp_path, settings) as shell:
        for block in blocks(page):
            if block.elsewhere:
                continue
            if block.file:
                (tmp_path / block.file).write_text(block.text)
            if block.language == "sh":
                said.append(shell.run(block.text))
            elif block.language == "python" and not block.file:
                exec(compile(block.text, str(block), "exec"), found)
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]
    if check := OUTCOMES.get(name(page)):
        check(found, said)


def water(found, said):
    """All hours are released, and right: fewer than 15 of 24 intervals hold the truth once in
    10^7 runs.
    """
    followed = said[-2]  # before the workers are stopped
    assert followed.count("2026-03-02 ") >= 24
    assert found["inside"] >= 15
    assert len({report.id for report in found["seen"]}) == len(found["seen"])


def refused(found, said):
    """The plan of the second topology is printed at first, and refused at last."""
    del found
    assert "refused: 2" in said[-1]
    assert "guarantee" in said[0]


OUTCOMES = {"tutorial.md": water, "how-to/budgets.md": refused}
"""What must have come of a page, beside that nothing failed."""
