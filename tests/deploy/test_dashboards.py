"""What deploy/ and docker/ say is true of the metrics, of each other, and of who holds the key."""

from __future__ import annotations

import functools
import json
import os
import re
import runpy
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ldp_kafka.cli import cli
from ldp_kafka.metrics import NAMES, Metrics
from ldp_kafka.topology import load
from ldp_kafka.topology.roles import ROLES
from tests.cases import cases
from tests.metrics.test_families import OWN_LABELS

ROOT = Path(__file__).parents[2]
DEPLOY, DOCKER = ROOT / "deploy", ROOT / "docker"
BOARD = DOCKER / "grafana" / "dashboards" / "ldp-kafka.json"
WORD = re.compile(r"\bldp_(?!kafka\b)[a-z_]*[a-z]")


def text_files() -> list[Path]:
    return [
        path
        for folder in (DEPLOY, DOCKER)
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in {".md", ".yml", ".yaml", ".py", ".json"}
    ]


def parsed(path: Path):
    return YAML(typ="safe").load(path.read_text())


@functools.cache
def histograms() -> set[str]:
    return {
        family.name
        for role in ("perturb", "collect")
        for family in Metrics("t", role, "m").registry.collect()
        if family.type == "histogram"
    }


def series() -> set[str]:
    """Every series name that a query may use."""
    return {name for name in NAMES if name not in histograms()} | {
        name + suffix for name in histograms() for suffix in ("_bucket", "_sum", "_count")
    }


