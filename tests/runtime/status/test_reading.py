"""The facts as an embedded broker gives them, at each step of a topology's first minutes; and the
command that prints them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import ldp_kafka
from ldp_kafka.cli import main
from ldp_kafka.records import Report
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.changelog import key_bytes
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.status import sample
from ldp_kafka.runtime.status.reading import read_facts
from ldp_kafka.runtime.status.view import parts_of
from ldp_kafka.runtime.status.waits import waits_for
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.topology import load
from tests.fold import cases
from tests.fold.cases import LATENESS, SLOT, START
from tests.runtime.tools.changelogs import table

SLOTS = 5
FIRST = START // SLOT


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("LDP_KAFKA_BOOTSTRAP", raising=False)


@pytest.fixture
def broker():
    with EmbeddedBroker() as made:
        made.deployment = "here"
        yield made


@pytest.fixture
def fold(broker, tmp_path):
    """A topology of two partitions on an embedded broker that has none of its topics."""
    path = tmp_path / "fold.yaml"
    path.write_text(
        cases.TEXT.format(partitions=2, privacy=cases.CAPP, statistics="[mean]", lateness=LATENESS)
    )
    made = load(path)
    publish(made.name, broker)
    config = {"bootstrap.servers": broker.bootstrap_servers}
    return SimpleNamespace(path=str(path), topology=made, config=config, broker=broker)


def write(fold, topic, partition, values, keys=None, timestamp=START):
    """Records of one partition."""
    producer = Producer({**fold.config, "linger.ms": 0})
    for at, value in enumerate(values):
        key = None if keys is None else keys[at]
        producer.produce(topic, value, key, partition=partition, timestamp=timestamp)
    assert producer.flush(10) == 0


def topics(fold):
    """All of them, without header records, which take their time."""
    for each in fold.topology.flow.topics:
        fold.broker.create_topic(each.name, each.partitions)


def event(slot, user="m1", value=1.0):
    return json.dumps({"user": user, "time": START + slot * SLOT, "value": value}).encode()


def work(fold, logs):
    """What the workers of both roles make of raw logs, and acknowledge."""
    made = fold.topology
    run = local.run(made, cases.randomness(made), logs)
    for number, (log, reports) in enumerate(zip(logs, run.reports, strict=True)):
        write(fold, made.reports_topic, number, [each.value for each in reports])
        admin.commit(fold.config, "fold-perturb", made.raw_topic, {number: len(log) + 1})
        admin.commit(fold.config, "fold-collect", made.reports_topic, {number: len(reports) + 1})
    write(fold, made.partials_topic, 0, [each.value for each in run.partials])
    admin.commit(fold.config, "fold-collect", made.partials_topic, {0: len(run.partials) + 1})
    for each in run.releases:
        write(fold, made.releases_topic, each.partition, [each.value], [each.key])
    merge = table(roles.make(made, made.agent("merge"), 0), local.log(run.partials, 1))
    keys = [key_bytes(key) for key in merge]
    write(fold, made.changelog("collect", "merge"), 0, list(merge.values()), keys)
    return run


def look(fold):
    """The facts, and the rule that has something to say of them."""
    facts = read_facts(fold.topology)
    return facts, waits_for(facts)


def groups(fold):
    """That the broker knows of."""
    found = AdminClient(fold.config).list_consumer_groups(request_timeout=10).result()
    return {each.group_id for each in found.valid}


def test_the_first_minutes(fold):
    """Nothing is there; topics; bad messages; one partition with events; both; workers; ticks."""
    made = fold.topology
    facts, found = look(fold)
    assert found.rule == "topics" and "fold.raw" in found.line
    assert all(each.found is None for each in facts.topics)
    prepare(made, fold.broker)

    facts, found = look(fold)
    assert found.line == "waits for events: fold.raw is empty"
    assert all(each.fits for each in facts.topics) and len(facts.topics) == len(made.topics())
    assert [each.members for each in facts.groups] == [None, None]  # an embedded broker has no word
    assert [each.lag for each in facts.groups] == [0, 0]

    logs = [[], []]

    def add(number, *values):
        at = len(logs[number]) + 1
        logs[number] += cases.log(list(values), at)
        write(fold, made.raw_topic, number, values)

    add(0, b"[", b'{"user": "m1"}', event(0, value=None))
    facts, found = look(fold)
    assert found.rule == "dead_letters"
    assert "all of the 3 messages of fold.raw are dead letters" in found.line
    assert sum(facts.bad.values()) == 3

    add(0, *(event(slot, user) for slot in range(SLOTS) for user in ("m1", "m2")))
    facts, found = look(fold)
    assert found.rule == "idle"
    assert found.line.startswith("waits for partition 1 of fold.raw: it is empty; slot ")
    zero = facts.input[0]
    assert (zero.messages, zero.sampled, zero.events, zero.oldest) == (13, 13, 10, FIRST)
    assert (zero.event, zero.newest) == (FIRST + SLOTS - 1, FIRST + SLOTS - 1)

    add(1, *(event(slot, "m3") for slot in range(SLOTS)))
    facts, found = look(fold)
    assert found.rule == "behind"
    assert "fold-perturb" in found.line and "18 messages of fold.raw" in found.line
    assert facts.through == FIRST + SLOTS - 1 - LATENESS - 1

    run = work(fold, logs)
    assert run.releases
    facts, found = look(fold)
    assert [each.lag for each in facts.groups] == [0, 0]
    assert facts.releases.slot == facts.releases.passed == facts.through
    assert facts.input[1].closed == facts.through
    assert facts.releases.first == FIRST
    assert facts.releases.statistic == "mean" and facts.releases.written == START
    assert found.rule == "open" and found.state == "runs"

    tick = cases.closing(SLOTS)
    add(0, tick)
    add(1, tick)
    assert look(fold)[1].rule == "behind"
    admin.commit(fold.config, "fold-perturb", made.raw_topic, {0: 15, 1: 7})
    slots = local.run(made, cases.randomness(made), logs).releases[len(run.releases) :]
    for each in slots:
        write(fold, made.releases_topic, each.partition, [each.value], [each.key])
    facts, found = look(fold)
    assert found.rule == "current" and found.state == "runs"
    assert (facts.input[0].event, facts.input[0].newest) == (
        FIRST + SLOTS - 1,
        FIRST + SLOTS + LATENESS + 1,
    )


def test_users_in_two_partitions_are_known_to_both_sides(fold, capsys):
    """The edge's login finds them in the raw topic, and the collector's in what was reported."""
    made = fold.topology
    topics(fold)
    both = [event(slot, f"u{user}") for slot in range(8) for user in range(5)]
    alone = [event(slot, "alone") for slot in range(8)]
    tick = cases.closing(8)
    for number, values in enumerate(([*both, *alone, tick], [*both, tick])):
        write(fold, made.raw_topic, number, values, timestamp=START + 10 * SLOT)
    assert main(["status", fold.path]) == 1
    facts, found = look(fold)
    assert (facts.split, facts.second.number) == (5, 0)
    assert (found.rule, found.state) == ("split", "broken")
    logs = [cases.log([*both, *alone, tick], 1), cases.log([*both, tick], 1)]
    work(fold, logs)
    facts, _ = look(fold)
    assert facts.second == (5 * 8, FIRST + 7), "five users in each of eight slots"
    assert waits_for(replace(facts, split=0)).rule == "second_reports"
    assert main(["status", fold.path]) == 1
    out = capsys.readouterr().out
    assert "users reported twice in a slot, at least 40 times" in out
    assert "5 users of the events read are in several partitions" in out


@pytest.mark.parametrize("ahead", [0, 40])
def test_one_clock_ahead_is_named(fold, capsys, ahead):
    """It closes the slots of all others, which no lateness mends."""
    made = fold.topology
    topics(fold)
    write(fold, made.raw_topic, 0, [event(ahead, "fast")])
    for slot in range(6):
        some = [event(slot, f"u{user}") for user in range(5)]
        write(fold, made.raw_topic, 0, some, timestamp=START + slot * SLOT)
    code, out = main(["status", fold.path]), capsys.readouterr().out
    assert (code, "input.lateness takes them" in out) == (bool(ahead), False)
    assert ("input.max_ahead (1h)" in out) == bool(ahead)
    facts, found = look(fold)
    late = 30 if ahead else 0
    assert (facts.input[0].late, facts.input[0].clocks) == (late, late)
    assert (found.rule == "clock") == (found.state == "broken") == bool(ahead)


def test_dead_letters_are_counted_by_reason(fold):
    """With the cure of each."""
    made = fold.topology
    topics(fold)
    bad = [b"[", b"{", b'{"time": 0, "value": 1.0}']
    run = local.run(made, cases.randomness(made), [cases.log(bad), []])
    write(fold, made.dead_letters_topic, 0, [each.value for each in run.dead_letters])
    write(fold, made.dead_letters_topic, 0, [b"none of ours"])
    facts, _ = look(fold)
    edge, collector = facts.letters
    assert (edge.total, edge.sampled, edge.why) == (4, 4, None)
    assert edge.reasons == {"not_json": 2, "user": 1}
    assert (collector.total, collector.reasons) == (0, {})
    told = facts.as_json()["dead_letters"][0]["reasons"]
    assert told[0]["number"] == 2 and told[0]["cure"].startswith("write one JSON object")


def test_of_a_large_topic_the_last_messages_are_read(fold, monkeypatch):
    """And its first ones, for the slot that it began with."""
    made = fold.topology
    prepare(made, fold.broker)
    monkeypatch.setattr(sample, "SAMPLE", 10)
    write(fold, made.raw_topic, 0, [event(slot) for slot in range(40)])
    [zero, _] = look(fold)[0].input
    assert (zero.messages, zero.sampled, zero.events) == (40, 10, 10)
    assert (zero.oldest, zero.event) == (FIRST, FIRST + 39)
    monkeypatch.setattr(sample, "ROOM", 500)
    [zero, _] = look(fold)[0].input
    assert 2 <= zero.sampled < 10


def test_offsets_that_nobody_is_given_are_no_messages(fold):
    """As transactions leave them: what was read to its begin is counted."""
    held = [Kept(0, at, START, None, event(0)) for at in (1, 2, 4)]
    assert sample.of_raw(fold.topology, 0, held).sampled == 3


SHIPPED = sorted((Path(ldp_kafka.__file__).parents[1] / "topologies").glob("*.yaml"))


def test_every_shipped_topology_can_be_asked(broker, monkeypatch, tmp_path):
    """Whatever its roles are, by its first topics."""
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("LDP_KAFKA_BOOTSTRAP", broker.bootstrap_servers)
    assert len(SHIPPED) > 5
    for path in SHIPPED:
        made = load(path)
        for topic in made.flow.topics:
            broker.create_topic(topic.name, topic.partitions)
        facts = read_facts(made)
        assert {each.role for each in facts.groups} == {each.name for each in made.roles}
        assert waits_for(facts).line == f"waits for events: {made.input.topic} is empty"
        wrong = replace(facts.topics[0], found=99)
        assert waits_for(replace(facts, topics=(wrong,))).rule == "partitions"


def test_looking_leaves_nothing_behind(fold):
    """No group, no member, no offset; and no topic."""
    made = fold.topology
    topics(fold)
    write(fold, made.raw_topic, 0, [event(0)])
    before = groups(fold), admin.committed(fold.config, "fold-perturb", made.raw_topic, range(2))
    there = set(AdminClient(fold.config).list_topics(timeout=10).topics)
    look(fold)
    after = groups(fold), admin.committed(fold.config, "fold-perturb", made.raw_topic, range(2))
    assert before == after
    assert set(AdminClient(fold.config).list_topics(timeout=10).topics) == there


DEVICES = """
topology: fleet
kafka: {{bootstrap_servers: "{address}"}}
input: {{source: devices, slot: 1m, partitions: 1, lateness: 0}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""


def test_devices(fold, tmp_path):
    """The input is their reports; the edge has nothing that could be asked."""
    path = tmp_path / "fleet.yaml"
    path.write_text(DEVICES.format(address="embedded"))
    made = load(path)
    publish(made.name, fold.broker)
    prepare(made, fold.broker)
    facts = read_facts(made)
    assert [each.name for each in facts.sides] == ["collector"]
    assert waits_for(facts).line == "waits for reports of devices: fleet.device-reports is empty"
    report = Report("0" * 32, FIRST + 3, 0, 0.0, made.fingerprint)
    strange = Report("0" * 32, FIRST + 3, 0, 0.0, "f" * 32)
    write(fold, made.reports_topic, 0, [encode(strange)], timestamp=START + 2 * SLOT)
    assert waits_for(read_facts(made)).rule == "dead_letters"
    write(fold, made.reports_topic, 0, [encode(report)], timestamp=START + 2 * SLOT)
    [zero] = (facts := read_facts(made)).input
    assert (zero.events, zero.bad) == (1, {"fingerprint": 1})
    # the broker's clock holds it back
    assert (zero.event, zero.newest) == (FIRST + 3, FIRST + 2)
    assert waits_for(facts).rule == "open"


TWO = """
topology: fold
kafka:
  edge: {{bootstrap_servers: "{address}", client: {{sasl.username: a, sasl.password: "{secret}",
    sasl.mechanism: PLAIN, security.protocol: SASL_PLAINTEXT}}}}
  collector: {{bootstrap_servers: "{address}"}}
input: {{slot: 1m, partitions: 2, lateness: 1}}
privacy: {{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}}
output: {{statistics: [mean]}}
"""


def test_a_side_whose_login_is_not_here(fold, tmp_path, capsys):
    """The collector's people see theirs, and why not the rest."""
    topics(fold)
    path = tmp_path / "two.yaml"
    path.write_text(TWO.format(address=fold.broker.bootstrap_servers, secret="${EDGE_PASSWORD}"))
    facts = read_facts(load(path))
    edge, collector = facts.sides
    assert "EDGE_PASSWORD" in edge.not_asked and collector.answers
    assert {each.side for each in facts.topics} == {"collector"}
    assert [each.name for each in facts.groups] == ["fold-collect"]
    assert [each.topic for each in facts.letters] == ["fold.collector.dead-letters"]
    assert "EDGE_PASSWORD" in facts.input_why
    assert [each.messages for each in facts.input] == [None, None]
    assert waits_for(facts).rule == "unknown"
    assert main(["status", str(path)]) == 0
    out = capsys.readouterr().out
    assert "edge: not asked: " in out and "EDGE_PASSWORD" in out


def test_no_side_can_be_asked(tmp_path, capsys):
    """That is a wrong configuration here."""
    text = TWO.format(address="${NOWHERE}", secret="${EDGE_PASSWORD}")
    path = tmp_path / "two.yaml"
    path.write_text(text)
    assert main(["status", str(path)]) == 2
    assert "EDGE_PASSWORD" in capsys.readouterr().err


def test_no_broker_answers(tmp_path):
    """It is said in time."""
    path = tmp_path / "away.yaml"
    path.write_text(DEVICES.format(address="127.0.0.1:1"))
    facts = read_facts(load(path), timeout=0.5)
    found = waits_for(facts)
    assert found.state == "broken"
    assert found.line.startswith("waits for brokers that do not answer: collector: 127.0.0.1:1")
    assert len(list(parts_of(facts))) == 3


def test_the_command(fold, capsys):
    """Its last line says what is waited for; 1 where somebody has to do something."""
    assert main(["status", fold.path]) == 1
    assert "are not there" in capsys.readouterr().out.splitlines()[-1]
    prepare(fold.topology, fold.broker)
    assert main(["status", fold.path]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "fold: waits for events: fold.raw is empty"
    assert "topics: all" in out and "fold-perturb" in out
    login = Path(fold.path).with_name("reader.conf")
    login.write_text("client.id=reader\n")
    assert main(["status", fold.path, "--login", str(login)]) == 0
    login.write_text("security.protcol=SASL_SSL\n")
    capsys.readouterr()
    assert main(["status", fold.path, "--login", str(login)]) == 2
    assert "security.protocol" in capsys.readouterr().err
    bad = {"user": "secret-id", "time": "77:77", "value": 9.87654}
    write(fold, fold.topology.raw_topic, 0, [json.dumps(bad).encode()])
    assert main(["status", fold.path, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert list(found) == [
        *("topology", "waits_for", "brokers", "topics", "groups", "input", "dead_letters"),
        "second_reports",
        "releases",
    ]
    assert found["waits_for"].keys() == {"rule", "state", "line"}
    assert found["waits_for"]["rule"] == "dead_letters"
    assert found["input"]["partitions"][0]["bad"] == {"time": 1}
    # no value is shown, nor an id, nor a time of an event but its slot
    good = {"user": "no-such-meter", "time": START + 3 * SLOT + 17_017, "value": 9.87654}
    write(fold, fold.topology.raw_topic, 0, [json.dumps(good).encode()])
    for more in ([], ["--json"]):
        assert main(["status", fold.path, *more]) == 0
        said = "".join(capsys.readouterr())
        for secret in ("no-such-meter", "secret-id", "77:77", "9.87654", "17017", "17.017"):
            assert secret not in said


def test_events_that_come_when_their_slot_is_closed(fold):
    """By what came before them among the messages that were read: so many as the worker counts."""
    slots = [0, LATENESS, LATENESS + 1, 0, LATENESS + 4, 3, 4, 2, LATENESS + 4]
    held = [Kept(0, at, START + 9 * SLOT, None, event(slot)) for at, slot in enumerate(slots, 1)]
    found = sample.of_raw(fold.topology, 0, held)
    assert (found.events, found.late) == (len(slots), 3)
    noise, log = cases.randomness(fold.topology), cases.log([event(slot) for slot in slots])
    assert local.run(fold.topology, noise, [log, []]).counts["late"] == 3
    facts = replace(read_facts(fold.topology), input=(found,))
    (line,) = [line for part in parts_of(facts) for line in part.lines if "closed" in line]
    assert line.startswith("3 of the 9 events read come when their slot is closed")
