"""Exactly one report for each (user, slot, phase): a replay's repeats are none the worse, a second
draw is found, and with the key whatever is not what the raw log gives.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from confluent_kafka import Producer

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Reports
from ldp_kafka.runtime import local
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.tools import prove_once
from ldp_kafka.runtime.tools.prove_once import Due, read_held, recompute
from ldp_kafka.runtime.tools.report_index import compare
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from ldp_kafka.topology import load, loads
from tests.fold import cases

LOGS = cases.wild(3)
BITS = "{method: lpu, mechanism: oue, epsilon: 2.0, window: 2, categories: 11}"
TOPOLOGIES = [
    pytest.param(cases.topology(), id="capp"),
    pytest.param(
        cases.topology(
            privacy="{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}",
            statistics="[mean]",
        ),
        id="sw_direct",
    ),
    pytest.param(cases.topology(privacy=BITS, statistics="[frequencies]"), id="bits"),
]


def logs_of(topology):
    """Numbers, or categories."""
    if topology.method.kind == "numeric":
        return LOGS
    events = [
        [
            (f"u{number}.{user}", cases.START + slot * cases.SLOT, (user + slot) % 11)
            for slot in range(8)
            for user in range(9)
        ]
        for number in range(2)
    ]
    return [
        cases.log([cases.batch(mine[at : at + 3]) for at in range(0, len(mine), 3)])
        for mine in events
    ]


def reports_of(topology, *, key=cases.KEY):
    """What the edge writes, as a topic keeps it."""
    run = local.run(topology, edge_randomness(topology, key, cases.HERE), logs_of(topology))
    return [
        Kept(number, offset, -1, None, record.value)
        for number, log in enumerate(run.reports)
        for offset, record in enumerate(log, 1)
    ]


def raw(topology):
    return [
        Kept(number, message.offset, message.timestamp, None, message.value)
        for number, log in enumerate(logs_of(topology))
        for message in log
    ]


def changed(record, change):
    """A record of reports with its last row's value changed."""
    batch = read_reports(record.value)
    values = batch.values.copy()
    values[-1] = change(values[-1])
    made = Reports(
        batch.ids,
        batch.slots,
        values,
        batch.scale,
        batch.fingerprint,
        batch.bound,
        batch.closed,
        batch.chunk,
        batch.phase,
        batch.series,
    )
    return record._replace(value=write_reports(made))


def full(records):
    return next(
        record
        for record in records
        if (batch := read_reports(record.value)) is not None and len(batch)
    )


EVERYTHING = dict.fromkeys(range(2), Due(acknowledged=10**9))


def judged(topology, records, due=EVERYTHING, key=cases.KEY):
    held, unreadable, _ = read_held(records)
    expected = recompute(
        topology, edge_randomness(topology, key, cases.HERE), raw(topology), due, held.seed
    )
    assert expected.scattered_users == 0
    return compare(held, expected.reports), held, expected.reports, unreadable


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_what_the_edge_wrote_is_what_the_raw_log_gives(topology):
    """Twice or once, in any order of messages; and as many as its own judge counts."""
    records = reports_of(topology)
    found, held, expected, unreadable = judged(topology, records + records[::2])
    assert (found.second, found.missing, found.different, found.unexpected, unreadable) == (
        0,
        0,
        0,
        0,
        0,
    )
    assert found.ids == expected.reports > 20
    assert held.reports - held.repeats == found.ids
    assert held.repeats > 0


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_doctored_second_report_is_found(topology):
    """Without any key; with it, which one is wrong too."""
    records = reports_of(topology)
    records.append(changed(full(records), lambda value: value ^ 1))
    found, *_ = judged(topology, records)
    assert (found.second, found.missing, found.different, found.unexpected) == (1, 0, 1, 0)
    assert compare(read_held(records)[0]).second == 1


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_what_is_missing_different_or_unexpected_is_found(topology):
    """By the key alone: nothing of it is a second report."""
    records = reports_of(topology)
    one = full(records)
    rows = len(read_reports(one.value))
    at = records.index(one)
    found, *_ = judged(topology, records[:at] + records[at + 1 :])
    assert (found.second, found.missing, found.different, found.unexpected) == (0, rows, 0, 0)
    records[at] = changed(one, lambda value: value ^ 1)
    found, *_ = judged(topology, records)
    assert (found.second, found.missing, found.different, found.unexpected) == (0, 0, 1, 0)
    stranger = read_reports(one.value)
    other = Reports(
        stranger.ids + 1,
        *(
            getattr(stranger, name)
            for name in (
                "slots",
                "values",
                "scale",
                "fingerprint",
                "bound",
                "closed",
                "chunk",
                "phase",
                "series",
            )
        ),
    )
    found, *_ = judged(
        topology, [*records[:at], one, *records[at + 1 :], one._replace(value=write_reports(other))]
    )
    assert (found.second, found.missing, found.different, found.unexpected) == (0, 0, 0, rows)