def panel_queries() -> dict[str, str]:
    """Panel's title and reference, and its query."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in json.loads(BOARD.read_text())["panels"]
        for target in panel.get("targets", ())
    }


def alert_queries() -> dict[str, str]:
    return {
        rule["alert"]: rule["expr"]
        for group in parsed(DEPLOY / "alerts.yml")["groups"]
        for rule in group["rules"]
    }


def test_every_metric_that_is_named_exists():
    """Also in prose and in the generator, where a histogram may stand without its suffix."""
    for path in text_files():
        unknown = set(WORD.findall(path.read_text())) - series() - NAMES.keys()
        assert not unknown, path


@cases(
    "query",
    [
        *panel_queries().values(),
        *alert_queries().values(),
        "label_values(ldp_guarantee_info, topology)",
    ],
)
def test_queries_use_series_that_are_exported(query):
    """Histograms with their suffix, counters with theirs; counters under rate or increase; labels
    that exist.
    """
    names = set(WORD.findall(query))
    assert names <= series()
    assert names or query.startswith("up{")
    for name in names:
        if name.endswith(("_total", "_bucket")):
            assert re.search(rf"(rate|increase)\({name}\b", query)
    labels = set(re.findall(r"([a-z_]+)(?:=~|!=|=)\"", query)) | {
        label.strip()
        for group in re.findall(r"by \(([^)]*)\)", query)
        for label in group.split(",")
    }
    assert labels <= OWN_LABELS | {"job"}


def test_every_metric_is_looked_at():
    """By a panel or an alert: one that nobody looks at has no reason to be."""
    seen = set(WORD.findall(" ".join([*panel_queries().values(), *alert_queries().values()])))
    assert {
        name
        for name in NAMES
        if not any(word == name or word.startswith(name + "_") for word in seen)
    } == set()


def test_what_must_be_alerted_is():
    """Each with a severity and a text that uses labels which its expression keeps."""
    rules = {
        rule["alert"]: rule
        for group in parsed(DEPLOY / "alerts.yml")["groups"]
        for rule in group["rules"]
    }
    assert rules.keys() >= {
        "LdpRefused",
        "LdpDeadLetters",
        "LdpWatermarkStuck",
        "LdpCalibrationNotSound",
        "LdpLag",
        "LdpPartitionIdle",
    }
    for rule in rules.values():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        used = set(re.findall(r"\$labels\.([a-z_]+)", " ".join(rule["annotations"].values())))
        kept = re.search(r"by \(([^)]*)\)", rule["expr"])
        assert used <= (set(kept[1].split(", ")) if kept else OWN_LABELS | {"instance"})


def test_the_dashboard_is_up_to_date():
    """The JSON is what its generator makes."""
    assert runpy.run_path(str(DEPLOY / "dashboard.py"))["build"]() == BOARD.read_text(), (
        "run: python deploy/dashboard.py"
    )


def test_the_dashboard_is_whole():
    """Every panel has a title, words and the provisioned source; none overlaps another."""
    board = json.loads(BOARD.read_text())
    (source,) = parsed(DOCKER / "grafana" / "provisioning" / "datasources" / "prometheus.yml")[
        "datasources"
    ]
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert taken.isdisjoint(cells), panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"]
            assert panel["datasource"] == {"type": source["type"], "uid": source["uid"]}
            assert panel["targets"]


@pytest.fixture
def services():
    return parsed(DOCKER / "compose.yaml")["services"]


def test_compose_has_its_services(services):
    """The roles in containers of their own, all that its default topology has, topics made before
    any of them starts.
    """
    assert services.keys() == {"kafka", "topics", *ROLES, "prometheus", "grafana"}
    assert services["kafka"]["image"] == "apache/kafka:4.3.1"
    for role in ROLES:
        command = services[role]["command"]
        assert command[command.index("--role") + 1] == role
        shipped = re.sub(r"^/|\$\{LDP_KAFKA_TOPOLOGY:-|\}", "", command[1])
        assert role in {one.name for one in load(ROOT / shipped).roles}
        assert services[role]["depends_on"]["topics"] == {
            "condition": "service_completed_successfully"
        }
    assert services["topics"]["command"][0] == "topics"
    assert services["topics"]["restart"] == "no"
    assert services["topics"]["depends_on"]["kafka"] == {"condition": "service_healthy"}
    assert "healthcheck" in services["kafka"]


def test_the_command_line_takes_what_compose_says(services):
    """Commands and options as they are spelt there."""
    for role in ("topics", *ROLES):
        name, topology, *options = services[role]["command"]
        topology = re.sub(r"\$\{LDP_KAFKA_TOPOLOGY:-([\w-]+)\}", r"\1", topology).replace(
            "/topologies", str(ROOT / "topologies")
        )
        context = cli.commands[name].make_context(name, [topology, *options])
        assert context.params.get("role", "topics") == role


def test_the_key_is_at_perturb_alone(services):
    """Mounted as a secret; no other container has it, none has it in its environment, and it cannot
    get into the image.
    """
    assert [name for name, service in services.items() if "secrets" in service] == [
        "perturb",
        "curate",
    ]
    assert services["perturb"]["secrets"] == services["curate"]["secrets"] == ["edge_key"]
    for service in services.values():
        assert "LDP_KAFKA_EDGE_KEY" not in service.get("environment", {})
        assert "env_file" not in service
        assert not any("key" in volume for volume in service.get("volumes", ()))
    assert services["perturb"]["environment"]["LDP_KAFKA_EDGE_KEY_FILE"] == "/run/secrets/edge_key"
    assert "**/*.key" in (DOCKER / "Dockerfile.dockerignore").read_text().split()


def test_nothing_runs_as_root(services):
    """The image has its own user; where compose sets another, its default is no root either, and no
    container can become one.
    """
    users = re.findall(r"^USER (\S+)", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["10001:10001"]
    for name, service in services.items():
        assert not re.match(r"(\$\{\w+:-)?(0|root)\b", service.get("user", "1")), name
        assert "privileged" not in service
    for name in ("topics", *ROLES):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]


def test_ports_are_published_on_loopback_only(services):
    """And the metrics of the roles not at all: Prometheus reaches them inside."""
    for name, service in services.items():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name
    assert not any("ports" in services[role] for role in ROLES)


def test_prometheus_scrapes_the_ports_that_the_roles_bind(services):
    """One number in as many places."""
    (job,) = parsed(DOCKER / "prometheus.yml")["scrape_configs"]
    (where,) = job["dns_sd_configs"]
    assert where["names"] == list(ROLES)
    port = str(where["port"])
    for role in where["names"]:
        command = services[role]["command"]
        assert command[command.index("--metrics-port") + 1] == port
        assert command[command.index("--metrics-host") + 1] == "0.0.0.0"
        assert services[role]["environment"]["LDP_KAFKA_METRICS_PORT"] == port
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert f"LDP_KAFKA_METRICS_PORT={port}" in dockerfile
    assert f"EXPOSE {port}" in dockerfile
    assert f'job="{job["job_name"]}"' in alert_queries()["LdpWorkerDown"]


def test_compose_mounts_the_rules_where_prometheus_looks(services):
    """Beside its configuration as in the checkout: one path leads to them in both."""
    mounts = dict(volume.split(":")[:2] for volume in services["prometheus"]["volumes"])
    (rules,) = parsed(DOCKER / "prometheus.yml")["rule_files"]
    inside = Path(mounts["./prometheus.yml"]).parent / rules
    assert os.path.normpath(inside) == mounts["../deploy/alerts.yml"]


def test_images_are_pinned(services):
    """To a version of three numbers; the Python is the project's oldest."""
    dockerfile = (DOCKER / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", bases[0])
    for word in ('ENTRYPOINT ["ldp-kafka"]', "HEALTHCHECK", "'/live'", '".[kafka]"'):
        assert word in dockerfile
    for name, service in services.items():
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name


def test_what_compose_and_the_image_take_from_the_checkout_exists(services):
    """Mounts, the topology that runs by default, and what the image is built from."""
    mounts = [
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    ]
    assert mounts
    for mount in mounts:
        assert (DOCKER / mount).exists(), mount
    for role in ("topics", *ROLES):
        default = re.search(
            r"\$\{LDP_KAFKA_TOPOLOGY:-([\w-]+)\}\.yaml$", services[role]["command"][1]
        )[1]
        assert (ROOT / "topologies" / f"{default}.yaml").exists()
    for copied in re.findall(
        r"^COPY (?!--)(.+) \S+$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE
    ):
        for name in copied.split():
            assert (ROOT / name).exists(), name
            assert f"!{name}" in (DOCKER / "Dockerfile.dockerignore").read_text().split()


def test_provisioning_leads_to_the_dashboard(services):
    """Grafana looks where compose mounts it."""
    (provider,) = parsed(DOCKER / "grafana" / "provisioning" / "dashboards" / "ldp-kafka.yml")[
        "providers"
    ]
    mounts = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    assert (
        services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        == f"{provider['options']['path']}/{BOARD.name}"
    )
