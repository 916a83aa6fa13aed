"""The operator's tools on a real broker: a sound state, an old changelog and the way out of it, and
a second report that somebody wrote.
"""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ldp_kafka.accounting.words import moment
from ldp_kafka.cli import main
from ldp_kafka.records import Reports
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.changelog import compacted, key_bytes
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.tools import state
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from tests.broker.flow import SLOT, START, Flow
from tests.broker.watching import until

USERS = 80


@pytest.fixture
def flow(kafka, tmp_path, prefix):
    with Flow(kafka, tmp_path, prefix) as made:
        yield made


def put_back(flow: Flow, name: str, old: dict[str, bytes]) -> None:
    """A changelog as it was once: what a restored backup holds."""
    producer = Producer({"bootstrap.servers": flow.boot})
    for key in compacted({"bootstrap.servers": flow.boot}, name).keys() - old.keys():
        producer.produce(name, None, key_bytes(key), partition=int(place_of(key).split("/")[0]))
    for key, value in old.items():
        producer.produce(name, value, key_bytes(key), partition=int(place_of(key).split("/")[0]))
    assert producer.flush(20) == 0


def said(capsys, *words) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(words))
    found = capsys.readouterr()
    return code, found.out, found.err


def prove(flow: Flow, capsys) -> dict:
    _, out, _ = said(
        capsys,
        "prove-once",
        str(flow.path),
        "--key-file",
        str(flow.path.with_suffix(".key")),
        "--json",
    )
    return json.loads(out)


def halted(flow: Flow, role: str) -> str:
    """Start a role that has something to read, and wait for its end; what it said."""
    before = flow.log_path.stat().st_size
    process = flow.start(role)
    assert process.wait(60) == 1
    flow.workers.remove((role, process))
    return flow.log_path.read_text()[before:]


def rewound(flow: Flow, capsys, role: str, moves: int) -> None:
    """By the command that the worker named: what it would do, and done."""
    ask = ("state", "rewind", str(flow.path), "--role", role)
    code, out, err = said(capsys, *ask)
    assert code == 0 and "nothing was done" in out, err
    code, out, err = said(capsys, *ask, "--yes")
    assert code == 0 and out.count("went back") == moves, err
    assert said(capsys, "state", "verify", str(flow.path), "--role", role)[0] == 0


def test_the_ways_out(flow, capsys, monkeypatch):
    """An old changelog of the edge, none of the collector, and a new key between; at the end judge,
    verifier and proof find everything in order, and the proof a second report.

    Each worker halts and names the command. The command refuses while somebody works. The key is
    rotated where it would do most harm: the state is older than what was reported, and the log
    holds events that nobody has read.
    """
    rnd, path = random.Random(8), str(flow.path)
    name = flow.topology.changelog("perturb", "perturb")
    flow.start("collect"), flow.start("perturb")
    for t in range(6):
        flow.slot(rnd, t, USERS)
    flow.until_acknowledged()
    code, out, _ = said(capsys, "state", "verify", path)
    assert code == 0, out
    old = compacted({"bootstrap.servers": flow.boot}, name)
    for t in range(6, 12):
        flow.slot(rnd, t, USERS)
    flow.until_acknowledged()
    with monkeypatch.context() as patch:
        patch.setattr(state, "PATIENCE", -60.0)
        for ask in (
            ("state", "rewind", path, "--role", "perturb", "--yes"),
            ("key", "rotate", path, "--yes"),
        ):
            code, _, err = said(capsys, *ask)
            assert code == 1 and "has 1 members: stop its workers first" in err
    flow.stop()
    put_back(flow, name, old)
    for table in ("collect", "merge"):
        put_back(flow, flow.topology.changelog("collect", table), {})
    before = prove(flow, capsys)
    assert before["clean"] and not before["repeats"]

    code, out, _ = said(capsys, "state", "verify", path, "--role", "perturb")
    assert code == 1 and out.count("perturb partition") == out.count(": current: ") == 2, out
    flow.slot(rnd, 12, USERS)  # a partition is loaded when there is something to fold
    assert "`ldp-kafka state rewind`" in halted(flow, "perturb")
    rewound(flow, capsys, "perturb", 2)

    code, out, err = said(capsys, "key", "rotate", path, "--yes", "--json")
    assert code == 0, err
    assert json.loads(out)["begins"] == moment((START + 13) * SLOT)
    assert said(capsys, "state", "verify", path, "--role", "perturb")[0] == 0
    flow.start("perturb")
    assert "`ldp-kafka state rewind`" in halted(flow, "collect")
    rewound(flow, capsys, "collect", 3)

    flow.start("collect")
    for t in range(13, 16):
        flow.slot(rnd, t, USERS)
    flow.finish(16)
    verdict = flow.settled()
    assert verdict.clean and verdict.reports > 800 and verdict.releases > 800, verdict
    found = prove(flow, capsys)
    assert found["clean"] and found["expected"] == found["ids"] == verdict.reports
    assert found["repeats"] > 200, "what was read again must have been reported again"
    until(lambda: said(capsys, "state", "verify", path)[0] == 0)
    code, out, _ = said(capsys, "state", "inspect", path, "--json")
    parts = json.loads(out)["partitions"]
    assert code == 0 and sum(part.get("users", 0) for part in parts) == USERS
    assert all(0 < part["spent"] <= part["budget"] for part in parts if part["table"] == "perturb")
    second(flow, capsys)