SAME = [(0, slot) for slot in range(3)] + [(1, slot) for slot in range(3)]
APART = [(0, slot) for slot in range(3)] + [(1, slot) for slot in range(3, 6)]


def strayed(events):
    """Logs of two partitions: of two users who stay, and of one who is where ``events`` say, in
    (partition, slot); each value follows from the slot.
    """
    logs = []
    for number in range(2):
        slots = [slot for at, slot in events if at == number]
        rows = [("astray", slot) for slot in slots] + [(f"u{number}", slot) for slot in range(6)]
        logs.append(
            cases.log(
                [
                    cases.batch([(user, cases.START + slot * cases.SLOT, slot)])
                    for user, slot in sorted(rows, key=lambda row: row[1])
                ]
            )
        )
    return logs


def noted(logs):
    """As a raw topic keeps them."""
    return [
        Kept(number, message.offset, message.timestamp, None, message.value)
        for number, log in enumerate(logs)
        for message in log
    ]


def told(topology, logs, noise):
    """What the edge writes of them, as a topic keeps it."""
    return [
        Kept(number, offset, -1, None, record.value)
        for number, log in enumerate(local.run(topology, noise, logs).reports)
        for offset, record in enumerate(log, 1)
    ]


@pytest.mark.parametrize(
    ("events", "ids", "users"),
    [
        pytest.param(SAME, 3, 1, id="the-same-report-twice"),
        pytest.param(APART, 0, 1, id="never-twice-in-a-slot"),
        pytest.param(APART[:3], 0, 0, id="at-home"),
    ],
)
def test_a_user_in_several_partitions_is_found(events, ids, users):
    """By the reports where they say the same of one slot, which is no second report; by the raw
    log wherever the user reports. Where it all lies in order nothing is said.
    """
    topology, logs = TOPOLOGIES[1].values[0], strayed(events)
    noise = edge_randomness(topology, cases.KEY, "here")
    held, _, _ = read_held(told(topology, logs, noise))
    made = recompute(topology, noise, noted(logs), EVERYTHING, held.seed)
    alone, found = compare(held), compare(held, made.reports)
    assert (alone.scattered, alone.second) == (found.scattered, found.second) == (ids, 0)
    assert (found.missing, found.different, found.unexpected) == (0, 0, 0)
    assert made.scattered_users == users


def test_users_whom_the_edge_sends_away_are_in_one_partition():
    """Where the partitioner is verified: what lies elsewhere is a dead letter and nobody's
    budget.
    """
    text = cases.TEXT.format(
        partitions=2, privacy=cases.CAPP, statistics="[mean]", lateness=1
    ).replace("input: {", "input: {partitioning: murmur2, ")
    topology, logs = loads(text), strayed(APART)
    noise = edge_randomness(topology, cases.KEY, "here")
    made = recompute(topology, noise, noted(logs), EVERYTHING, 1)
    assert (made.scattered_users, made.reports.reports > 0) == (0, True)


@pytest.mark.parametrize(("events", "ids"), [(SAME, 3), (APART, 0)])
def test_the_command_tells_of_a_user_in_several_partitions(
    events, ids, tmp_path, monkeypatch, capsys
):
    """Whatever the alert says of it, so does the command: in words, in JSON, by its exit code, and
    without saying who it is.
    """
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("LDP_KAFKA_BOOTSTRAP", raising=False)
    path, key = tmp_path / "fold.yaml", tmp_path / "edge.key"
    privacy = "{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}"
    path.write_text(
        cases.TEXT.format(partitions=2, privacy=privacy, statistics="[mean]", lateness=1)
    )
    key.write_bytes(cases.KEY)
    key.chmod(0o600)
    made, logs = load(path), strayed(events)
    with EmbeddedBroker() as broker:
        publish(made.name, broker)
        prepare(made, broker)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        noise = edge_randomness(made, cases.KEY, read_deployment(made, config))
        write(config, made.raw_topic, noted(logs))
        write(config, made.reports_topic, told(made, logs, noise))
        said = []
        for more in ([], ["--key-file", str(key)]):
            assert main(["prove-once", str(path), *more]) == (1 if ids or more else 0)
            said.append(capsys.readouterr().out)
        assert main(["prove-once", str(path), "--key-file", str(key), "--json"]) == 1
        said.append(capsys.readouterr().out)
    alone, text, data = said
    assert f"0 ids have a second report, {ids} are in several partitions" in alone
    assert "1 users are in several partitions of the raw topic, with a budget in each" in text
    found = json.loads(data)
    assert not found["clean"]
    assert (found["scattered"], found["scattered_users"], found["second"]) == (ids, 1, 0)
    assert (found["missing"], found["different"], found["unexpected"]) == (0, 0, 0)
    digest = noise.digests(Ids.of(["astray"]))[0]
    names = ("astray", digest.tobytes().hex(), *(f"{half:x}" for half in digest.tolist()))
    assert not [name for name in names if name in alone + text + data]


