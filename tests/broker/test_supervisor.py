"""`ldp-kafka run` without a role: a parent and one child a role."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.broker.flow import Flow
from tests.broker.watching import alive, until
from tests.keys import KEY


@pytest.fixture
def flow(kafka, tmp_path, prefix):
    made = Flow(kafka, tmp_path, prefix, statistics="mean")
    rnd = random.Random(1)
    for t in range(8):
        made.slot(rnd, t, 60)
    made.finish(8)
    yield made
    made.close()


def run(flow: Flow, *words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "ldp_kafka", "run", str(flow.path), *words],
        stdout=flow.log,
        stderr=flow.log,
    )


def children(pid: int) -> dict[str, int]:
    """{role: pid} of a parent's children."""
    found = {}
    for child in subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split():
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            continue
        if b"--role" in words:
            found[words[words.index(b"--role") + 1].decode()] = int(child)
    return found


def test_it_ends_when_idle_and_everything_is_released(flow):
    parent = run(flow, "--until-idle", "4s")
    assert parent.wait(90) == 0, flow.log_path.read_text()[-1500:]
    verdict = flow.judge(flow.expected())
    assert verdict.clean, verdict
    assert verdict.releases >= 8


def test_a_killed_child_is_started_again_and_sigterm_ends_all(flow):
    parent = run(flow)
    first = until(lambda: (found := children(parent.pid)) and len(found) == 2 and found)
    time.sleep(3)
    os.kill(first["perturb"], signal.SIGKILL)
    second = until(
        lambda: (
            (found := children(parent.pid))
            and found.get("perturb", first["perturb"]) != first["perturb"]
            and len(found) == 2
            and found
        )
    )
    expected = flow.expected()
    flow.wait(expected)
    assert flow.judge(expected).clean
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(30) == 0
    assert not alive(second["perturb"])
    assert not alive(second["collect"])
    assert "Traceback" not in flow.log_path.read_text()


def scraped(port: int) -> float | None:
    """When the process began that answers at this port; None where none does."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    return float(re.search(r"^ldp_start_timestamp_seconds{.*} (\S+)$", text, re.MULTILINE)[1])


def test_a_role_alone_is_kept_at_its_port(flow):
    """Killed, it is started again, and its metrics answer where they did: Prometheus' target goes
    on. The parent says the address once, and passes SIGTERM on.
    """
    parent = run(flow, "--role", "perturb", "--restart", "--metrics-port", "0", "-v")
    until(lambda: "metrics at http" in flow.log_path.read_text())
    port = int(re.search(r"metrics at http://127\.0\.0\.1:(\d+)/", flow.log_path.read_text())[1])
    said, begun = flow.log_path.read_text, until(lambda: scraped(port))
    for count in (1, 2):
        os.kill(children(parent.pid)["perturb"], signal.SIGKILL)
        begun, before = until(lambda at=begun: (found := scraped(port)) != at and found), begun
        assert begun > before
        assert re.search(rf" restart code=-9 seconds=\S+ count={count}\n", said())
    until(lambda: " ready " in said().rpartition(" restart ")[2])
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(30) == 0
    assert said().count("metrics at") == 1
    assert said().count(" end code=0: told to end") == 2  # the worker's, and the parent's
    assert scraped(port) is None


def test_children_die_with_their_parent(flow):
    parent = run(flow)
    found = until(lambda: (found := children(parent.pid)) and len(found) == 2 and found)
    time.sleep(3)
    parent.kill()
    parent.wait()
    until(lambda: not any(alive(pid) for pid in found.values()), 10)


def test_a_changed_topology_refuses_the_old_state(flow):
    """The worker halts with a message that says what changed; nothing is folded."""
    parent = run(flow, "--until-idle", "3s")
    assert parent.wait(90) == 0
    flow.path.write_text(flow.path.read_text().replace("epsilon: 4.0", "epsilon: 3.0"))
    changed = subprocess.run(
        [sys.executable, "-m", "ldp_kafka", "run", str(flow.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert changed.returncode == 2
    assert "privacy" in changed.stderr
    assert "Traceback" not in changed.stderr


def test_it_hosts_the_embedded_broker_that_nobody_else_hosts(tmp_path, prefix):
    """As the README's steps go: a key, a topology with the default broker, run."""
    key = tmp_path / "edge.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    path = tmp_path / "t.yaml"
    path.write_text(
        f"topology: {prefix}\nkafka: {{bootstrap_servers: embedded}}\ninput: {{slot: 1s,"
        " partitions: 2}\nprivacy: {method: sw_direct, epsilon: 1.0, window: 2, domain: [0,"
        f" 1]}}\noutput: {{statistics: [mean]}}\nedge: {{key_file: {key}}}\nruntime:"
        " {session_timeout: 2s}\n"
    )
    words = [sys.executable, "-m", "ldp_kafka", "run", str(path), "--until-idle", "2s"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    assert "embedded broker: 127.0.0.1:" in done.stdout
