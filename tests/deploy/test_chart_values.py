"""What an installer may say of the chart, what is refused, and how many workers there are."""

from __future__ import annotations

import json
import shutil

import pytest
from ruamel.yaml import YAML

from ldp_kafka.cli import cli
from ldp_kafka.topology import acls, loads, read_principals
from ldp_kafka.topology.helm import helm_values
from tests.cases import cases
from tests.deploy.chart import (
    CHART,
    MINE,
    by_kind,
    helm,
    made,
    program,
    refused,
    render,
    shapes,
)
from tests.deploy.code_blocks import ROOT, blocks

TWO = shapes("two")[0].values[0]
ASKED = shapes("phone-networks")[0].values[0]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    program()
    for name in ("LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_FOREIGN_TOPIC", "LDP_KAFKA_EDGE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


def scaled(**more):
    return {"workers": {"autoscaling": {"enabled": True, "lagThreshold": 1_000_000, **more}}}


@cases(
    ("more", "says"),
    [
        ({"worker": {}}, "additional properties 'worker'"),
        ({"workers": {"replica": 2}}, "additional properties 'replica'"),
        ({"workers": {"replicas": "2"}}, "/workers/replicas"),
        ({"roles": {"perturb": {"replica": 2}}}, "additional properties 'replica'"),
        ({"roles": {"curate": {}}}, "meters has no such role; it has collect, coordinate, perturb"),
        ({"sides": ["middle"]}, "/sides/0"),
        ({"edge": {"key": {"secret": ""}}}, "the role perturb needs the edge's key"),
        ({"edge": {"budget": {"secret": ""}}}, "a Secret must hold it"),
        ({"kafka": {"edge": {"secret": ""}}}, "needs the variable EDGE_USER: give kafka.edge.sec"),
        ({"kafka": {"collector": {"secret": ""}}}, "COLLECTOR_PASSWORD: give kafka.collector.secr"),
        (
            {"kafka": {"env": {"EDGE_USER": "x"}}},
            "kafka.env.EDGE_USER: meters has no such variable",
        ),
        ({"kafka": {"collector": {"env": {"EDGE_USER": "x"}}}}, "kafka.collector.env.EDGE_USER"),
        (
            {"networkPolicy": {"edge": {"brokers": []}}},
            "networkPolicy.edge.brokers: must say where",
        ),
        (
            {"topics": {"enabled": True, "acls": {"enabled": True}}},
            "topics.acls: edge or collector",
        ),
        (scaled(lagThreshold=0), "autoscaling.lagThreshold: must say"),
        (scaled(maxReplicas=7), "must be at most"),
        ({"topology": {"roles": {"perturb": {"side": "middle"}}}}, "/topology/roles/perturb/side"),
    ],
)
def test_mistakes_are_said(tmp_path, more, says):
    """By a word that leads to them; nothing is rendered."""
    assert says in refused(TWO, tmp_path, more)


def test_a_default_need_not_be_given(tmp_path):
    """Neither in the Secret nor at all."""
    [worker] = pod(render(TWO, tmp_path), "collect")["containers"]
    found = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in worker["env"]}
    assert found["COLLECTOR_USER"]["optional"] is True
    assert "optional" not in found["COLLECTOR_PASSWORD"]
    text = TWO[1].replace("${EDGE_BROKERS}", "${EDGE_BROKERS:-near:9093}")
    files = made(("two", text), tmp_path)
    del files[2]["kafka"]["edge"]["env"]
    code, said, wrong = helm("template", "here", values=files)
    assert code == 0, wrong
    assert "EDGE_BROKERS" in said


def pod(manifests, role):
    return by_kind(manifests, "Deployment")[role]["spec"]["template"]["spec"]


def test_without_a_topology_it_says_what_to_do():
    code, _, wrong = helm("template", "here", values=[MINE])
    assert code != 0
    assert "topology: must be given: ldp-kafka helm-values TOPOLOGY" in wrong