def test_what_the_log_has_lost_is_skipped(kafka, tmp_path, prefix, capsys):
    """Retention has overtaken a worker that had ended in order: it halts, names the command, and
    goes on behind the gap. One that was killed with reports that its state does not have is refused
    by the command: their users could report a second time.
    """
    rnd = random.Random(12)
    with Flow(kafka, tmp_path, prefix) as flow:
        path = str(flow.path)
        flow.start("collect"), flow.start("perturb")
        for t in range(5):
            flow.slot(rnd, t, USERS)
        counted(flow)
        flow.stop()
        code, out, _ = said(capsys, "state", "skip", path)
        assert code == 0 and "has lost nothing" in out
        flow.slot(rnd, 5, USERS)
        lost = cut(flow)
        flow.slot(rnd, 6, USERS)
        assert "`ldp-kafka state skip`" in halted(flow, "perturb")
        code, out, err = said(capsys, "state", "skip", path)
        assert code == 0 and "nothing was done" in out, err
        code, out, err = said(capsys, "state", "skip", path, "--yes")
        assert code == 0 and out.count("went on") == 2, err
        assert said(capsys, "state", "verify", path)[0] == 0
        flow.start("perturb"), flow.start("collect")
        flow.finish(8)
        flow.until_acknowledged()
        until(lambda: said(capsys, "state", "verify", path)[0] == 0)
        code, out, _ = said(capsys, "state", "inspect", path, "--json")
        parts = [p for p in json.loads(out)["partitions"] if p["table"] == "perturb"]
        assert [part["skipped"] for part in parts] == [[each] for each in lost]
        assert all(part["users"] and 0 < part["spent"] <= part["budget"] for part in parts)
        ids = [
            bytes(each)
            for m in flow.read(flow.topology.reports_topic)
            if (batch := read_reports(m.value())) is not None
            for each in batch.ids
        ]
        assert len(ids) == len({*ids}) > 3 * USERS

        role, agent = flow.edge
        config, name = {"bootstrap.servers": kafka}, role.changelog(agent.name)
        read = admin.committed(config, role.group, agent.topic, range(2))
        old = compacted(config, name)
        flow.slot(rnd, 20, USERS)  # later than what was ticked
        counted(flow)
        flow.stop()
        put_back(flow, name, old)
        admin.commit(config, role.group, agent.topic, read)
        cut(flow)
        code, _, err = said(capsys, "state", "skip", path, "--yes")
        assert code == 1 and "they are in no ledger, and could be drawn again" in err, err
        assert admin.committed(config, role.group, agent.topic, range(2)) == read


def counted(flow: Flow) -> None:
    """Until all raw events are acknowledged, and all reports of them."""
    flow.until_acknowledged()
    role, agent = flow.topology.reader(flow.topology.reports_topic)
    place = role.group, agent.topic, range(agent.partitions)
    until(lambda: not sum(admin.lag({"bootstrap.servers": flow.boot}, *place).values()))


def cut(flow: Flow) -> list[list[int]]:
    """Have the raw log lose all that it holds; by partition, the first and last offset that nobody
    has read.
    """
    client, topic = AdminClient({"bootstrap.servers": flow.boot}), flow.topology.raw_topic
    role, _ = flow.edge
    config = {"bootstrap.servers": flow.boot}
    read = admin.committed(config, role.group, topic, range(2))
    flow.read(topic)
    for answer in client.delete_records([TopicPartition(topic, n, -1) for n in (0, 1)]).values():
        answer.result(20)
    ends = admin.extents(config, topic, range(2))
    return [[read[n], ends[n][0] - 1] for n in (0, 1)]


def second(flow: Flow, capsys) -> None:
    """A report that somebody wrote: without the key it is found where it contradicts another, and
    with it which one is wrong.
    """
    assert said(capsys, "prove-once", str(flow.path))[0] == 0
    message = next(
        m
        for m in flow.read(flow.topology.reports_topic)
        if (batch := read_reports(m.value())) is not None and len(batch) > 1
    )
    batch = read_reports(message.value())
    shared = {
        name: getattr(batch, name)
        for name in (
            "ids",
            "slots",
            "scale",
            "fingerprint",
            "bound",
            "closed",
            "chunk",
            "phase",
            "series",
        )
    }
    producer = Producer({"bootstrap.servers": flow.boot})
    producer.produce(message.topic(), message.value(), partition=message.partition())
    assert producer.flush(10) == 0
    assert said(capsys, "prove-once", str(flow.path))[0] == 0
    producer.produce(
        message.topic(),
        write_reports(Reports(values=batch.values + 1, **shared)),
        partition=message.partition(),
    )
    assert producer.flush(10) == 0
    code, out, _ = said(capsys, "prove-once", str(flow.path))
    assert code == 1 and f"{len(batch)} ids have a second report" in out
    assert prove(flow, capsys)["different"] == len(batch)
