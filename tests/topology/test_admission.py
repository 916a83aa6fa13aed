"""What a budget file lets run: contributions count whole values, and what is retired counts for
ever where the broker lets records be stamped however far ahead.
"""

from __future__ import annotations

import json
import time

import pytest

from ldp_kafka.accounting.admission import contributions
from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka import setup
from ldp_kafka.runtime.worker import supervisor as runner
from ldp_kafka.topology import admission, admit, load, plan
from ldp_kafka.topology.stamps import APPENDED, UNBOUNDED, Stamps
from tests.cases import cases

DAY = 86_400_000
T2027 = 1_798_761_600_000  # 2027-01-01
FREE = T2027 + 2 * DAY + 7 * DAY + 23 * 3_600_000  # max_ahead twice, kept, a run

WINDOWS = """\
topology: {name}
kafka: {{bootstrap_servers: "{servers}"}}
input: {{topic: meters.raw, slot: 1h{input}}}
privacy: {{method: naive, delay: 4, epsilon: {epsilon}, window: 24, domain: [{domain}]{more}}}
output: {{statistics: [{statistic}]}}
edge: {{budget_file: edge.yaml}}
"""
EDGE = """\
edge: household-meters
raw_topic: meters.raw
limit: {epsilon: 3.0, window: 23h}
kept: 7d
admits:
  - {topology: a.yaml, until: 2027-01-01}
  - {topology: b.yaml}
"""


def written(folder, name, **how):
    """A topology of this name in a folder, beside a budget file."""
    usual = {"name": name, "servers": "embedded", "input": "", "epsilon": 2.0, "domain": "0, 10"}
    given = {**usual, "more": "", "statistic": "per_user", **how}
    (folder / f"{name}.yaml").write_text(WINDOWS.format(**given))
    return load(folder / f"{name}.yaml")


@pytest.fixture
def house(tmp_path):
    """Two topologies, of which the second has room when the first counts no longer."""

    def write(edge=EDGE, **how):
        (tmp_path / "edge.yaml").write_text(edge)
        return written(tmp_path, "a", **how), written(tmp_path, "b", **how)

    return write


@cases(
    ("domain", "contribution", "steps"),
    [
        ("0, 10", "10", 1),
        ("0, 10", "9.999", 2),
        ("0, 10", "2.5", 4),
        ("-5, 5", "3", 4),
        ("0, 1.1", "0.1", 11),  # as they are written: 1.1 / 0.1 in floating point is more
    ],
)
def test_a_contribution_is_counted_for_the_whole_value(tmp_path, domain, contribution, steps):
    """What hides a part of a value loses as many times its epsilon of all of it: of any of a user's
    values a limit speaks.
    """
    (tmp_path / "edge.yaml").write_text(EDGE.replace("  - {topology: b.yaml}\n", ""))
    for trust, statistic in (("edge", "per_user"), ("curator", "per_stream")):
        # in one sum many events of one user may lie
        for per_slot in ("last", "sum") if domain == "0, 10" else ("last",):
            made = written(
                tmp_path,
                "a",
                domain=domain,
                epsilon=0.5,
                more=f", contribution: {contribution}, trust: {trust}",
                input=f", per_slot: {per_slot}",
                statistic=statistic,
            )
            found = admission(made, 0)
            [claim] = found.as_json()["admits"][0]["claims"]
            assert claim["requested"]["epsilon"] == 0.5 * steps
            assert bool(found.refusals) == (0.5 * steps > 3)


def test_a_value_in_the_open_is_not_admitted(tmp_path):
    """A thousandth of the domain at epsilon 1: any two values a thousand steps apart."""
    (tmp_path / "edge.yaml").write_text(EDGE)
    written(tmp_path, "b")
    made = written(tmp_path, "a", epsilon=1.0, more=", contribution: 0.01")
    with pytest.raises(
        ConfigurationError, match=r"requested by a epsilon 1000, .* limit epsilon 3: 997 too much"
    ):
        admit(made, 0)
    assert (
        "  a  1 x 1,000 contributions in a slot's whole value x 1 window of 24 slots"
        in "\n".join(plan(made, now_ms=0).lines())
    )


