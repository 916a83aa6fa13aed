"""The Helm chart: what it renders is what Kubernetes takes, and says what the roles of a topology
need.
"""

from __future__ import annotations

import copy
import json
import re

import kubernetes_validate
import pytest
from cloudcoil.models.keda import v1alpha1 as keda
from cloudcoil.models.prometheus_operator import v1 as prometheus
from pydantic import ValidationError
from ruamel.yaml import YAML

from ldp_kafka.cli import cli
from ldp_kafka.runtime.worker import health_rules
from ldp_kafka.topology import loads
from ldp_kafka.version import __version__
from tests.deploy.chart import CHART, SHIPPED, by_kind, helm, made, program, render, shapes
from tests.deploy.code_blocks import ROOT, blocks

MODELS = {
    "ScaledObject": keda.ScaledObject,
    "PodMonitor": prometheus.PodMonitor,
    "PrometheusRule": prometheus.PrometheusRule,
}
ABOUT = YAML(typ="safe").load((CHART / "Chart.yaml").read_text())
OLDEST = re.fullmatch(r">=(\d+\.\d+)\.0-0", ABOUT["kubeVersion"])[1]
ALERTS = (ROOT / "deploy" / "alerts.yml").read_text()
ALL = {
    "workers": {
        "autoscaling": {"enabled": True, "lagThreshold": 1_000_000, "authentication": "here"},
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        "env": {"HTTPS_PROXY": "http://proxy:3128"},
        "verbose": True,
        "podLabels": {"team": "meters"},
        "podAnnotations": {"note": "x"},
        "nodeSelector": {"side": "edge"},
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [],
        "priorityClassName": "high",
    },
    "image": {"pullSecrets": ["registry"]},
    "metrics": {"scrapeAnnotations": True},
    "podMonitor": {"enabled": True, "interval": "15s"},
    "prometheusRule": {"rules": ALERTS, "labels": {"prometheus": "edge"}},
    "serviceAccounts": {"edge": {"annotations": {"a": "b"}}, "collector": {"name": "us"}},
    "networkPolicy": {
        "edge": {"more": [{"to": [{"ipBlock": {"cidr": "10.3.0.0/24"}}], "ports": [{"port": 443}]}]}
    },
    "topics": {
        "enabled": True,
        "login": {"secret": "admin"},
        "serviceAccount": "admin",
        "acls": {"enabled": True, "edge": "User:meters", "collector": "User:CN=us,O=House"},
    },
}
"""Everything that is off, or empty."""


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    program()
    for name in ("LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_FOREIGN_TOPIC", "LDP_KAFKA_EDGE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


def check(manifest):
    """By the schemas of the oldest and of the newest Kubernetes that are known, or by the model of
    an operator's resource; a field that they do not know is a mistake.
    """
    model = MODELS.get(manifest["kind"])
    if model is None:
        for version in (OLDEST, kubernetes_validate.latest_version()):
            kubernetes_validate.validate(manifest, version, strict=True)
        return
    known = model.model_validate(manifest).model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    assert json.dumps(known, sort_keys=True) == json.dumps(manifest, sort_keys=True)


@pytest.mark.parametrize("shape", shapes(*(path.stem for path in SHIPPED)))
def test_kubernetes_takes_every_shipped_topology(shape, tmp_path):
    for manifest in render(shape, tmp_path):
        check(manifest)


@pytest.mark.parametrize("shape", shapes())
def test_kubernetes_takes_it(shape, tmp_path):
    """As it is by default, and with everything on; and Helm has nothing to say about it."""
    for more in ({}, ALL):
        code, said, wrong = helm("lint", "--strict", values=[*made(shape, tmp_path), more])
        assert code == 0, said + wrong
        assert re.findall(r"\[(?:WARNING|ERROR)\].*", said) == []
        manifests = render(shape, tmp_path, more)
        for manifest in manifests:
            check(manifest)
        places = [(each["kind"], each["metadata"]["name"]) for each in manifests]
        assert len(set(places)) == len(places)
    assert {each["kind"] for each in manifests} == {
        *("ConfigMap", "Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor"),
        *("PrometheusRule", "ScaledObject", "ServiceAccount"),
    }


@pytest.mark.parametrize("shape", shapes("phone-networks"))
def test_the_check_has_teeth(shape, tmp_path):
    """One word too many, one type wrong, one thing left out: of each kind."""
    for manifest in render(shape, tmp_path, ALL):
        for place in ((), ("metadata",), ("spec",)):
            if not place or place[0] in manifest:
                wrong = copy.deepcopy(manifest)
                (wrong[place[0]] if place else wrong)["nonsense"] = "x"
                with pytest.raises((kubernetes_validate.ValidationError, AssertionError)):
                    check(wrong)
        wrong = copy.deepcopy(manifest)
        wrong["metadata"]["labels"] = "text"
        with pytest.raises((kubernetes_validate.ValidationError, ValidationError)):
            check(wrong)


@pytest.mark.parametrize("shape", shapes())
def test_each_role_has_what_it_needs(shape, tmp_path):
    """A Deployment, a budget for disruptions and a policy of the network each, over its own pods
    and no others; no role else.
    """
    topology, manifests = loads(shape[1]), render(shape, tmp_path)
    roles = [role.name for role in topology.roles]
    for kind in ("Deployment", "PodDisruptionBudget", "NetworkPolicy"):
        assert sorted(by_kind(manifests, kind)) == sorted(roles)
    pods = {
        name: each["spec"]["template"]["metadata"]["labels"]
        for name, each in by_kind(manifests, "Deployment").items()
    }
    for kind, key in (
        ("Deployment", "selector"),
        ("PodDisruptionBudget", "selector"),
        ("NetworkPolicy", "podSelector"),
    ):
        for name, each in by_kind(manifests, kind).items():
            wanted = each["spec"][key]["matchLabels"].items()
            assert [role for role, labels in pods.items() if wanted <= labels.items()] == [name]


@pytest.mark.parametrize("shape", shapes())
def test_a_worker_is_started_and_ended_as_it_needs(shape, tmp_path):
    """Its command is one of ours; probes are those of deploy/README.md; it has the time for ending
    in order.
    """
    [yaml] = [
        each.text
        for each in blocks(ROOT / "deploy" / "README.md")
        if each.language == "yaml" and "Probe: " in each.text
    ]
    probes = YAML(typ="safe").load(yaml)
    for role, each in by_kind(render(shape, tmp_path), "Deployment").items():
        pod = each["spec"]["template"]["spec"]
        [worker] = pod["containers"]
        command, *words = worker["args"]
        found = cli.commands[command].make_context(command, words).params
        assert (found["role"], found["log_format"], found["until_idle"]) == (role, "json", None)
        [port] = worker["ports"]
        assert (found["metrics_host"], found["metrics_port"]) == ("0.0.0.0", port["containerPort"])
        own = {name: worker[name] for name in probes}
        for probe in own.values():
            assert probe["httpGet"]["port"] == port["name"]
            probe["httpGet"]["port"] = port["containerPort"]
        assert own == probes
        # a snapshot may come just before the bound, and then all of it counts anew
        longest = 2 * health_rules.LEAVE + health_rules.GOODBYE
        assert longest < pod["terminationGracePeriodSeconds"] < 2 * longest


@pytest.mark.parametrize("shape", shapes())
def test_what_is_mounted_is_there(shape, tmp_path):
    """Each mount of a container is of a volume of its pod, and each volume is mounted."""
    manifests = render(shape, tmp_path, {"topics": ALL["topics"]})
    works = [*by_kind(manifests, "Deployment").values(), *by_kind(manifests, "Job").values()]
    for pod in (each["spec"]["template"]["spec"] for each in works):
        volumes = [each["name"] for each in pod["volumes"]]
        for container in pod["containers"] + pod.get("initContainers", []):
            assert sorted(each["name"] for each in container["volumeMounts"]) == sorted(volumes)


@pytest.mark.parametrize("shape", shapes("phone-networks"))
def test_pods_may_do_little(shape, tmp_path):
    """No root, no token, nothing to write to but /tmp; the Job for topics is held as short."""
    manifests = render(shape, tmp_path, ALL)
    for account in by_kind(manifests, "ServiceAccount").values():
        assert account["automountServiceAccountToken"] is False
    works = [*by_kind(manifests, "Deployment").values(), *by_kind(manifests, "Job").values()]
    for pod in (each["spec"]["template"]["spec"] for each in works):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"] + pod.get("initContainers", []):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            writable = {m["name"] for m in container["volumeMounts"] if not m.get("readOnly")}
            assert writable == {"tmp"}
        assert {"name": "tmp", "emptyDir": {}} in pod["volumes"]


def test_the_chart_is_of_this_version(tmp_path):
    """And so is the image that it runs."""
    assert ABOUT["appVersion"] == ABOUT["version"] == __version__
    [shape] = shapes()[0].values
    for each in by_kind(render(shape, tmp_path), "Deployment").values():
        [worker] = each["spec"]["template"]["spec"]["containers"]
        assert worker["image"] == f"ldp-kafka:{__version__}"


@pytest.mark.parametrize("shape", shapes("phone-networks"))
def test_prometheus_finds_workers_as_the_alerts_know_them(shape, tmp_path):
    """By the job's name; a monitor a side, over that side's pods; and the rules are ours."""
    manifests = render(shape, tmp_path, ALL)
    pods = {
        role: each["spec"]["template"]["metadata"]["labels"]
        for role, each in by_kind(manifests, "Deployment").items()
    }
    sides = {role.name: role.side for role in loads(shape[1]).roles}
    for monitor in by_kind(manifests, "PodMonitor").values():
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        [job] = [each for each in endpoint["relabelings"] if each["targetLabel"] == "job"]
        assert f'job="{job["replacement"]}"' in ALERTS
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        found = {role for role, labels in pods.items() if wanted <= labels.items()}
        side = monitor["metadata"]["labels"]["ldp-kafka/side"]
        assert found == {role for role in sides if sides[role] == side} != set()
    [rule] = by_kind(manifests, "PrometheusRule").values()
    assert rule["spec"] == YAML(typ="safe").load(ALERTS)