def test_more_workers_than_partitions_are_told(tmp_path, with_notes):
    """In what is printed at the end, and on the Deployment; so many as there are partitions are
    nothing to tell.
    """
    partitions = {
        role.name: max(each.partitions for each in role.agents) for role in loads(TWO[1]).roles
    }
    assert partitions == {"perturb": 6, "collect": 6, "coordinate": 1}
    for surplus in (0, 2):
        roles = {name: {"replicas": each + surplus} for name, each in partitions.items()}
        found = render(TWO, tmp_path, {"roles": roles}, chart=with_notes)
        for name, each in by_kind(found, "Deployment").items():
            assert each["spec"]["replicas"] == partitions[name] + surplus
            told = each["metadata"]["annotations"].get("ldp-kafka/standby", "")
            assert told.startswith("2 of ") == bool(surplus)
            warning = f"WARNING: 2 of {partitions[name] + 2} workers of {name} stand by"
            assert (warning in notes(found)) == bool(surplus)


def test_an_open_trust_line_is_told(tmp_path, with_notes):
    """One login for both sides; no policy of the network."""
    said = notes(render(TWO, tmp_path, chart=with_notes))
    assert "WARNING" not in said
    assert "one kafka block serves both sides" in notes(render(ASKED, tmp_path, chart=with_notes))
    found = render(TWO, tmp_path, {"networkPolicy": {"enabled": False}}, chart=with_notes)
    assert "no NetworkPolicy" in notes(found)
    assert by_kind(found, "NetworkPolicy") == {}


@pytest.fixture
def with_notes(tmp_path):
    """A copy of the chart that has its notes in a manifest too: Helm shows them to whoever has a
    cluster.
    """
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "notes.yaml").write_text(
        "apiVersion: v1\nkind: Notes\nmetadata: {name: notes, labels: {}}\n"
        'text: {{ include "ldp-kafka.notes" . | toJson }}\n'
    )
    return chart


def notes(manifests):
    [found] = by_kind(manifests, "Notes").values()
    return found["text"]


@pytest.mark.parametrize("shape", shapes())
def test_autoscalers_follow_the_lag_of_what_has_partitions(shape, tmp_path):
    """Up to one worker a partition, and no number of replicas beside them."""
    found = render(shape, tmp_path, scaled())
    roles = {role.name: role for role in loads(shape[1]).roles}
    scalers = by_kind(found, "ScaledObject")
    assert scalers.keys() == roles.keys()
    for name, each in scalers.items():
        spec = each["spec"]
        assert "replicas" not in by_kind(found, "Deployment")[name]["spec"]
        assert spec["scaleTargetRef"] == {
            "name": by_kind(found, "Deployment")[name]["metadata"]["name"]
        }
        most = max(agent.partitions for agent in roles[name].agents)
        assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, most)
        read = {(roles[name].group, agent.topic) for agent in roles[name].agents}
        for trigger in spec["triggers"]:
            facts = trigger["metadata"]
            assert facts["lagThreshold"] == "1000000"
            assert (facts["consumerGroup"], facts["topic"]) in read
    fewer = render(shape, tmp_path, scaled(maxReplicas=1, authentication="kafka-login"))
    for each in by_kind(fewer, "ScaledObject").values():
        assert each["spec"]["maxReplicaCount"] == 1
        for trigger in each["spec"]["triggers"]:
            assert trigger["authenticationRef"] == {"name": "kafka-login"}


def test_autoscalers_know_where_brokers_are(tmp_path):
    """Where the file leaves it to a variable, in the pods' own."""

    def facts(shape, role, *more):
        [trigger] = by_kind(render(shape, tmp_path, scaled(), *more), "ScaledObject")[role]["spec"][
            "triggers"
        ]
        return {
            name: value
            for name, value in trigger["metadata"].items()
            if "bootstrap" in name.lower()
        }

    assert facts(TWO, "perturb") == {"bootstrapServersFromEnv": "EDGE_BROKERS"}
    assert facts(TWO, "collect") == {"bootstrapServers": "far:9093"}
    text = TWO[1].replace("far:9093", "${FAR:-far:9093}")
    assert facts(("two", text), "collect") == {"bootstrapServersFromEnv": "FAR"}
    text = TWO[1].replace("far:9093", "${FAR}:9093")
    said = refused(
        ("two", text), tmp_path, scaled(), {"kafka": {"collector": {"env": {"FAR": "a"}}}}
    )
    assert "bootstrap_servers of the topology must be one variable" in said