def test_contributions_reach_from_any_value_to_any_other():
    """No fewer steps of so much do, and so many do."""
    for lo, hi, one in ((0.0, 10.0, 3.0), (-5.0, 5.0, 2.0), (0.0, 0.7, 0.1), (0.0, 1.0, 1e-9)):
        steps = contributions((lo, hi), one)
        assert (steps - 1) * one < hi - lo <= steps * one * (1 + 1e-12)
    assert contributions((0.0, 10.0), None) == 1


@cases(
    ("more", "warned"), [(", contribution: 2", True), (", contribution: 10", False), ("", False)]
)
def test_a_plan_warns_of_a_contribution_below_the_domain(tmp_path, more, warned):
    """At the edge, where a value is all of one user's."""
    (tmp_path / "edge.yaml").write_text(EDGE)
    written(tmp_path, "b")
    found = plan(written(tmp_path, "a", more=more), now_ms=0).warnings
    said = (
        "contribution is less than the domain's length: noise hides a change of a slot's value by"
        " 2, and none by as much as 10, which loses up to 5 times as much, epsilon 10;"
    )
    assert any(warning.startswith(said) for warning in found) == warned
    assert any(warning.startswith("contribution") for warning in found) == warned


@cases(
    ("stamps", "frees"),
    [
        (APPENDED, True),
        (Stamps("CreateTime", DAY), True),
        (Stamps("CreateTime", DAY + 1), False),
        (Stamps("CreateTime"), False),
        (UNBOUNDED, False),
    ],
)
def test_what_is_retired_is_freed_by_the_brokers_clock_alone(house, stamps, frees):
    """A producer's clock may be years ahead, and so may be what the retired one has read."""
    _, b = house()
    with pytest.raises(ConfigurationError, match="too much"):
        admit(b, FREE, stamps)
    if frees:
        assert admit(b, FREE + 1, stamps) is None
        return
    for now in (FREE + 1, FREE + 10_000 * DAY):
        with pytest.raises(
            ConfigurationError,
            match=(
                r"room for it: never, since nobody knows how late the values are that the retired"
                r" ones have read\n.*edge\.yaml: .*meters\.raw .*counts for ever"
            ),
        ):
            admit(b, now, stamps)


def test_nothing_is_freed_unasked(house):
    """Whoever does not ask the broker has no room."""
    _, b = house()
    with pytest.raises(ConfigurationError, match=r"the broker of meters\.raw says nothing"):
        admit(b, FREE + 1)


def test_each_retired_one_is_held_against_its_own_max_ahead(tmp_path, house):
    """What one has read may be later than what another has."""
    house()
    written(tmp_path, "a", input=", max_ahead: 1h")
    b = load(tmp_path / "b.yaml")
    hour = Stamps("CreateTime", 3_600_000)
    assert admit(b, FREE - 2 * DAY + 2 * 3_600_000 + 1, hour) is None
    with pytest.raises(
        ConfigurationError,
        match=(
            r"topic meters\.raw has message\.timestamp\.type=CreateTime and"
            r" message\.timestamp\.after\.max\.ms 3600001: .* set"
            r" message\.timestamp\.type=LogAppendTime, or message\.timestamp\.after\.max\.ms of"
            r" at most 3600000 \(1h\)"
        ),
    ):
        admit(b, FREE, hour._replace(ahead_ms=3_600_001))


