"""Who may read what, derived from the tables of roles and topics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.topology import access, acls, commands, loads, plan, read_principals
from ldp_kafka.topology.rights import lines
from tests.cases import cases

TEXT = """
topology: m
kafka: {{edge: {{bootstrap_servers: 'edge:1'}}, collector: {{bootstrap_servers: 'far:2'}}}}
input: {{slot: 1h{more}}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}}
output: {{statistics: [mean]}}
"""
BOTH = {"edge": "User:e", "collector": "User:c"}


def topology(more=""):
    return loads(TEXT.format(more=more))


def table(made):
    """{(role, login, cluster): {what: operations}}, by the last part of its name."""
    return {
        (each.role, each.login, each.cluster): {
            f"{right.resource} {right.name}": " ".join(right.operations) for right in each.rights
        }
        for each in access(made)
    }


def hidden(made):
    """Of each role what it must not read."""
    return {each.role: set(each.must_not_read) for each in access(made) if each.must_not_read}


PERTURB = {
    "topic m.raw": "READ DESCRIBE_CONFIGS",
    "topic m.dead-letters": "WRITE DESCRIBE_CONFIGS",
    "topic m-perturb-perturb-changelog": "READ WRITE DESCRIBE_CONFIGS",
    "group m-perturb": "READ",
}
COLLECT = {
    "topic m.reports": "READ DESCRIBE_CONFIGS",
    "topic m.partials": "READ WRITE DESCRIBE_CONFIGS",
    "topic m.releases": "WRITE DESCRIBE_CONFIGS",
    "topic m.collector.dead-letters": "WRITE DESCRIBE_CONFIGS",
    "topic m-collect-collect-changelog": "READ WRITE DESCRIBE_CONFIGS",
    "topic m-collect-merge-changelog": "READ WRITE DESCRIBE_CONFIGS",
    "group m-collect": "READ",
}


def test_each_role_needs_this_and_no_more():
    assert table(topology()) == {
        ("perturb", "edge", "edge"): PERTURB,
        ("perturb", "collector", "collector"): {"topic m.reports": "WRITE DESCRIBE_CONFIGS"},
        ("collect", "collector", "collector"): COLLECT,
    }


ASKS = (
    TEXT.replace("sw_direct", "lpa")
    .replace("domain: [0, 100]", "categories: 4")
    .replace("mean", "frequencies")
)


def test_where_a_coordinator_asks():
    """Who perturbs also reads the requests, in a group of its own and with the collector's login,
    and writes them into the raw log with the edge's. The coordinator has no right there, nor to
    read what it wrote.
    """
    made = loads(ASKS.format(more=""))
    found = table(made)
    raw = {"topic m.raw": "READ WRITE DESCRIBE_CONFIGS"}
    assert found["perturb", "edge", "edge"] == {**PERTURB, **raw}
    assert found["perturb", "collector", "collector"] == {
        "topic m.reports": "WRITE DESCRIBE_CONFIGS",
        "topic m.requests": "READ DESCRIBE_CONFIGS",
        "group m-forward": "READ",
    }
    assert found["coordinate", "collector", "collector"] == {
        "topic m.sums": "READ DESCRIBE_CONFIGS",
        "topic m.requests": "WRITE DESCRIBE_CONFIGS",
        "topic m.releases": "WRITE DESCRIBE_CONFIGS",
        "topic m.collector.dead-letters": "WRITE DESCRIBE_CONFIGS",
        "topic m-coordinate-coordinate-changelog": "READ WRITE DESCRIBE_CONFIGS",
        "group m-coordinate": "READ",
    }
    assert len(found) == 4
    assert hidden(made).keys() == {"collect", "coordinate"}
    assert all("m.raw" in names for names in hidden(made).values())
    named = [acl for acl in acls(made, BOTH) if acl.name in ("m.raw", "m-forward")]
    mine = [(acl.cluster, acl.principal) for acl in named]
    assert mine == [("edge", "User:e"), ("collector", "User:c")]


@cases(
    ("more", "raw"),
    [
        (", idle: 30s", "READ WRITE DESCRIBE_CONFIGS"),  # its ticks go into the log
        (", create: false", "READ DESCRIBE_CONFIGS"),  # must not be compacted
        (", create: false, gaps: allow", "READ DESCRIBE_CONFIGS"),  # nor this one
        (", gaps: allow", "READ DESCRIBE_CONFIGS"),
    ],
)
def test_what_the_raw_topic_takes(more, raw):
    found = table(topology(more))
    assert found["perturb", "edge", "edge"] == {**PERTURB, "topic m.raw": raw}
    assert found["collect", "collector", "collector"] == COLLECT


def test_devices():
    """They write with the edge's login to the collector's cluster, and read nothing."""
    found = access(topology(", source: devices, idle: 30s"))
    assert [(each.role, each.login, each.cluster) for each in found] == [
        ("devices", "edge", "collector"),
        ("collect", "collector", "collector"),
    ]
    assert [str(right) for right in found[0].rights] == ["WRITE on topic m.device-reports"]
    assert found[0].must_not_read == ("m.device-reports",)
    assert str(found[1].rights[0]) == "READ, WRITE, DESCRIBE_CONFIGS on topic m.device-reports"
    assert found[1].must_not_read == ()


def test_what_the_collector_must_not_read_is_all_that_lies_at_the_edge():
    made = topology()
    of_edge = {topic.name for topic in made.topics() if topic.side == "edge"}
    assert hidden(made) == {"collect": of_edge}
    assert len(of_edge) == 3
    assert "theirs" in access(topology(", create: false, topic: theirs"))[-1].must_not_read


@pytest.mark.parametrize("more", ["", ", source: devices", ", idle: 1m"])
def test_a_plan_has_all_of_it(more):
    made = topology(more)
    found = plan(made)
    lines = [line.split() for line in found.lines()]
    for each in access(made):
        for right in each.rights:
            words = [each.role, f"kafka.{each.login}", *", ".join(right.operations).split()]
            assert [*words, right.resource, right.name] in lines
        for name in each.must_not_read:
            words = [each.role, f"kafka.{each.login}", "must", "not", "READ", "topic", name]
            assert words in lines
    data = json.loads(json.dumps(found.as_json()))["access"]
    assert data == json.loads(json.dumps([each.as_json() for each in access(made)]))
    assert data[-1]["login"] == "kafka.collector"
    assert data[-1]["rights"][0]["operations"][0] == "READ"


def test_acls_are_the_sum_of_a_logins_rights():
    """Of the roles that log in so, each on the cluster where the topic is."""
    made = topology()
    found = {
        (acl.cluster, acl.principal, f"{acl.resource} {acl.name}"): set(acl.operations)
        for acl in acls(made, BOTH)
    }
    wanted: dict = {}
    for each in access(made):
        for right in each.rights:
            place = each.cluster, BOTH[each.login], f"{right.resource} {right.name}"
            wanted.setdefault(place, set()).update(right.operations)
    assert found == wanted
    assert found["collector", "User:c", "topic m.reports"] == {"READ", "WRITE", "DESCRIBE_CONFIGS"}
    assert {acl.principal for acl in acls(made, {"edge": "User:e"})} == {"User:e"}
    devices = acls(topology(", source: devices"), {"edge": "User:d"})
    assert [(acl.cluster, acl.name, acl.operations) for acl in devices] == [
        ("collector", "m.device-reports", ("WRITE",))
    ]


def test_commands_can_be_pasted():
    """A line each, quoted for a shell, at the address of its cluster."""
    made = topology()
    lines = list(commands(made, acls(made, {**BOTH, "edge": "User:CN=my edge"})))
    assert lines[0] == (
        "kafka-acls.sh --bootstrap-server edge:1 --command-config admin.properties --add"
        " --allow-principal 'User:CN=my edge' --operation Read --operation DescribeConfigs"
        " --topic m.raw"
    )
    assert lines[-1] == (
        "kafka-acls.sh --bootstrap-server far:2 --command-config admin.properties --add"
        " --allow-principal User:c --operation Read --group m-collect"
    )


@cases(
    ("texts", "said"),
    [
        ([], "--acls: a --principal must say who each side is"),
        (["middle=User:a"], "must begin with edge= or collector="),
        (["User:a"], "must begin with edge= or collector="),
        (["edge"], "a principal must be TYPE:NAME, such as edge=User:meters"),
        (["edge="], "a principal must be TYPE:NAME"),
        (["edge=meters"], "a principal must be TYPE:NAME"),
        (["edge=User:"], "a principal must be TYPE:NAME"),
        (["edge=:meters"], "a principal must be TYPE:NAME"),
        (["edge=User:*"], "is everybody"),
        (["edge=User:a", "edge=User:b"], "edge must be given once"),
        (["edge=User:a", "collector=User:a"], "both sides are User:a"),
    ],
)
def test_principals_that_are_none(texts, said):
    with pytest.raises(ConfigurationError) as caught:
        read_principals(texts)
    assert said in str(caught.value)


def test_the_command(tmp_path, capsys):
    """Text, JSON, a side that is left out, and options that do not go together."""
    path = tmp_path / "m.yaml"
    path.write_text(TEXT.format(more=""))
    both = ["--principal", "edge=User:e", "--principal", "collector=User:c"]
    assert main(["topics", str(path), "--acls", *both]) == 0
    said = capsys.readouterr()
    made = topology()
    assert said.out.splitlines() == list(commands(made, acls(made, BOTH)))
    assert said.err == ""
    assert main(["topics", str(path), "--acls", *both, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["topology"], data["applied"]) == ("m", False)
    assert data["acls"] == json.loads(json.dumps([acl.as_json() for acl in acls(made, BOTH)]))
    assert main(["topics", str(path), "--acls", *both[:2]]) == 0
    said = capsys.readouterr()
    assert "User:c" not in said.out
    assert "note: no ACLs for kafka.collector" in said.err
    for wrong in (both, ["--apply"], ["--acls", *both, "--apply", "--dry-run"], ["--acls"]):
        assert main(["topics", str(path), *wrong]) == 2


def test_a_login_from_a_file(tmp_path):
    from ldp_kafka.runtime.kafka.client_options import read_login

    file = tmp_path / "admin.conf"
    file.write_text("# who\n\nsasl.username = admin\nsasl.password=a=b\n")
    assert read_login(file) == {"sasl.username": "admin", "sasl.password": "a=b"}
    file.write_text("sasl.username=admin\nhidden-word\n")
    with pytest.raises(ConfigurationError, match=r"admin.conf:2: must be NAME=VALUE") as caught:
        read_login(file)
    assert "hidden" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_login(tmp_path / "none")


def test_the_list_in_deploy_is_this_one():
    """Without DESCRIBE_CONFIGS, which it says once for all."""
    text = (Path(__file__).parents[2] / "deploy" / "README.md").read_text()
    (block,) = re.findall(r"```\n(perturb .*?)```", text, re.DOTALL)
    shown = {re.sub(r" +\(.*", "", re.sub(r"\s{2,}", "  ", line)) for line in block.splitlines()}
    derived = {
        re.sub(r"\s{2,}", "  ", line.strip()).replace(", DESCRIBE_CONFIGS", "")
        for name in ("", ", source: devices")
        for line in lines(
            access(loads(TEXT.format(more=name).replace("topology: m", "topology: T")))
        )
    }
    derived -= {"collect  kafka.collector  READ  topic T.device-reports"}
    derived -= {"devices  kafka.edge  must not READ  topic T.device-reports"}
    assert shown == derived
    (block,) = re.findall(r"```\n(coordinate .*?)```", text, re.DOTALL)
    told = {re.sub(r"\s{2,}", "  ", line) for line in block.splitlines()}
    asked = TEXT.format(more="").replace("topology: m", "topology: T").replace("sw_direct", "lpa")
    more = {
        re.sub(r"\s{2,}", "  ", line.strip()).replace(", DESCRIBE_CONFIGS", "")
        for line in lines(access(loads(asked)))
    }
    assert told == more - derived


@pytest.mark.parametrize(
    ("gaps", "theirs"), [("strict", "READ DESCRIBE_CONFIGS"), ("allow", "READ")]
)
def test_someone_elses_topic_is_read_and_never_written(gaps, theirs):
    """Its copy takes what is written: ticks and requests. Neither is for the collector."""
    more = f", topic: theirs, relay: true, gaps: {gaps}"
    made = loads(ASKS.format(more=more))
    mine = {name: what for name, what in PERTURB.items() if name != "topic m.raw"}
    assert table(made)["perturb", "edge", "edge"] == {
        **mine,
        "topic m.edge": "READ WRITE DESCRIBE_CONFIGS",
        "topic theirs": theirs,
        "group m-relay": "READ",
    }
    assert hidden(made)
    assert all({"theirs", "m.edge"} <= names for names in hidden(made).values())


@cases("more", [", create: false, gaps: allow", ", relay: true, gaps: allow"])
def test_whose_clock_stamps_is_asked_where_a_budget_file_limits(more):
    """Of a relayed topic, too, that may have gaps, and is not looked at else. One that is folded
    is: it must not be compacted.
    """
    text = f"""
topology: meters
kafka: {{bootstrap_servers: "b:1"}}
input: {{topic: theirs, slot: 1h{more}}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}}
output: {{statistics: [mean]}}
"""
    for budget, asks in (("", False), ("edge: {budget_file: edge.yaml}", True)):
        [right] = [
            right
            for each in access(loads(text + budget))
            for right in each.rights
            if (right.resource, right.name) == ("topic", "theirs")
        ]
        assert ("DESCRIBE_CONFIGS" in right.operations) == (asks or "relay" not in more)
