"""The Helm chart, rendered: what a test gives it, and what comes of it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from ldp_kafka.topology.helm import helm_values
from tests import needs
from tests.deploy.code_blocks import ROOT

__all__ = [
    "CHART",
    "MINE",
    "OPEN",
    "SHIPPED",
    "by_kind",
    "helm",
    "leaves",
    "made",
    "program",
    "refused",
    "render",
    "shapes",
]

CHART = ROOT / "deploy" / "helm" / "ldp-kafka"
SHIPPED = sorted((ROOT / "topologies").glob("*.yaml"))
KUBERNETES = "1.31.0"  # a helm that is built from source believes in an old one
Manifest = dict[str, Any]

TWO = """\
topology: meters
kafka:
  edge:
    bootstrap_servers: ${EDGE_BROKERS}
    client:
      security.protocol: SASL_SSL
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: ${EDGE_USER}
      sasl.password: ${EDGE_PASSWORD}
      ssl.ca.location: /etc/ldp-kafka/edge/ca.pem
  collector:
    bootstrap_servers: far:9093
    client:
      security.protocol: SASL_SSL
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: ${COLLECTOR_USER:-statistics}
      sasl.password: ${COLLECTOR_PASSWORD}
input: {slot: 1h, partitions: 6}
privacy: {method: lpa, epsilon: 1.0, window: 10, domain: [0, 100]}
output: {statistics: [mean]}
edge: {key_file: "${LDP_KAFKA_EDGE_KEY_FILE}", budget_file: "${BUDGET}"}
"""
"""Two clusters with logins, a coordinator that asks, and a budget file."""

DEVICES = """\
topology: phones
kafka:
  edge: {bootstrap_servers: "far:9093", client: {sasl.username: phones}}
  collector: {bootstrap_servers: "far:9093", client: {sasl.username: us}}
input: {source: devices, slot: 1h}
privacy: {method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}
output: {statistics: [mean]}
"""

OPEN = {
    side: {
        "brokers": [{"ipBlock": {"cidr": f"10.{number}.0.0/24"}}],
        "ports": [9093],
        "prometheus": [{"podSelector": {"matchLabels": {"app": f"{side}-prometheus"}}}],
    }
    for number, side in enumerate(("edge", "collector"), 1)
}
MINE: dict[str, Any] = {
    "edge": {"key": {"secret": "edge-key"}, "budget": {"secret": "edge-budget"}},
    "networkPolicy": OPEN,
}
"""What whoever installs it says of any topology."""
ONE_BLOCK = {"kafka": {"env": {"LDP_KAFKA_BOOTSTRAP": "kafka:9092"}}}
TWO_BLOCKS = {
    "kafka": {
        "edge": {
            "secret": "edge-login",
            "keys": {"EDGE_PASSWORD": "password"},
            "env": {"EDGE_BROKERS": "near:9093"},
            "files": "edge-tls",
        },
        "collector": {"secret": "collector-login"},
    }
}


def program() -> str:
    """A Helm: the one that ``LDP_KAFKA_HELM`` names, once whoever builds it is done, or that of
    this machine. Skips where there is none.
    """
    wanted = os.environ.get("LDP_KAFKA_HELM")
    if wanted is None:
        how = "go install helm.sh/helm/v3/cmd/helm@latest"
        return needs.program("helm", how=how, required=False)
    path = Path(wanted)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name("lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever builds it holds it
    if not path.exists():
        log = path.with_name("log")
        why = log.read_text().strip().rpartition("\n")[2] if log.exists() else "nobody built it"
        needs.lacking("helm", f"none at {path}: {why}", required=False)
    return wanted


def shapes(*names: str) -> list[Any]:
    """Topologies of every kind, as (name, text): shipped ones that release users' series, ask their
    users, have a curator, or leave a topic's name to a variable; two clusters; devices.
    """
    texts = {path.stem: path.read_text() for path in SHIPPED} | {"two": TWO, "devices": DEVICES}
    kinds = ("air-quality", "phone-networks", "shop-sales", "foreign-json", "two", "devices")
    return [pytest.param((name, texts[name]), id=name) for name in names or kinds]


def helm(*command: str, values: list[dict[str, Any]], chart: Path = CHART) -> tuple[int, str, str]:
    """Run a command of Helm's on the chart; its code, what it prints, and what it complains of."""
    with tempfile.TemporaryDirectory() as folder:
        words = [program(), command[0], *command[1:], str(chart), "--kube-version", KUBERNETES]
        for number, each in enumerate(values):
            file = Path(folder) / f"{number}.json"
            file.write_text(json.dumps(each))
            words += ["-f", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def made(shape: tuple[str, str], folder: Path) -> list[dict[str, Any]]:
    """What ``helm-values`` makes of it, and what an installer says of it beside `MINE`."""
    name, text = shape
    (folder / f"{name}.yaml").write_text(text)
    found = helm_values(folder / f"{name}.yaml")
    own = {"two": TWO_BLOCKS, "devices": {}}.get(name, ONE_BLOCK)
    return [found, MINE, own]


def render(
    shape: tuple[str, str], folder: Path, *more: dict[str, Any], chart: Path = CHART
) -> list[Manifest]:
    """The manifests of a topology."""
    code, said, wrong = helm("template", "here", values=[*made(shape, folder), *more], chart=chart)
    assert code == 0, wrong
    # as Kubernetes reads it: YAML 1.1 beside 1.2
    yaml = YAML(typ="safe")
    return [each for each in yaml.load_all(said) if each]


def refused(shape: tuple[str, str], folder: Path, *more: dict[str, Any]) -> str:
    """What Helm says where it makes nothing of it."""
    code, said, wrong = helm("template", "here", values=[*made(shape, folder), *more])
    assert code != 0, said
    return wrong


def by_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Those of a kind, by the role that they are of, or by their own name."""
    return {
        each["metadata"]["labels"].get(
            "app.kubernetes.io/component", each["metadata"]["name"]
        ): each
        for each in manifests
        if each["kind"] == kind
    }


def leaves(value: Any) -> Iterator[Any]:
    """Every single value in it."""
    if isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    else:
        yield value
