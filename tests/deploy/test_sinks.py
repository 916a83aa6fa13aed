"""Releases into databases: the lines of the page, run as they stand there.

SQLite runs what it is told. PostgreSQL's lines run where a server is installed (``initdb``); its
statements, but for the one with which ``psql`` reads its input, run in SQLite too. What Kafka
Connect is given is compared with what its JSON converter asks for: no Connect runs here.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ldp_kafka as lk
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.releases.rows import COLUMNS, KEY
from ldp_kafka.topology import load
from tests import needs
from tests.runtime.releases.made import above, release, shares

ROOT = Path(__file__).parents[2]
SINKS = ROOT / "deploy" / "sinks"
PAGE = (SINKS / "README.md").read_text()
TOPOLOGY = """
topology: {name}
input: {{slot: 1h, partitions: 2}}
privacy: {{method: sw_direct, domain: [0, 100], epsilon: 2.0, window: 4}}
output: {{statistics: [mean]}}
"""
ROWS = [
    *(release(slot, float(slot)) for slot in range(1, 4)),
    shares(3, [0.25, 0.75], categories=["maps", 'mail, "new"\n']),
    above(3, 0, 0.125),
    release(3, None, "per_user", user="5f2a", standard_error=None, reports=0),
]


def blocks(language):
    """The page's blocks of a language, in their order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as made:
        yield made


@pytest.fixture
def place(tmp_path, monkeypatch, broker, request):
    """A folder as the page's reader has it: the SQL, and a topology whose topic holds releases."""
    name = re.sub(r"\W", "-", request.node.name)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    for file in ("meters.yaml", "smart-meters.yaml"):
        Path(file).write_text(TOPOLOGY.format(name=name))
    publish(name, broker)
    topology = load("meters.yaml")
    broker.create_topic(topology.releases_topic, 2)

    def send(releases):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for each in releases:
            producer.produce(topology.releases_topic, lk.encode(each), each.key.encode(), 0)
        assert producer.flush(10) == 0

    send(ROWS)
    return send


