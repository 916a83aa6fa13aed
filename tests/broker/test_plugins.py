"""The pages on mechanisms and methods of one's own, and on auditing a pipeline, on a real broker:
their packages are installed with pip, and workers that are killed draw nothing twice.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldp_kafka.cli import main
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.worker.exits import WRONG
from tests.broker.flow import TEXT, Flow
from tests.broker.test_readme import shell
from tests.deploy.code_blocks import ROOT, blocks
from tests.packages import page

PAGES = {"diary-answer": "own-mechanism.md", "diary-alternate": "own-method.md"}
MODULES = {"diary-answer": "diary_answer.py", "diary-alternate": "diary_alternate.py"}
USERS = 120
HERE = Path(__file__).relative_to(ROOT).as_posix()


def install(folder, name, old="", new=""):
    """The package as its page has it, or with something else in its module."""
    folder.mkdir(parents=True)
    files = page(PAGES[name])
    assert old in files[MODULES[name]]
    for file, text in files.items():
        (folder / file).write_text(text.replace(old, new) if file == MODULES[name] else text)
    pip("install", "--quiet", "--no-deps", "--force-reinstall", str(folder))


def pip(*words):
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=300, env=quiet)


@pytest.fixture(scope="module")
def packages(can_start, tmp_path_factory):
    """Both, installed."""
    folder = tmp_path_factory.mktemp("packages")
    for name in PAGES:
        install(folder / name, name)
    yield
    pip("uninstall", "--quiet", "--yes", *PAGES)


def flow_of(kafka, tmp_path, prefix, name):
    """A topology of a package's mechanism, or of its method."""
    if name == "diary-answer":
        return Flow(
            kafka,
            tmp_path,
            f"{prefix}-answer",
            method="lpu",
            shape="mechanism: answer\n  categories: 4",
            statistics="frequencies",
            text=TEXT.replace("topology: {name}", "topology: {name}\nplugins: [diary_answer]"),
        )
    return Flow(kafka, tmp_path, f"{prefix}-alternate", method="alternate", statistics="mean")


def filled(flow, slots, first=0):
    dice = random.Random(first)
    for t in range(first, first + slots):
        flow.slot(dice, t, USERS)


@pytest.mark.parametrize("name", PAGES)
def test_two_workers_a_role_and_one_is_killed(kafka, tmp_path, prefix, packages, capsys, name):
    """What comes out is what one fold of the input gives, and every command knows the plug-in."""
    with flow_of(kafka, tmp_path, prefix, name) as flow:
        for role in flow.topology.roles:
            flow.start(role.name), flow.start(role.name)
        filled(flow, 8)
        time.sleep(4)  # into a snapshot or two
        role = flow.kill(0)
        filled(flow, 8, first=8)
        flow.start(role)
        flow.finish(16)
        verdict = flow.settled()
        assert verdict.clean, verdict
        assert verdict.reports > USERS and verdict.releases > 8, verdict
        file = str(flow.path)
        assert main(["prove-once", file, "--key-file", str(flow.topology.edge.key_file)]) == 0
        assert main(["status", file]) == 0
        assert main(["plan", file, "--users", "1000"]) == 0
        capsys.readouterr()
        assert main(["releases", file, "--json"]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(found) == verdict.releases


def said_at_the_start(flow):
    """What a worker says that ends with 2."""
    words = [sys.executable, "-m", "ldp_kafka", "run", str(flow.path), "--role", "perturb"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == WRONG, ended
    return ended.stderr


def test_another_release_is_refused(kafka, tmp_path, prefix, packages):
    """Another noise version by the fingerprint, other code by the layout; one that breaks the
    contract before a value is read. The first release goes on.
    """
    with flow_of(kafka, tmp_path, prefix, "diary-answer") as flow:
        role, agent = flow.edge
        flow.start("perturb")
        filled(flow, 4)
        flow.until_acknowledged()
        flow.stop()
        filled(flow, 4, first=4)
        place = {"bootstrap.servers": kafka}, role.group, agent.topic, range(agent.partitions)
        left = admin.lag(*place)
        assert sum(left.values())
        try:
            others = {
                "noise": ("NOISE_VERSION = 1", "NOISE_VERSION = 2", "noise version of a plug-in"),
                "code": ('"""Randomized', '"""Plain randomized', "release of a plug-in"),
                "lies": ("Fraction(self.truth, self.lie)", "Fraction(2)", "certificate_is_true"),
            }
            for kind, (old, new, said) in others.items():
                install(tmp_path / kind, "diary-answer", old, new)
                assert said in said_at_the_start(flow)
                assert admin.lag(*place) == left
        finally:
            install(tmp_path / "first", "diary-answer")
        flow.start("perturb"), flow.start("collect")
        flow.finish(8)
        verdict = flow.settled()
        assert verdict.clean and verdict.reports > USERS, verdict


def commands(name):
    """The commands that a page leaves to this file."""
    found = blocks(ROOT / "deploy/docs/pages/how-to" / name)
    return [each.text for each in found if each.language == "sh" and each.elsewhere == HERE]


@pytest.mark.parametrize("name", PAGES.values())
def test_the_commands_of_a_page(kafka, tmp_path, prefix, packages, name):
    """All of them, but that a worker that would run on ends when it is idle."""
    for file, text in page(name).items():
        (tmp_path / file).write_text(text.replace("topology: ", f"topology: {prefix}-", 1))
    run = "\n".join(commands(name))
    assert "ldp-kafka run" in run and "pip install ." in run
    run = run.replace("pip install .", f"{sys.executable} -m pip install --no-deps .")
    run = "\n".join(
        line + " --until-idle 3s" if line.startswith("ldp-kafka run") else line
        for line in run.splitlines()
    )
    ended = subprocess.run(
        ["bash", "-ec", run],
        cwd=tmp_path,
        env={**shell(tmp_path), "BOOTSTRAP": kafka, "PYTHONSAFEPATH": "1"},  # as a command has it
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_audit_of_a_pipeline(kafka, tmp_path, prefix):
    """What is claimed holds; half of it is found not to."""
    for file, text in page("audit-pipeline.md").items():
        (tmp_path / file).write_text(text)
    *steps, attack = commands("audit-pipeline.md")
    run = "\n".join([*steps, attack.strip() + " --json > found.json"])
    run += "\n" + attack.strip().replace("--epsilon 1", "--epsilon 0.5") + " && exit 7 || true\n"
    run = run.replace("trial-", f"{prefix}-")
    ended = subprocess.run(
        ["bash", "-ec", run],
        cwd=tmp_path,
        env={**shell(tmp_path), "BOOTSTRAP": kafka},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert 0.5 < found["epsilon_lower"] <= 1