def test_fresh_noise_is_found():
    """A worker with another key redraws everything that it reads again."""
    topology = cases.topology()
    first, again = reports_of(topology), reports_of(topology, key=bytes(reversed(cases.KEY)))
    assert compare(read_held(first + again)[0]).second == 0  # other ids too: only the key tells
    found, *_ = judged(topology, first + again)
    assert found.unexpected == found.ids / 2


def test_what_is_not_due_is_not_missing():
    """Messages that nobody has acknowledged may not have been read yet."""
    topology = cases.topology()
    records = [record for record in reports_of(topology) if read_reports(record.value).bound < 10]
    assert judged(topology, records)[0].missing > 0
    assert (
        judged(topology, records, due=dict.fromkeys(range(2), Due(first=0, last=10)))[0].missing
        == 0
    )


DUE = [  # of a bound with this number, of messages up to this offset
    (Due(), (0, 0), False),
    (Due(acknowledged=1), (0, 0), True),
    (Due(acknowledged=10), (3, 9), True),
    (Due(acknowledged=10), (3, 10), False),
    (Due(acknowledged=10, first=2, last=20), (0, 30), True),
    (Due(acknowledged=10, first=2, last=20), (19, 30), True),
    (Due(acknowledged=10, first=2, last=20), (20, 30), False),
    (Due(acknowledged=10, first=4, last=7, whole=False), (4, 9), False),
    (Due(acknowledged=10, first=4, last=7, whole=False), (5, 9), True),
    (Due(acknowledged=10, first=4, last=7, whole=False), (8, 9), True),
    (Due(acknowledged=10, whole=False), (3, 9), False),
]


@pytest.mark.parametrize(("due", "batch", "held"), DUE)
def test_what_is_due(due, batch, held):
    """What was acknowledged or held already; of a topic whose beginning is gone what it still
    holds.
    """
    assert due.holds(*batch) is held


def test_numbers_of_an_older_version_say_nothing_of_what_is_due():
    """They are offsets of messages: only what was acknowledged must be held."""
    records = reports_of(cases.topology())
    single = next(r for r in records if r.partition == 0 and r.value.startswith(b"{"))
    older = single._replace(value=single.value.replace(b'"bound"', b'"offset"'))
    _, unreadable, found = read_held([*records, older])
    assert unreadable == 0
    assert found[0] == Due()
    assert found[1].last is not None


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A topology on an embedded broker: its raw log, and the reports of it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("LDP_KAFKA_BOOTSTRAP", raising=False)
    path = tmp_path / "fold.yaml"
    path.write_text(
        cases.TEXT.format(
            partitions=2, privacy=cases.CAPP, statistics="[mean, per_user]", lateness=1
        )
    )
    made = load(path)
    key = tmp_path / "edge.key"
    key.write_bytes(cases.KEY)
    key.chmod(0o600)
    with EmbeddedBroker() as broker:
        broker.deployment = "here"
        publish(made.name, broker)
        prepare(made, broker)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        write(config, made.raw_topic, raw(made))
        write(config, made.reports_topic, reports_of(made))
        admin.commit(
            config,
            made.group("perturb"),
            made.raw_topic,
            {number: len(log) + 1 for number, log in enumerate(LOGS)},
        )
        yield made, config, str(path), str(key)


def write(config, topic, records):
    producer = Producer({**config, "linger.ms": 0})
    for record in records:
        producer.produce(topic, record.value, partition=record.partition, timestamp=cases.START)
    assert producer.flush(10) == 0