def shim(folder):
    """The command as a program."""
    path = folder / "bin" / "ldp-kafka"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m ldp_kafka "$@"\n')
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{path.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def in_sqlite():
    with closing(sqlite3.connect("releases.db")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM releases ORDER BY rowid")]


def test_sqlite(place):
    """All rows, with their nulls; once more changes nothing; a release that was released anew is
    overwritten, not doubled.
    """
    code = compile(blocks("python")[0], "page", "exec")
    exec(code, {})
    with lk.releases("meters.yaml") as found:
        wanted = list(found.rows())
    assert len(wanted) == 7
    assert in_sqlite() == wanted
    exec(code, {})
    assert in_sqlite() == wanted
    place([release(1, 99.0), release(4, 4.0)])
    with closing(sqlite3.connect("releases.db")) as database, database:
        database.execute("UPDATE releases SET value = -1 WHERE slot = 2")
    exec(code, {})
    assert in_sqlite()[:-1] == wanted
    assert in_sqlite()[-1]["value"] == 4.0
    with closing(sqlite3.connect("releases.db")) as database:
        [query] = blocks("sql")
        newest = database.execute(query).fetchone()
        assert newest == ("1970-01-01T04:00:00Z", 4.0, 2.0, 6.0)


def test_sqlite_without_an_end(place):
    """Whatever comes is there at once; Ctrl-C ends it, and leaves a whole database."""
    first, second = blocks("python")
    opened = first[: first.index("with database, ")]
    running = subprocess.Popen(
        [sys.executable, "-c", opened + second],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for wanted in (7, 8):
            end = time.monotonic() + 60
            while _rows() < wanted and time.monotonic() < end:
                assert running.poll() is None, running.stderr.read()
                time.sleep(0.1)
            assert _rows() == wanted
            if wanted == 7:
                place([release(5, 5.0), release(1, 1.0)])
    finally:
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    assert _rows() == 8


def _rows():
    try:
        return len(in_sqlite())
    except sqlite3.OperationalError:  # not there yet
        return 0


def test_sql_names_every_column():
    """In the table, in the parameters, and in what is overwritten: all but the key."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript((SINKS / "releases.sql").read_text())
        found = database.execute("PRAGMA table_info(releases)").fetchall()
    assert [name for _, name, *_ in found] == list(COLUMNS)
    keys = {name: place for _, name, _, _, _, place in found if place}
    assert sorted(keys, key=keys.get) == list(KEY)
    kinds = {
        "text": "TEXT",
        "whole": "bigint",
        "number": "double precision",
        "time": "timestamptz",
    }
    for _, name, kind, needed, *_ in found:
        assert kind.lower() == kinds[COLUMNS[name].kind].lower()
        assert bool(needed) == (not COLUMNS[name].optional)
    upsert = (SINKS / "upsert.sql").read_text()
    assert re.findall(r":(\w+)", upsert) == list(COLUMNS)
    for text in (upsert, (SINKS / "postgresql.sql").read_text()):
        assert re.findall(r"(\w+) = excluded\.\1", text) == [
            name for name in COLUMNS if name not in KEY
        ]
        assert f"ON CONFLICT ({', '.join(KEY)})" in text
    table = PAGE[PAGE.index("| column |") :].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert re.findall(r"`(\w+)`", " ".join(first)) == list(COLUMNS)


def test_a_column_that_is_added_to_an_older_table_is_the_last_one():
    """Rows are inserted by their places."""
    table, upsert = ((SINKS / name).read_text() for name in ("releases.sql", "upsert.sql"))
    older = re.sub(r" *error_reason.*\n", "", table)
    row = dict.fromkeys(COLUMNS, 0) | {"reports": 5, "error_reason": "clipped"}
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(older)
        database.execute("ALTER TABLE releases ADD COLUMN error_reason text")
        database.execute(upsert, row)
        found = database.execute("SELECT reports, error_reason FROM releases").fetchall()
    assert found == [(5, "clipped")]


def test_postgresqls_statements_in_sqlite(place):
    """Both databases take them. ``\\copy`` alone is psql's, and its job is done here."""
    main = ["releases", "meters.yaml", "--csv", "rows.csv"]
    subprocess.run([sys.executable, "-m", "ldp_kafka", *main], check=True, timeout=60)
    statements = (SINKS / "postgresql.sql").read_text()
    before, copy, after = re.split(r"^(\\copy .*)$", statements, flags=re.MULTILINE)
    assert "FORCE_NOT_NULL (subject)" in copy
    before = before.replace("ON COMMIT DROP ", "")  # SQLite drops it with the connection
    for _ in range(2):
        with closing(sqlite3.connect("releases.db", isolation_level=None)) as database:
            for text in (SINKS / "releases.sql").read_text(), *before.split(";"):
                database.execute(text)
            with Path("rows.csv").open(newline="") as file:
                for row in csv.DictReader(file):
                    values = [
                        value or (None if COLUMNS[name].optional else "")
                        for name, value in row.items()
                    ]
                    marks = ", ".join("?" * len(values))
                    database.execute(f"INSERT INTO incoming VALUES ({marks})", values)
            for text in after.split(";"):
                database.execute(text)
    with lk.releases("meters.yaml") as found:
        assert in_sqlite() == list(found.rows())


def as_nobody():
    """A server refuses to run as root."""
    return {"user": 65534, "group": 65534} if os.getuid() == 0 else {}


@pytest.fixture
def server(tmp_path):
    """The environment in which psql finds a PostgreSQL server of its own."""
    for name in ("initdb", "pg_ctl", "psql"):
        needs.program(name, how="apt-get install postgresql", required=False)
    data = Path(f"/tmp/ldp-kafka-postgres-{os.getpid()}")  # a socket's path must be short
    data.mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(data, 65534, 65534)
    quiet = {**as_nobody(), "cwd": "/", "stdout": subprocess.DEVNULL, "timeout": 120}
    init = ["initdb", "-D", f"{data}/db", "-U", "reader", "-A", "trust", "--no-sync"]
    control = ["pg_ctl", "-D", f"{data}/db", "-w"]
    started = False
    try:
        subprocess.run([*init, "--no-locale", "-E", "UTF8"], check=True, **quiet)
        options = f"-k {data} -c listen_addresses= -c fsync=off"
        begin = [*control, "-t", "100", "-l", f"{data}/log", "-o", options, "start"]
        subprocess.run(begin, check=True, **quiet)
        started = True
        yield {"PGHOST": str(data), "PGUSER": "reader", "PGDATABASE": "postgres"}
    finally:
        if started:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, **quiet)
        shutil.rmtree(data)


def test_postgresql(place, server, tmp_path):
    """The page's two lines, twice: the rows of the releases, none of them doubled."""
    environment = {**shim(tmp_path), **server}
    [lines, _] = blocks("sh")
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", lines],
            env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert [line for line in done.stderr.splitlines() if "already exists" not in line] == []

    def asked(query):
        words = ["psql", "-X", "-q", "-A", "-t", "-c", query]
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()

    found = json.loads(asked("SELECT json_agg(releases ORDER BY slot, statistic) FROM releases"))
    with lk.releases("meters.yaml") as wanted:
        rows = sorted(wanted.rows(), key=lambda row: (row["slot"], row["statistic"]))
    for row in rows:
        for name in ("slot_start", "slot_end"):
            row[name] = row[name].replace("Z", "+00:00")
    assert found == rows
    assert asked("SELECT DISTINCT guarantee::jsonb ->> 'epsilon' FROM releases") == "2.0"
    [query] = blocks("sql")
    assert asked(f"SET timezone = 'UTC'; {query}").splitlines()[0] == "1970-01-01 03:00:00+00|3|1|5"


def test_connect(place, tmp_path):
    """The page's line, with `cat` for the producer: each row once, with its schema; and the
    connector asks for what is in it.
    """
    connector = json.loads((SINKS / "jdbc-sink.json").read_text())["config"]
    assert connector["pk.fields"].split(",") == list(KEY)
    assert (connector["insert.mode"], connector["pk.mode"]) == ("upsert", "record_value")
    assert connector["value.converter.schemas.enable"] == "true"
    [_, line] = blocks("sh")
    command, producer = re.fullmatch(r"(.*?) --follow( --connect) \|\n +(.*)\n", line).group(1, 3)
    assert f"--topic {connector['topics']}" in producer
    assert command.startswith("ldp-kafka releases ")
    done = subprocess.run(
        ["bash", "-c", f"{command} --connect | cat"],
        env=shim(tmp_path), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    made = [json.loads(each) for each in done.stdout.splitlines()]
    with lk.releases("meters.yaml") as found:
        rows = list(found.rows())
    assert [each["payload"]["value"] for each in made] == [row["value"] for row in rows]
    assert all(each["schema"] == made[0]["schema"] for each in made)
    fields = {field["field"]: field["optional"] for field in made[0]["schema"]["fields"]}
    assert not any(fields[name] for name in KEY)
