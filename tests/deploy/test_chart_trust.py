"""The trust line in Kubernetes: what pods of each side are given, and whom they reach; and that no
secret is ever in a manifest.
"""

from __future__ import annotations

from pathlib import PurePosixPath as PodPath

import pytest

from ldp_kafka.topology import loads, unset
from ldp_kafka.topology.budget_file import load_edge
from ldp_kafka.topology.roles import COLLECTOR, EDGE, ROLES
from tests.deploy.chart import OPEN, by_kind, leaves, made, program, refused, render, shapes

PASSWORDS = {"EDGE_PASSWORD": "s3cret-77", "COLLECTOR_PASSWORD": "s3cret-88"}
TWO = shapes("two")[0].values[0]
BUDGET = """\
edge: m
raw_topic: meters.raw
limit: {epsilon: 3, window: 3h}
admits: [{topology: two.yaml}]
"""
TOPICS = {"topics": {"enabled": True, "login": {"secret": "admin"}}}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    """Of this machine; but passwords are there, as where somebody runs roles by hand."""
    program()
    for name in ("LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_FOREIGN_TOPIC", "LDP_KAFKA_EDGE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, secret in PASSWORDS.items():
        monkeypatch.setenv(name, secret)


def pods(manifests):
    """The pods of each role, and of the Job."""
    return {
        name: each["spec"]["template"]["spec"]
        for kind in ("Deployment", "Job")
        for name, each in by_kind(manifests, kind).items()
    }


def secrets(pod):
    """The Secrets that a pod refers to in any way."""
    found = set()

    def look(value):
        if isinstance(value, dict):
            if "secretKeyRef" in value:
                found.add(value["secretKeyRef"]["name"])
            if "secretRef" in value:
                found.add(value["secretRef"]["name"])
            if "secretName" in value:
                found.add(value["secretName"])
            if "sources" in value:
                found.update(
                    each["secret"]["name"] for each in value["sources"] if "secret" in each
                )
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)

    look(pod)
    return found


def test_who_has_which_secret(tmp_path):
    """The edge's key, budget file, login and certificates are the edge's alone, by whatever way a
    pod could be given them.
    """
    edge = {"edge-key", "edge-budget", "edge-login", "edge-tls"}
    found = {name: secrets(pod) for name, pod in pods(render(TWO, tmp_path, TOPICS)).items()}
    assert found == {
        "perturb": {*edge, "collector-login"},
        "collect": {"collector-login"},
        "coordinate": {"collector-login"},
        "topics": {"edge-login", "edge-tls", "collector-login", "admin"},
    }
    for name, pod in pods(render(TWO, tmp_path)).items():
        words = {str(each) for each in leaves(pod)}
        named = {word for word in words if word in edge or word.startswith("EDGE_")}
        assert bool(named) == (ROLES[name] == EDGE)


@pytest.mark.parametrize("shape", shapes())
def test_a_pod_knows_what_its_role_needs(shape, tmp_path, monkeypatch):
    """With a pod's variables, and these alone, all that its role needs is set: and of two blocks, a
    collector's pod has nothing of the edge.
    """
    found = pods(render(shape, tmp_path))
    for name in (*PASSWORDS, "EDGE_USER"):
        monkeypatch.delenv(name, raising=False)
    for role in loads(shape[1]).roles:
        [worker] = found[role.name]["containers"]
        with monkeypatch.context() as pod:
            for each in worker.get("env", []):
                pod.setenv(each["name"], each.get("value", f"secret {each['name']}"))
            topology = loads(shape[1], worker["args"][1])
            needs = (*role.sides, *(("key", "budget") if role.needs_key else ()))
            assert unset(topology, needs) == ()
            assert not topology.collector_kafka.embedded
            if shape[0] == "two" and role.side == COLLECTOR:
                for side in (EDGE, "key", "budget"):
                    assert unset(topology, (side,))
            if role.needs_key:
                lies_where_it_is_mounted(worker, found[role.name], topology.edge.key_file)


