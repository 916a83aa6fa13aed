"""`ldp-kafka status` beside real workers: what it says before they run, with nothing to read, where
a partition has no events, and after releases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import ldp_kafka
from ldp_kafka.cli import main
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.topology import load

SHIPPED = Path(ldp_kafka.__file__).parents[1] / "topologies" / "smart-meters-mean.yaml"
HOUR = 3600
BEGIN = 1_767_225_600  # 2026-01-01, seconds
PATIENCE = 40.0  # seconds


@pytest.fixture
def meters(kafka, prefix, tmp_path, monkeypatch):
    """The shipped topology under a name of its own, as a path and loaded."""
    key = tmp_path / "edge.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    monkeypatch.setenv("LDP_KAFKA_BOOTSTRAP", kafka)
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY_FILE", str(key))
    path = tmp_path / "meters.yaml"
    text = SHIPPED.read_text()
    assert "topology: smart-meters-mean\n" in text
    path.write_text(text.replace("topology: smart-meters-mean\n", f"topology: {prefix}\n"))
    return path, load(path)


def status(path, capsys):
    """What it prints, and its exit code."""
    capsys.readouterr()
    code = main(["status", str(path), "--json"])
    return json.loads(capsys.readouterr().out), code


def comes_to(path, capsys, rule):
    """What it says once this is the rule that has something to say."""
    end = time.monotonic() + PATIENCE
    while True:
        found, code = status(path, capsys)
        if found["waits_for"]["rule"] == rule:
            return found, code
        assert time.monotonic() < end, found["waits_for"]
        time.sleep(0.5)


def send(kafka, topic, partition, hours):
    """Every hour's events of twenty meters."""
    producer = Producer({"bootstrap.servers": kafka})
    for hour in hours:
        for meter in range(20):
            name = f"meter-{partition}-{meter}"
            event = {"meter_id": name, "kwh": 300.0 + meter, "ts": BEGIN + HOUR * hour + meter}
            producer.produce(topic, json.dumps(event), partition=partition)
    assert producer.flush(20) == 0


def groups(kafka, prefix):
    """Those that the broker has."""
    admin = AdminClient({"bootstrap.servers": kafka})
    every = admin.list_consumer_groups(request_timeout=10).result().valid
    return {each.group_id for each in every if each.group_id.startswith((prefix, "ldp_kafka"))}


def test_from_no_topics_to_up_to_date(kafka, prefix, meters, tmp_path, capsys):
    """Each step as a new user meets it; nothing of it is left at the broker."""
    path, topology = meters
    found, code = status(path, capsys)
    assert (found["waits_for"]["rule"], code) == ("topics", 1)
    prepare(topology)
    found, code = status(path, capsys)
    assert (found["waits_for"]["rule"], code) == ("workers", 1)
    before = groups(kafka, prefix)
    with (tmp_path / "workers.log").open("w") as log:
        words = [sys.executable, "-m", "ldp_kafka", "run", str(path)]
        workers = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            _beside_workers(kafka, topology, path, capsys)
        finally:
            workers.terminate()
            workers.wait(60)
    assert groups(kafka, prefix) == before
    assert status(path, capsys)[0]["waits_for"]["rule"] == "workers"


def _beside_workers(kafka, topology, path, capsys):
    raw = topology.input.topic
    found, code = comes_to(path, capsys, "empty")
    assert code == 0
    assert {each["members"] for each in found["groups"]} == {1}
    assert found["waits_for"]["line"] == f"waits for events: {raw} is empty"

    send(kafka, raw, 0, range(6))
    found, code = comes_to(path, capsys, "idle")
    assert code == 0
    line = found["waits_for"]["line"]
    assert line.startswith(
        f"waits for partition 1 of {raw}: it is empty; slot 2026-01-01 00:00 UTC"
    )
    assert "an event or tick of 2026-01-01 02:00 UTC or later comes there" in line

    send(kafka, raw, 1, range(6))
    comes_to(path, capsys, "open")
    found, _ = status(path, capsys)  # all of it, as it is by now
    assert found["waits_for"]["rule"] == "open"
    assert "until slot 2026-01-01 04:00 UTC closes" in found["waits_for"]["line"]
    assert found["releases"]["slot"] == BEGIN // HOUR + 3
    assert found["releases"]["statistic"] == "mean"
    assert [each["closed"] for each in found["input"]["partitions"]] == [BEGIN // HOUR + 3] * 2

    producer = Producer({"bootstrap.servers": kafka})
    tick = json.dumps({"ldp_kafka": 1, "type": "tick", "time": (BEGIN + 8 * HOUR) * 1000})
    for partition in (0, 1):
        producer.produce(raw, tick, partition=partition)
        producer.produce(raw, b"{}", partition=partition)
    assert producer.flush(20) == 0
    found, code = comes_to(path, capsys, "current")
    assert code == 0
    end = time.monotonic() + PATIENCE
    while found["dead_letters"][0]["total"] < 2 and time.monotonic() < end:
        found, _ = status(path, capsys)
    [edge, _] = found["dead_letters"]
    assert [(each["reason"], each["number"]) for each in edge["reasons"]] == [("user", 2)]