def test_the_command(kept, capsys):
    """0 and 1, in words and JSON; with the key whatever the raw log gives is compared."""
    made, config, path, key = kept
    records = reports_of(made)
    assert main(["prove-once", path]) == 0
    assert "0 ids have a second report" in capsys.readouterr().out
    write(config, made.reports_topic, records[:4])
    write(config, made.reports_topic, [Kept(0, 0, -1, None, b"no report")])
    assert main(["prove-once", path, "--key-file", key, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["clean"] and found["recomputed"]
    assert (
        found["second"],
        found["missing"],
        found["different"],
        found["unexpected"],
        found["unreadable"],
    ) == (0, 0, 0, 0, 1)
    assert found["expected"] == found["ids"] == found["reports"] - found["repeats"] > 40
    assert found["repeats"] > 0
    write(config, made.reports_topic, [changed(full(records), lambda value: value + 1)])
    assert main(["prove-once", path]) == 1
    assert "1 ids have a second report" in capsys.readouterr().out
    assert main(["prove-once", path, "--key-file", key]) == 1
    assert "0 missing, 1 different, 0 unexpected" in capsys.readouterr().out


def test_another_key_is_recognised(kept, capsys, tmp_path):
    """All would look unexpected: it says what that means."""
    _, _, path, _ = kept
    other = tmp_path / "other.key"
    other.write_bytes(bytes(reversed(cases.KEY)))
    other.chmod(0o600)
    assert main(["prove-once", path, "--key-file", str(other)]) == 1
    assert "none of the ids comes from this key" in capsys.readouterr().out


def test_a_report_that_was_acknowledged_and_is_not_there(kept, capsys):
    """The group says that a message was done; nothing answers it."""
    made, config, path, key = kept
    write(
        config,
        made.raw_topic,
        [Kept(0, 0, -1, None, cases.batch([("late.comer", cases.START + 40 * cases.SLOT, 1.0)]))],
    )
    assert main(["prove-once", path, "--key-file", key]) == 0  # not read yet
    admin.commit(config, made.group("perturb"), made.raw_topic, {0: len(LOGS[0]) + 2})
    capsys.readouterr()
    assert main(["prove-once", path, "--key-file", key]) == 1
    assert "1 missing" in capsys.readouterr().out


def test_a_raw_log_that_lost_its_beginning_is_not_enough(kept, monkeypatch):
    """Its reports depend on what is gone."""
    made, _, _, _ = kept
    real = prove_once.spans

    def cut(config, topic):
        return {
            number: (2 if topic == made.raw_topic else first, end)
            for number, (first, end) in real(config, topic).items()
        }

    monkeypatch.setattr(prove_once, "spans", cut)
    with pytest.raises(StateError, match="begins at offset 2"):
        prove_once.prove(made, cases.KEY)
    assert prove_once.prove(made).clean


def test_what_expired_is_said(kept, monkeypatch):
    """Of reports that the topic no longer holds nothing is missing, and nothing is proved."""
    made, _, _, _ = kept
    real = prove_once.spans

    def cut(config, topic):
        return {
            number: (4 if topic == made.reports_topic else first, end)
            for number, (first, end) in real(config, topic).items()
        }

    monkeypatch.setattr(prove_once, "spans", cut)
    found = prove_once.prove(made, cases.KEY)
    assert found.clean and found.expected > found.ids
    assert found.begins == {0: 4, 1: 4}
    assert any("nothing is said" in line for line in found.lines())


def test_reports_of_devices():
    """They answer no raw message: compared with each other they are like any, and there is nothing
    to make them of once more.
    """

    def report(value):
        made = Reports(
            np.array([[1, 2]], np.uint64),
            np.array([5]),
            np.array([value]),
            1.0,
            "ab" * 16,
            -1,
            None,
        )
        return Kept(0, 1, -1, None, write_reports(made))

    assert compare(read_held([report(1), report(1)])[0]).second == 0
    assert compare(read_held([report(1), report(2)])[0]).second == 1
    elsewhere = report(1)._replace(partition=1)
    assert compare(read_held([report(1), elsewhere])[0]).scattered == 1
    text = cases.TEXT.format(
        partitions=1, privacy=cases.CAPP, statistics="[mean]", lateness=1
    ).replace("input: {", "input: {source: devices, ")
    with pytest.raises(ConfigurationError, match="no raw topic"):
        prove_once.prove(loads(text), cases.KEY)
