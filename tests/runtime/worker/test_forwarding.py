"""A worker of the perturb role forwards requests beside its agents, and ends with what it forwards
in order.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.watch import Watch
from tests.broker.flow import Flow
from tests.broker.requests import PARTITIONS, TEXT, ask, asked, waiting
from tests.broker.watching import until

RUN = """
import sys
from ldp_kafka.cli import main
sys.exit(main())
"""


@pytest.fixture
def flow(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with EmbeddedBroker() as broker:
        made = Flow(
            broker.bootstrap_servers, tmp_path, "asks", text=TEXT, session="2s", embedded=broker
        )
        yield made
        made.close()


def start(flow: Flow, *words: str, before: str = "") -> subprocess.Popen:
    command = [
        sys.executable,
        "-c",
        before + RUN,
        "run",
        str(flow.path),
        "--role",
        "perturb",
        *words,
    ]
    root = Path(__file__).parents[3]
    worker = subprocess.Popen(command, stdout=flow.log, stderr=flow.log, cwd=root)
    flow.workers.append(("perturb", worker))
    return worker


def test_a_worker_forwards_and_ends_in_order(flow):
    """Told to, it exits with 0 and has committed; its metrics have counted."""
    config = {"bootstrap.servers": flow.boot, "log_level": 0}
    worker = start(flow)
    ask(flow.topology, config, 1, 2, 2, 3)
    until(lambda: asked(flow.topology, config) == [[1, 2, 3]] * PARTITIONS, 60)
    begin = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0, flow.log_path.read_text()
    assert time.monotonic() - begin < 10
    assert waiting(flow.topology, config) == 0
    ask(flow.topology, config, 4, 5)
    other = start(flow, "--until-idle", "2s")
    assert other.wait(60) == 0, flow.log_path.read_text()
    assert asked(flow.topology, config) == [[1, 2, 3, 4, 5]] * PARTITIONS
    assert waiting(flow.topology, config) == 0


def test_a_worker_that_cannot_forward_ends(flow):
    """With the reason; another start may help where a broker did not do what it should."""
    code = """
from confluent_kafka import KafkaError, KafkaException
from ldp_kafka.runtime.kafka import forwarder
class Refusing(forwarder.Consumer):
    def poll(self, timeout):
        raise KafkaException(KafkaError(KafkaError.{}))
forwarder.Consumer = Refusing
"""
    for name, ends, says in (
        ("GROUP_AUTHORIZATION_FAILED", 2, "may not READ group asks-forward"),
        ("UNKNOWN_TOPIC_OR_PART", 75, "requests cannot be forwarded"),
    ):
        assert start(flow, before=code.format(name)).wait(60) == ends
        assert says in flow.log_path.read_text()


class Offsets:
    """What a broker says of a group, in the order in which it is asked."""

    def __init__(self, waiting, lag):
        self.asked, self.values = [], {"waiting": waiting, "lag": lag}

    def waiting(self):
        self.asked.append("waiting")
        return self.values["waiting"]

    def lag(self, assigned):
        self.asked.append("lag")
        return dict.fromkeys(assigned, self.values["lag"])


@pytest.mark.parametrize(("waits", "lag", "ends"), [(0, 0, True), (1, 0, False), (0, 1, False)])
@pytest.mark.parametrize("until_idle", [0.0, None])
def test_a_worker_does_not_end_while_requests_wait(waits, lag, ends, until_idle):
    """They are asked for first: what is forwarded after that is then in the raw log. A worker that
    does not end by itself asks for none.
    """
    offsets, stopped = Offsets(waits, lag), []

    async def stop(reason):
        stopped.append(reason)

    health = Health()
    health.until_idle, health.stop = until_idle, stop
    metrics = SimpleNamespace(partitions=lambda _: None, idle=lambda *_: None)
    watch = Watch(
        [],
        lambda: {("t.raw", 0)},
        offsets,
        metrics,
        None,
        idle_ms=None,
        health=health,
    )

    async def look():
        health.beat()
        for _ in range(2):
            await watch.look()
            health.look()
        await asyncio.sleep(0.01)

    asyncio.run(look())
    assert bool(stopped) == (ends and until_idle is not None)
    begins = ["waiting", "lag"] if until_idle is not None else ["lag"]
    assert offsets.asked[: len(begins)] == begins
    assert ("waiting" in offsets.asked) == (until_idle is not None)
