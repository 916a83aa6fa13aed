"""Topologies whose devices report by themselves: what they have, what they must not say, and what
is planned.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ldp_kafka.cli import cli
from ldp_kafka.errors import ConfigurationError, TopologyError
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.stages.collect_devices import CollectDevices
from ldp_kafka.runtime.worker.supervisor import run
from ldp_kafka.topology import access, loads, plan
from tests.cases import cases

TEXT = """
topology: meters
kafka: {kafka}
input: {{source: {source}, slot: 1h, partitions: 3{more}}}
privacy: {{method: sw_direct, epsilon: 1.0, window: 10, domain: [0, 100]}}
output: {{statistics: [mean]}}
edge: {edge}
"""


def topology(source="devices", more="", kafka="{}", edge="{}"):
    return loads(TEXT.format(source=source, more=more, kafka=kafka, edge=edge), "meters.yaml")


def test_it_is_the_same_reports_and_another_layout():
    """So the fingerprint, on which noise hangs, does not know who reports; what state is bound to
    does.
    """
    devices, raw = topology(), topology("topic")
    assert devices.flow.raw is None and raw.flow.raw is not None
    assert devices.fingerprint == raw.fingerprint
    assert devices.layout != raw.layout
    plain = TEXT.replace("source: {source}, ", "").format(more="", kafka="{}", edge="{}")
    assert raw.layout == loads(plain).layout


def test_its_topics():
    """No raw values, and nothing at the edge; the reports under the broker's clock."""
    found = {topic.name: topic for topic in topology().topics()}
    assert set(found) == {
        "meters.device-reports",
        "meters.partials",
        "meters.releases",
        "meters.collector.dead-letters",
        "meters-collect-collect-changelog",
        "meters-collect-merge-changelog",
    }
    assert {topic.side for topic in found.values()} == {"collector"}
    assert found["meters.device-reports"].config["message.timestamp.type"] == "LogAppendTime"
    assert found["meters.device-reports"].partitions == 3
    assert not any("message.timestamp.type" in topic.config for topic in topology("topic").topics())


def test_its_roles(tmp_path):
    """The collector folds what devices send; nobody perturbs for them, and nothing can
    be replayed.
    """
    made = topology()
    assert [spec.topic for spec in made.role("collect").agents] == [
        "meters.device-reports",
        "meters.partials",
    ]
    assert isinstance(roles.make(made, "collect", 2), CollectDevices)
    second = roles.make(made, "collect", 2)
    assert (second.partition, second.source) == (2, 2)
    for call in (lambda: made.role("perturb").agents, lambda: run(made, role="perturb")):
        with pytest.raises(ConfigurationError, match="meters has no perturb role"):
            call()
    path = tmp_path / "meters.yaml"
    kafka = "{bootstrap_servers: '127.0.0.1:1'}"
    path.write_text(TEXT.format(source="devices", more="", kafka=kafka, edge="{}"))
    words = ["replay", "--generate", "sin", "--users", "3", "--slots", "5", "--topology"]
    with pytest.raises(ConfigurationError, match="no raw topic to replay into"):
        CliRunner().invoke(cli, [*words, str(path)], catch_exceptions=False, standalone_mode=False)


OF_RAW = (
    "topic: x, create: false, format: arrow, user: $.u, value: $.v, time: $.t, coerce: numbers,"
    " events: $.readings, time_unit: us, partitioning: murmur2, gaps: allow"
)


@cases("given", OF_RAW.split(", "))
def test_what_tells_how_to_read_a_raw_topic_is_refused(given):
    """With its line."""
    key = given.partition(":")[0]
    why = rf"meters\.yaml:4: input\.{key}: must not be given where source is devices"
    with pytest.raises(TopologyError, match=why):
        topology(more=f", {given}")
    topology("topic", more=f", {given}")


def test_the_edges_budget_and_other_sources_are_refused():
    """A budget file sums what is lost on a raw topic."""
    why = r"edge\.budget_file: must not be given where input\.source is devices"
    with pytest.raises(TopologyError, match=why):
        topology(edge="{budget_file: x.yaml}")
    with pytest.raises(TopologyError, match=r"input\.source: must be one of topic, devices"):
        topology("phones")


def test_devices_may_have_a_way_of_their_own():
    """One cluster, two principals; the collector's is not asked of devices."""
    kafka = (
        "{bootstrap_servers: 'b:1', edge: {client: {sasl.username: device}}, collector: {client:"
        " {sasl.username: collector}}}"
    )
    made = topology(kafka=kafka)
    assert made.edge_kafka.client["sasl.username"] == "device"
    assert not made.warnings
    assert "meters.device-reports" in topology().warnings[0]


def test_its_plan():
    """Says who has the state, and what a device's connection shows."""
    made = plan(topology(), 500)
    assert made.single == made.batched
    assert made.single.messages == 500
    text = "\n".join(made.lines())
    assert (
        "500 messages" in text
        and "from devices, one report each" in text
        and "in the database of the device" in text
    )
    assert "two budgets" in text and "shows who is connected" in text
    assert "linked across slots by its connection" in text
    assert made.guarantee_line.endswith("can be linked by connection or time of arrival")
    for word in ("gateways", "partitioning trusted", "perturb "):
        assert word not in text
    assert "those of a partition and slot together" in "\n".join(
        plan(topology("topic"), 500).lines()
    )


def test_devices_that_are_asked():
    """They read the requests where the coordinator writes them, and nothing else; there is no
    other role, and the plan says what it takes of them.
    """
    text = TEXT.replace("sw_direct", "lpa").format(
        source="devices", more=", hold: 3", kafka="{}", edge="{}"
    )
    made = loads(text)
    assert [role.name for role in made.roles] == ["collect", "coordinate"]
    assert made.flow.requests is not None
    assert isinstance(roles.make(made, "collect", 1), CollectDevices)
    assert roles.make(made, "collect", 1).hold == 3
    [mine] = [each for each in access(made) if each.role == "devices"]
    assert [(right.name, right.operations) for right in mine.rights] == [
        ("meters.device-reports", ("WRITE",)),
        ("meters.requests", ("READ",)),
    ]
    assert "meters.requests" in made.warnings[0]
    found = plan(made, 2000)
    lines = "\n".join(found.lines())
    assert "read by every device" in lines and "up to 3 more slots" in lines
    assert "devices must poll for requests" in lines
    assert found.single.messages == found.rounds.first + found.rounds.second > 100
    for word in ("raw topic", "sealed", "copied into"):
        assert word not in lines
    assert made.layout != loads(text.replace("hold: 3", "hold: 4")).layout


def test_the_page_names_what_there_is():
    """Its example's topology, and the names in it."""
    import ldp_kafka as lk

    pages = Path(__file__).parents[2] / "deploy" / "docs" / "pages"
    section = (pages / "how-to" / "devices.md").read_text().partition("\n## ")[0]
    assert "source: devices" in section
    for name in ("Client", "AsyncClient"):
        assert f"lk.{name}" in section and name in lk.__all__ and hasattr(lk, name)