def test_a_plan_says_what_it_takes_for_granted(house, capsys):
    """It asks no broker, and run does. Where nothing is retired, or nothing is ever freed, nothing
    hangs on it.
    """
    _, b = house()
    found = plan(b, now_ms=FREE + 1)
    said = (
        "a topology that is retired counts for ever unless topic meters.raw has"
        " message.timestamp.type=LogAppendTime, or message.timestamp.after.max.ms of at most"
        " 86400000 (1d): run asks its broker, a plan does not"
    )
    assert not found.edge_budget.refusals
    assert f"  assumed: {said}" in found.lines()
    assert found.as_json()["edge_budget"]["assumes"] == said
    for edge in (EDGE.replace(", until: 2027-01-01", ""), EDGE.replace("kept: 7d\n", "")):
        _, b = house(edge)
        assert plan(b, now_ms=0).edge_budget.assumes is None
    assert main(["plan", b.file, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["edge_budget"]["assumes"] is None


@pytest.fixture
def started(monkeypatch):
    """Starts a perturb role by what a broker says of the raw topic."""

    def start(topology, settings):
        asked = []

        def answer(config, topic, **_):
            asked.append((config["bootstrap.servers"], topic))
            return settings

        logged = []
        monkeypatch.setenv("LDP_KAFKA_EDGE_KEY", "00" * 31 + "01")
        monkeypatch.setattr("ldp_kafka.runtime.kafka.setup.admin.settings_of", answer)
        monkeypatch.setattr(runner, "_ready", lambda *_: None)
        monkeypatch.setattr("ldp_kafka.runtime.kafka.deployment.read_deployment", lambda *_: "here")
        monkeypatch.setattr("ldp_kafka.runtime.worker.app.work", lambda *_, **__: 0)
        monkeypatch.setattr(
            runner.Log, "say", lambda _, event, **more: logged.append((event.name, more))
        )
        monkeypatch.setattr(time, "time_ns", lambda: (FREE + 1) * 1_000_000)
        code = runner.run(topology, role="perturb")
        return code, asked, [more["message"] for name, more in logged if name == "BUDGET"]

    return start


BOUNDED = {"message.timestamp.type": "LogAppendTime"}
FAR = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "9223372036854775807",
}


def test_a_start_asks_the_broker(house, started):
    """It runs where the answer is a bound; else it is refused, and a log line says what to set."""
    _, b = house(servers="b:1")
    assert started(b, BOUNDED) == (0, [("b:1", "meters.raw")], [])
    hour = {**FAR, "message.timestamp.after.max.ms": "3600000"}  # the default from Kafka 4.0 on
    assert started(b, hour) == (0, [("b:1", "meters.raw")], [])
    with pytest.raises(ConfigurationError, match=r"counts for ever; set message\.timestamp\.type"):
        started(b, FAR)


def test_a_start_that_needs_no_room_says_what_to_set(house, started):
    """Before anything is retired: the setting must hold while the retired one runs."""
    _, b = house(EDGE.replace(", until: 2027-01-01", "").replace("3.0", "4.0"), servers="b:1")
    code, asked, [said] = started(b, FAR)
    assert (code, asked) == (0, [("b:1", "meters.raw")])
    assert said.startswith("topic meters.raw has message.timestamp.type=CreateTime and")
    assert "--entity-name meters.raw --add-config message.timestamp.type=LogAppendTime" in said


def test_nobody_is_asked_where_nothing_is_ever_freed(house, started):
    """Without ``kept`` a broker has no say."""
    _, b = house(EDGE.replace("kept: 7d\n", "").replace("3.0", "4.0"), servers="b:1")
    assert started(b, FAR) == (0, [], [])


def test_who_relays_asks_of_the_topic_that_is_copied(house, started):
    """Its records keep their timestamps."""
    _, b = house(servers="b:1", input=", relay: true")
    assert b.raw_topic == "b.edge"
    assert started(b, BOUNDED) == (0, [("b:1", "meters.raw")], [])


def test_an_embedded_broker_has_no_clock_to_ask(house, monkeypatch, tmp_path):
    """It keeps nothing either; what is retired in its file counts for ever."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker

    a, _ = house()
    with EmbeddedBroker() as broker:
        setup.prepare(a, broker)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        assert setup.read_stamps(a, config) == UNBOUNDED
