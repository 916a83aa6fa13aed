"""The log of real worker processes over the embedded broker: every line is JSON, what is expected
comes in its order, and nothing in it is anybody's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ldp_kafka as lk
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.worker.events import COMMON, Event
from ldp_kafka.runtime.worker.rates import MOST, shape
from tests.keys import KEY

TEXT = """\
topology: meters
kafka: {{bootstrap_servers: embedded}}
input: {{slot: 1m, lateness: 0, partitions: 2}}
privacy: {{method: sw_direct, epsilon: 4.0, window: 2, domain: [0, 10]}}
output: {{statistics: [mean]}}
edge: {{key_file: {key}}}
runtime: {{session_timeout: 2s, snapshot_seconds: 0.2}}
"""
FIRST = 1_700_000_040  # seconds, where a slot begins
USERS, SLOTS = 10, 4
VALUE = 7.654321
FIELDS = {event.value.name: {*COMMON, *event.value.fields} for event in Event}


def made(folder: Path, broker: EmbeddedBroker) -> Path:
    """A topology with its topics, and its broker where other processes find it."""
    key = folder / "edge.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    path = folder / "meters.yaml"
    path.write_text(TEXT.format(key=key))
    publish("meters", broker)
    prepare(lk.load_topology(path), broker)
    return path


def started(path: Path, log: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(lk.__file__).parents[1])}
    with log.open("wb") as said, log.with_suffix(".out").open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "ldp_kafka", "run", str(path), "--log-format", "json", *words],
            stdout=out,
            stderr=said,
            env=environment,
        )


def lines(log: Path) -> list[dict[str, object]]:
    """All that are whole; each must be JSON."""
    return [
        json.loads(line)
        for line in log.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]


def event(user: int, slot: int) -> bytes:
    named = {"user": f"meter-4711-{user}", "value": VALUE, "time": FIRST + 60 * slot}
    return json.dumps(named).encode()


def until(condition, seconds=120.0):  # so that nothing hangs; a busy machine takes its time
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module", autouse=True)
def run_directory(tmp_path_factory):
    """No test finds another's broker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of all roles until it was told to end: some events of each slot, one of a user who is
    late, one that is no event and one with a word for a value.
    """
    folder = tmp_path_factory.mktemp("run")
    with EmbeddedBroker() as broker:
        path = made(folder, broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for slot in range(SLOTS):
            for user in range(USERS):
                producer.produce("meters.raw", event(user, slot), partition=user % 2)
        bad = json.dumps({"user": "u", "value": "w0rd", "time": FIRST + 200}).encode()
        for value in (event(4712, 0), b"s3cret", bad):
            producer.produce("meters.raw", value, partition=0)
        producer.flush(10)
        process = started(path, log := folder / "log", "-v")
        wanted = {("collect", "first_release"), ("collect", "snapshot"), ("perturb", "snapshot")}
        try:
            until(lambda: wanted <= {(line["role"], line["event"]) for line in lines(log)})
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
            process.wait()
        return code, log.with_suffix(".out").read_text(), lines(log)


def of(found, role):
    """The names of a role's lines in order, each once; without what others say, and without
    snapshots, which come when it is time.
    """
    names = [line["event"] for line in found if line["role"] == role]
    return [name for name in dict.fromkeys(names) if name not in ("log", "repeated", "snapshot")]


def test_every_line_has_what_its_name_says(run):
    code, _, found = run
    assert code == 0, found[-5:]
    for line in found:
        assert COMMON.keys() - {"partition"} <= line.keys() <= FIELDS[line["event"]], line
        assert line["topology"] == "meters"


def test_the_lines_come_in_order(run):
    """From the beginning to the end; of the parent the end alone, where nothing happens to it."""
    _, _, found = run
    edge = ["start", "assigned", "ready", "recovered", "late", "dead_letters", "end"]
    assert of(found, "perturb") == edge
    collector = ["start", "assigned", "ready", "recovered", "first_release", "end"]
    assert of(found, "collect") == collector
    assert of(found, "") == ["end"]


def test_the_lines_say_what_was(run):
    _, _, found = run
    said = {(line["role"], line["event"], line.get("partition")): line for line in found}
    start = said["perturb", "start", None]
    assert start["version"] == lk.__version__
    assert start["guarantee"].startswith("w-event, epsilon 4 over any 2 consecutive slots")
    assert said["perturb", "assigned", None]["partitions"] == {"meters.raw": [0, 1]}
    for partition in (0, 1):
        recovered = said["perturb", "recovered", partition]
        assert (recovered["users"], recovered["offset"]) == (0, -1)
        assert 0 <= recovered["seconds"] < 60
    release = said["collect", "first_release", 0]
    assert FIRST // 60 <= release["slot"] < FIRST // 60 + SLOTS
    assert said["perturb", "late", None]["events"] == 1
    reasons = said["perturb", "dead_letters", None]["reasons"]
    assert sum(reasons.values()) == 2
    assert all(said["perturb", "snapshot", partition]["bytes"] > 0 for partition in (0, 1))
    for role in ("perturb", "collect", ""):
        end = said[role, "end", None]
        assert (end["code"], end["reason"]) == (0, "told to end")


def test_nobody_hears_of_services(run):
    """Faust notes which of its services starts and stops; not even -v wants that."""
    _, _, found = run
    loggers = {line["logger"] for line in found if line["event"] == "log"}
    assert not {name for name in loggers if name.startswith(("mode", "faust", "ldp_kafka"))}


def test_nothing_in_it_is_anybodys(run):
    """No value, no user, no time of an event."""
    _, out, found = run
    text = out + json.dumps(found)
    for secret in ("7.654", "meter-4711", "4712", "s3cret", "w0rd", str(FIRST)):
        assert secret not in text, secret


def test_standard_output_says_where_the_metrics_are(run):
    _, out, _ = run
    assert sorted(line.split(" http://")[0] for line in out.splitlines()) == [
        "meters collect: metrics at",
        "meters perturb: metrics at",
    ]


def test_a_broker_that_goes_away_is_an_outage_and_no_flood(tmp_path):
    """Clients say so, some hundred times: of each kind three lines, and how many more."""
    log = tmp_path / "log"

    def events():
        return [line["event"] for line in lines(log)]

    with EmbeddedBroker() as broker:
        path = made(tmp_path, broker)
        process = started(path, log, "--role", "perturb")
        until(lambda: "ready" in events())
    try:
        until(lambda: "outage" in events())
        until(lambda: any(line.get("logger") == "librdkafka" for line in lines(log)))
        time.sleep(6)
        process.send_signal(signal.SIGTERM)
        code = process.wait(40)
    finally:
        process.kill()
        process.wait()
    found = lines(log)
    assert [name for name in events() if name not in ("log", "repeated")] == [
        "start",
        "assigned",
        "ready",
        "outage",
        "end",
    ]
    assert (found[-1]["event"], found[-1]["code"]) == ("end", code)
    others = [line for line in found if line["event"] == "log"]
    kinds = Counter((line["logger"], shape(line["message"])) for line in others)
    assert "librdkafka" in {logger for logger, _ in kinds}
    assert max(kinds.values()) == MOST
    assert sum(line["count"] for line in found if line["event"] == "repeated") > 50
    assert not any("frames" in line for line in found)
