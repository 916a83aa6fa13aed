"""A worker that is told to end while it writes a snapshot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import admin
from tests.broker.flow import SLOT, START, Flow

SLOWLY = """
import asyncio, sys
from pathlib import Path
from ldp_kafka.runtime.worker.agent import Changelog

put, begun = Changelog.put, Path(sys.argv.pop(1))

async def slowly(self, *record):
    begun.touch()
    await asyncio.sleep(0.4)
    await put(self, *record)

Changelog.put = slowly
from ldp_kafka.cli import main
sys.exit(main())
"""


@pytest.fixture
def flow(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with EmbeddedBroker() as broker:
        made = Flow(
            broker.bootstrap_servers, tmp_path, "ending", statistics="mean", embedded=broker
        )
        yield made
        made.close()


def test_a_snapshot_that_is_being_written_is_finished(flow, tmp_path):
    """SIGTERM at its first record: the worker ends with 0, and what the snapshot has is
    acknowledged.
    """
    begun = tmp_path / "begun"
    words = [sys.executable, "-c", SLOWLY, str(begun), "run", str(flow.path), "--role", "perturb"]
    root = Path(__file__).parents[3]
    worker = subprocess.Popen(words, stdout=flow.log, stderr=flow.log, cwd=root)
    flow.workers.append(("perturb", worker))
    for user in range(20):
        event = {"user": f"u{user}", "value": 1.0, "time": START * SLOT}
        flow.put(0, json.dumps(event).encode())
    flow.producer.flush(10)
    until = time.monotonic() + 60
    while not begun.exists() and worker.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    worker.send_signal(signal.SIGTERM)
    code = worker.wait(30)
    assert code == 0, flow.log_path.read_text()
    assert begun.exists()
    config = {"bootstrap.servers": flow.boot}
    group, topic = flow.topology.group("perturb"), flow.topology.raw_topic
    assert admin.lag(config, group, topic, [0]) == {0: 0}
