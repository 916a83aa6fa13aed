"""SIGKILL, and the end of the power, at every system call by which a device writes, syncs, cuts,
removes or sends: the ledger never holds less than what has left, no slot has two reports, and no
older database is accepted after the next start.

Real processes, real files (see `nursery` and `killer.c`); what the machine forgets when its power
goes is all that was not synced.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import needs
from tests.runtime.device.lives import MEMORY

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    """The preloaded library."""
    if sys.platform != "linux":
        needs.lacking("Linux", "a library is loaded before others, as it does")
    compiler = needs.program("cc", "gcc", how="apt-get install gcc libc6-dev")
    made = tmp_path_factory.mktemp("killer") / "killer.so"
    subprocess.run(
        [
            compiler,
            "-O1",
            "-Wall",
            "-shared",
            "-fPIC",
            "-o",
            made,
            Path(__file__).with_name("killer.c"),
        ],
        check=True,
        timeout=60,
    )
    return made


def everywhere(killer, jobs):
    """Of each job {fault: the calls at which a life had ended}, and how many calls a life has."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        words = [sys.executable, "-m", "tests.runtime.device.nursery", folder, json.dumps(jobs)]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LD_PRELOAD": str(killer)}
        run = subprocess.run(
            words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600, check=False
        )
    assert run.returncode == 0, run.stderr
    return zip(jobs, json.loads(run.stdout), strict=True)


def test_nothing_is_wrong_wherever_it_ends(killer):
    """The making of key and database among it; each life but the last ends somewhere, and each has
    values of its own.
    """
    cuts = ("killed", "halved", "power", "killed, then power")
    jobs = [("Client", cut, "nothing") for cut in cuts]
    for job, (found, calls) in everywhere(killer, jobs):
        assert found == {}, job
        assert calls > 60, job


BROKEN = [
    ("LeavesEarly", "killed", "the ledger holds less than what has left"),
    ("DrawsAgain", "killed", "two different reports of one slot left the device"),
    ("DrawsAgain", "killed", "more than the budget left the device"),
    ("ForgetsEarly", "killed", "a report that was on the disk never arrived"),
    # the counter is on the disk, and what it counts is not: an older copy
    ("SyncsLater", "power", "it does not go on"),
    ("CountsEarly", "killed", "it does not go on"),
    ("NeverCatchesUp", "power", "an older database is accepted"),
    ("CatchesUpUnsynced", "killed, then power", "it does not go on"),
]


def test_broken_clients_are_found(killer):
    """By the same cuts: the ledger written after the report left, noise drawn anew for what is sent
    again, a queue that forgets before the broker has it, a disk that is not told to sync, commits
    that are counted before they are made, or never, or before they are synced.
    """
    for job, (found, _) in everywhere(killer, BROKEN):
        assert job[-1] in found, job