def lies_where_it_is_mounted(worker, pod, path):
    """A volume has a file there, under this name."""
    [mount] = [each for each in worker["volumeMounts"] if PodPath(each["mountPath"]) == path.parent]
    [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    assert [item["path"] for item in volume["secret"]["items"]] == [path.name]


def test_a_budget_file_lies_beside_the_topology(tmp_path, monkeypatch):
    """In a folder laid out as a pod's is, the budget file admits the topology that names it: by a
    variable, or by its name.
    """
    for text in (TWO[1], TWO[1].replace("${BUDGET}", "budget.yaml")):
        pod = pods(render(("two", text), tmp_path))["perturb"]
        [worker] = pod["containers"]
        [volume] = [each for each in pod["volumes"] if each["name"] == "topology"]
        kinds = [next(iter(each)) for each in volume["projected"]["sources"]]
        assert kinds == ["secret", "configMap"]  # the chart's file wins over one of the same name
        folder = tmp_path / "pod"
        folder.mkdir(exist_ok=True)
        (folder / "two.yaml").write_text(text)
        (folder / "budget.yaml").write_text(BUDGET)
        for each in worker["env"]:
            value = each.get("value", f"secret {each['name']}")
            monkeypatch.setenv(each["name"], value.replace("/etc/ldp-kafka/topology", str(folder)))
        topology = loads(text, str(folder / PodPath(worker["args"][1]).name))
        assert str(topology.edge.budget_file) == str(folder / "budget.yaml")
        [admitted] = load_edge(topology.edge.budget_file).admits
        assert admitted.topology.fingerprint == topology.fingerprint


@pytest.mark.parametrize("shape", shapes())
def test_whom_pods_reach(shape, tmp_path):
    """The brokers of the sides that their role reaches, DNS, and nobody else; only Prometheus of
    their own side reaches them, at their metrics. So does the Job.
    """
    topology = loads(shape[1])
    manifests = render(shape, tmp_path, TOPICS)
    policies = by_kind(manifests, "NetworkPolicy")
    wanted = {role.name: (role.sides, role.side) for role in topology.roles}
    reached = {side for role in topology.roles for side in role.sides}
    wanted["here-topics"] = (sorted(reached), None)
    assert policies.keys() == wanted.keys()
    for name, (sides, side) in wanted.items():
        spec = policies[name]["spec"]
        assert sorted(spec["policyTypes"]) == ["Egress", "Ingress"]
        dns, *others = spec["egress"]
        assert [each["port"] for each in dns["ports"]] == [53, 53]
        assert dns["to"][0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
        ports = [{"port": 9093, "protocol": "TCP"}]
        assert sorted(others, key=str) == sorted(
            ({"to": OPEN[each]["brokers"], "ports": ports} for each in sides), key=str
        )
        metrics = [{"port": "metrics", "protocol": "TCP"}]
        assert spec.get("ingress", []) == (
            [{"from": OPEN[side]["prometheus"], "ports": metrics}] if side else []
        )
    endpoint = {"to": [{"ipBlock": {"cidr": "10.9.0.0/24"}}], "ports": [{"port": 443}]}
    more = render(shape, tmp_path, {"networkPolicy": {COLLECTOR: {"more": [endpoint]}}})
    for name, each in by_kind(more, "NetworkPolicy").items():
        assert each["spec"]["egress"] == [*policies[name]["spec"]["egress"], endpoint]
    edge = OPEN[EDGE]["brokers"][0]["ipBlock"]["cidr"]
    for name, policy in policies.items():
        if ROLES.get(name) == COLLECTOR:
            assert edge not in {*leaves(policy)}


def test_a_side_has_an_identity_of_its_own(tmp_path):
    """A cloud's identity of the edge is never the collector's; the Job has neither."""
    own = {"edge": {"annotations": {"role": "meters"}}, "collector": {"name": "us"}}
    found = render(TWO, tmp_path, TOPICS, {"serviceAccounts": own})
    accounts = {name: each["metadata"] for name, each in by_kind(found, "ServiceAccount").items()}
    assert accounts.keys() == {"here-edge", "us"}
    assert accounts["here-edge"]["annotations"] == {"role": "meters"}
    assert {name: pod.get("serviceAccountName") for name, pod in pods(found).items()} == {
        "perturb": "here-edge",
        "collect": "us",
        "coordinate": "us",
        "topics": None,
    }
    own = {"create": False, "edge": {"name": "mine"}}
    found = render(TWO, tmp_path, {"serviceAccounts": own})
    assert by_kind(found, "ServiceAccount") == {}
    assert pods(found)["perturb"]["serviceAccountName"] == "mine"


def test_no_secret_is_in_a_manifest(tmp_path):
    """Though it is in the environment of whoever makes the values."""
    found = render(TWO, tmp_path, TOPICS)
    assert by_kind(found, "Secret") == {}
    words = [str(each) for each in leaves([found, made(TWO, tmp_path)])]
    assert [word for word in words if any(one in word for one in PASSWORDS.values())] == []


def test_a_secret_is_not_taken_as_a_value(tmp_path):
    """By no way that a value can be given."""
    kafka = {"edge": {"env": {"EDGE_PASSWORD": PASSWORDS["EDGE_PASSWORD"]}}}
    said = refused(TWO, tmp_path, {"kafka": kafka})
    assert "kafka.edge.env.EDGE_PASSWORD: holds a secret" in said
    assert PASSWORDS["EDGE_PASSWORD"] not in said


@pytest.mark.parametrize(
    ("side", "roles", "nothing"),
    [
        (EDGE, {"perturb"}, {"networkPolicy": {"collector": {"prometheus": []}}}),
        (
            COLLECTOR,
            {"collect", "coordinate"},
            {
                "edge": {"key": {"secret": ""}, "budget": {"secret": ""}},
                "kafka": {"edge": {"secret": "", "files": ""}},
                "networkPolicy": {"edge": {"brokers": [], "prometheus": []}},
            },
        ),
    ],
)
def test_one_side_alone(tmp_path, side, roles, nothing):
    """Where edge and collector are two parties, each installs its own, and a collector needs to
    know nothing of the edge's.
    """
    more = {"sides": [side], **nothing}
    found = render(TWO, tmp_path, more)
    for kind in ("Deployment", "PodDisruptionBudget", "NetworkPolicy"):
        assert by_kind(found, kind).keys() == roles
    names = {name for pod in pods(found).values() for name in secrets(pod)}
    assert (names == {"collector-login"}) == (side == COLLECTOR)
    assert ("near:9093" in {*leaves(found)}) == (side == EDGE)
    assert "and sides has not" in refused(TWO, tmp_path, more, TOPICS)