def test_a_job_makes_topics_and_rights(tmp_path):
    """With commands of ours, before the workers; with its own login where one is given. By default
    there is none.
    """
    assert by_kind(render(TWO, tmp_path), "Job") == {}
    who = {"edge": "User:meters", "collector": "User:CN=us,O=House"}
    topics = {"enabled": True, "acls": {"enabled": True, **who}}
    for login in ({}, {"login": {"secret": "admin", "item": "all.conf"}}):
        found = render(TWO, tmp_path, {"topics": topics | login})
        [job] = by_kind(found, "Job").values()
        assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        spec = job["spec"]["template"]["spec"]
        [rights], [makes] = spec["initContainers"], spec["containers"]
        topology = loads(TWO[1])
        for container, more in ((rights, True), (makes, False)):
            command, *words = container["args"]
            given = cli.commands[command].make_context(command, words).params
            assert (given["acls"], given["apply_"]) == (more, more)
            assert str(given["login"] or "") == ("/etc/ldp-kafka/login/all.conf" if login else "")
            if more:
                principals = read_principals(given["principals"])
                assert principals == who
                assert {each.principal for each in acls(topology, principals)} == {*who.values()}
        # what it reads is made before it, and is not the workers', which come after it
        names = {each["configMap"]["name"] for each in spec["volumes"] if "configMap" in each}
        weights = {
            each["metadata"]["name"]: int(each["metadata"]["annotations"]["helm.sh/hook-weight"])
            for each in found
            if "helm.sh/hook" in each["metadata"].get("annotations", {})
            and each["kind"] == "ConfigMap"
        }
        assert names == weights.keys()
        assert max(weights.values()) < int(job["metadata"]["annotations"]["helm.sh/hook-weight"])
        for each in by_kind(found, "ConfigMap").values():
            assert each["data"] == {"two.yaml": TWO[1]}


def test_workers_start_anew_with_another_topology(tmp_path):
    """And not with another number of them."""

    def template(text, *more):
        return json.dumps(
            by_kind(render(("two", text), tmp_path, *more), "Deployment")["collect"]["spec"][
                "template"
            ]
        )

    first = template(TWO[1])
    assert template(TWO[1] + "# a word\n") != first
    assert template(TWO[1], {"workers": {"replicas": 2}}) == first


def test_what_is_said_of_one_role(tmp_path):
    """Overrides what is said of all, for that role."""
    more = {
        "workers": {"replicas": 2, "resources": {"requests": {"cpu": "1"}}},
        "roles": {"perturb": {"replicas": 5, "resources": {"limits": {"memory": "2Gi"}}}},
    }
    found = by_kind(render(TWO, tmp_path, more), "Deployment")
    assert {name: each["spec"]["replicas"] for name, each in found.items()} == {
        "perturb": 5,
        "collect": 2,
        "coordinate": 2,
    }
    [worker] = pod(found.values(), "perturb")["containers"]
    assert worker["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}


def test_the_page_installs_what_it_says(tmp_path, with_notes):
    """README.md's values, over the topology that it names, one after the other: nothing is missing,
    and there is nothing to warn of.
    """
    two = ROOT / "deploy" / "docs" / "pages" / "how-to" / "two-clusters.md"
    (tmp_path / "meters.yaml").write_text(next(each.text for each in blocks(two) if each.file))
    yaml = YAML(typ="safe")
    mine = [yaml.load(each.text) for each in blocks(CHART / "README.md") if each.language == "yaml"]
    assert len(mine) == 3
    code, said, wrong = helm(
        "template",
        "meters",
        values=[helm_values(tmp_path / "meters.yaml"), *mine],
        chart=with_notes,
    )
    assert code == 0, wrong
    found = [each for each in yaml.load_all(said) if each]
    assert "WARNING" not in notes(found)
    assert by_kind(found, "Deployment").keys() == {"perturb", "collect"}
    assert by_kind(found, "ScaledObject").keys() == {"perturb"}
    assert by_kind(found, "Job").keys() == {"topics"}
