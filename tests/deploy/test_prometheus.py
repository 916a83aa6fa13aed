"""A real Prometheus accepts the rules and the configuration, and finds data for every panel."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from ldp_kafka.accounting import Guarantee
from ldp_kafka.metrics import Metrics, serve
from ldp_kafka.runtime.brokers.ports import free_port
from ldp_kafka.runtime.kafka.relayer import Shown
from tests import needs
from tests.metrics.test_families import output

ROOT = Path(__file__).parents[2]
DEPLOY, DOCKER = ROOT / "deploy", ROOT / "docker"
BOARD = json.loads((DOCKER / "grafana" / "dashboards" / "ldp-kafka.json").read_text())


PROGRAMS = "apt-get install prometheus"


@pytest.fixture(scope="session")
def promtool() -> str:
    return needs.program("promtool", how=PROGRAMS)


def check(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rules_are_valid(promtool):
    """Their syntax and their templates."""
    check(promtool, "check", "rules", str(DEPLOY / "alerts.yml"))


def test_the_configuration_is_valid(promtool):
    """In the checkout, and with its rules."""
    said = check(promtool, "check", "config", str(DOCKER / "prometheus.yml"))
    assert f"{len(alerts())} rules found" in said


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", (DEPLOY / "alerts.yml").read_text())


class Workers:
    """Three processes' worth of metrics, moved on by hand."""

    def __init__(self) -> None:
        guarantee = Guarantee("w-event", 1.0, 0.0, 10, 10, "values", "sound")
        self.all = self.perturb, self.curate, self.collect, self.coordinate = tuple(
            Metrics("meters", role, "lpa", setting="batch" if role == "curate" else "")
            for role in ("perturb", "curate", "collect", "coordinate")
        )
        for metrics in self.all:
            metrics.guarantee(guarantee)
            metrics.partitions(2)
        self.slot = 0

    def work(self) -> None:
        """One slot."""
        self.slot += 1
        counts = {
            "events": 600,
            "reports": 550,
            "silent": 10,
            "late": 5,
            "duplicates": 4,
            "refused": 3,
            "clamped": 2,
            "requests": 1,
            "requests_late": 1,
            "requests_refused": 1,
            "requests_forwarded": 1,
            "requests_dropped:repeated": 1,
            "dead_letters:not_json": 1,
            "relayed": 600,
            "relay_dropped": 1,
        }
        self.perturb.relay(Shown(5, 0.0))
        stands = {"watermark": time.time() * 1000, "reports_waiting": 40}
        self.perturb.count(output(counts | stands), self.slot % 2)
        self.perturb.spent(900_000, 1_000_000)
        counts = {
            "reports": 550,
            "repeated": 1,
            "partials": 2,
            "closed": self.slot,
            "dead_letters:range": 1,
        }
        self.collect.count(output(counts), self.slot % 2)
        self.curate.count(output({"windows": 4, "releases": 4, "open_slots": 3}))
        self.curate.window(60.0)
        counts = {
            "releases": 1,
            "publications": 1,
            "requests": 1,
            "unanswered": 1,
            "overdue": 1,
            "repeated": 0,
            "released": self.slot,
            "waiting": 2,
            "window_publications": 3,
            "dissimilarity": -0.25,
            "publication_error": 0.5,
        }
        self.coordinate.count(output(counts))
        self.coordinate.release(550, 0.05, 1.5)
        for metrics in self.all:
            metrics.step(0.002)
            metrics.snapshot(0.2, 10_000)
            metrics.lag(3)
            metrics.idle(0, 1.0)
            metrics.slots(60_000, 1)


@pytest.fixture
def workers() -> Iterator[tuple[Workers, list[int]]]:
    made = Workers()
    served = [serve(metrics, 0) for metrics in made.all]
    try:
        yield made, [port for port, _ in served]
    finally:
        for _, close in served:
            close()


@pytest.fixture
def prometheus(workers, tmp_path) -> Iterator[str]:
    """The address of a server that scrapes them every second, with our rules."""
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(DEPLOY / "alerts.yml")],
        "scrape_configs": [
            {
                "job_name": "ldp-kafka",
                "static_configs": [{"targets": [f"127.0.0.1:{each}" for each in workers[1]]}],
            }
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [
        needs.program("prometheus", how=PROGRAMS),
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 10
        while not ready(address):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ready(address: str) -> bool:
    try:
        with urlopen(f"{address}/-/ready", timeout=2) as answer:
            return answer.status == 200
    except (URLError, ConnectionError):
        return False


def ask(address: str, path: str, **parameters: str):
    with urlopen(f"{address}/api/v1/{path}?{urlencode(parameters)}", timeout=5) as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]


def has_data(address: str, query: str) -> bool:
    """Numbers, and not only that a series is there."""
    filled = query.replace("$topology", ".*").replace("$__rate_interval", "10s")
    assert "$" not in filled
    result = ask(address, "query", query=filled)["result"]
    return bool(result) and not any(math.isnan(float(each["value"][1])) for each in result)


def test_every_panel_shows_data(workers, prometheus):
    """Each query of the dashboard, the list of topologies, and every rule evaluates without an
    error.
    """
    pending = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in BOARD["panels"]
        for target in panel.get("targets", ())
    }
    assert len(pending) > 25
    end = time.monotonic() + 15
    while pending and time.monotonic() < end:
        workers[0].work()
        time.sleep(0.5)
        pending = {
            name: query for name, query in pending.items() if not has_data(prometheus, query)
        }
    assert not pending
    (variable,) = BOARD["templating"]["list"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()
    assert {each["metric"][label] for each in ask(prometheus, "query", query=metric)["result"]} == {
        "meters"
    }
    rules = [rule for group in ask(prometheus, "rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == set(alerts())
    assert {(rule["name"], rule["health"], rule.get("lastError", "")) for rule in rules} == {
        (name, "ok", "") for name in alerts()
    }
    assert {target["health"] for target in ask(prometheus, "targets")["activeTargets"]} == {"up"}
