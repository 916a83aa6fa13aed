"""The docs' own page "From somebody else's topic to releases", pasted into one shell: a topic with
32 kinds of bad messages, two workers at the edge, one at the collector, and releases as a table,
CSV, Parquet, a plot and rows in SQLite.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
from matplotlib.image import imread

import ldp_kafka as lk
from ldp_kafka.runtime.kafka.reader import read_records
from tests.broker import story
from tests.broker.test_readme import shell
from tests.depth import depth

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "deploy/docs/pages/how-to/foreign-topic.md").read_text("utf-8")
USERS = depth(1_500, 20_000)
RELEASED = story.SLOTS - 3  # two slots of lateness and the one that is open


def blocks(language):
    """The page's fenced blocks, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


CAUGHT_UP = f"""
{sys.executable} - <<'END'
import time
import ldp_kafka as lk
until = time.monotonic() + {depth(120, 600)}
while len(list(lk.releases("heat.yaml"))) < {RELEASED}:
    assert time.monotonic() < until, "the workers have not caught up"
    time.sleep(1)
END
"""
"""What stands between the page's lines: somebody who waits."""


def pasted(folder, bootstrap):
    """What the page's lines say on a terminal."""
    (heat,), (keep,), lines = blocks("yaml"), blocks("python"), blocks("sh")
    (folder / "heat.yaml").write_text(heat)
    (folder / "deploy").mkdir()
    (folder / "deploy" / "sinks").symlink_to(ROOT / "deploy" / "sinks")
    first = next(at for at, block in enumerate(lines) if "ldp-kafka status" in block)
    rows = f"{sys.executable} - <<'END'\n{keep}END\n"
    script = [*lines[:first], CAUGHT_UP, *lines[first:-1], rows, lines[-1]]
    with subprocess.Popen(
        ["bash", "-c", "set -e\n" + "".join(script)],
        cwd=folder,
        env={**shell(folder), "LDP_KAFKA_BOOTSTRAP": bootstrap},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as done:
        try:
            said, _ = done.communicate(timeout=depth(240, 1200))
        finally:  # the workers, where a line before the last one failed
            with suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
    logs = {path.name: path.read_text()[-2000:] for path in folder.glob("*.log")}
    assert done.returncode == 0, (said[-4000:], logs)
    return said


def dead_letters(bootstrap, folder):
    """Of how many records there are any, by reason: one is written again where its record is read
    again, as when the second worker joins the first.
    """
    made = lk.load_topology(folder / "heat.yaml")
    kept = read_records({"bootstrap.servers": bootstrap}, made.dead_letters_topic)
    letters = {
        (letter.partition, letter.offset, letter.row): letter.reason
        for each in kept
        for letter in lk.decode(each.value)
    }
    return Counter(letters.values())


def test_the_whole_story(kafka, tmp_path, monkeypatch):
    """Every meter counts in every hour, every bad message is a dead letter, and nothing else is."""
    monkeypatch.setenv("LDP_KAFKA_BOOTSTRAP", kafka)
    wrong = story.fill(kafka, "metering.readings.v1", USERS, story.SLOTS)
    said = pasted(tmp_path, kafka)
    assert said.count(f" {USERS:,} ") >= RELEASED and "95 % interval" in said
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY_FILE", str(tmp_path / "edge.key"))
    assert dead_letters(kafka, tmp_path) == wrong
    assert wrong.keys() == story.reasons().keys()
    found = list(lk.releases(tmp_path / "heat.yaml"))
    assert [one.slot for one in found] == sorted({one.slot for one in found})
    assert len(found) == RELEASED and {one.reports for one in found} == {USERS}
    errors = [
        (one.value - true) / one.standard_error
        for one, true in zip(found, story.truth(USERS, story.SLOTS), strict=False)
    ]
    assert max(map(abs, errors)) < 6  # wrong once in 20 million runs
    with (tmp_path / "releases.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    values = [one.value for one in found]
    assert [float(row["value"]) for row in rows] == values
    assert pq.read_table(tmp_path / "releases.parquet")["value"].to_pylist() == values
    assert min(imread(tmp_path / "releases.png").shape[:2]) > 200
    database = sqlite3.connect(tmp_path / "releases.db")
    assert [
        value for (value,) in database.execute("SELECT value FROM releases ORDER BY slot")
    ] == values
    database.close()
