"""The operator's tools on a real broker: a sound state, an old changelog and the way out of it, and a second report that somebody wrote."""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import Producer

from ldp_kafka.cli import main
from ldp_kafka.records import Reports
from ldp_kafka.runtime import state_tools
from ldp_kafka.runtime.state_tools import compacted, key_bytes
from ldp_kafka.runtime.wire import read_reports, write_reports
from tests.broker.flow import Flow
from tests.broker.test_faults import until, until_acknowledged

USERS = 80


@pytest.fixture
def flow(kafka, tmp_path, prefix):
    made = Flow(kafka, tmp_path, prefix)
    yield made
    made.close()


def put_back(flow: Flow, name: str, old: dict[str, bytes]) -> None:
    """A changelog as it was once: what a restored backup holds."""
    producer = Producer({"bootstrap.servers": flow.boot})
    for key in compacted({"bootstrap.servers": flow.boot}, name).keys() - old.keys():
        producer.produce(name, None, key_bytes(key), partition=int(key.split("/")[0]))
    for key, value in old.items():
        producer.produce(name, value, key_bytes(key), partition=int(key.split("/")[0]))
    assert producer.flush(20) == 0


def said(capsys, *words) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(words))
    found = capsys.readouterr()
    return code, found.out, found.err


def prove(flow: Flow, capsys) -> dict:
    _, out, _ = said(capsys, "prove-once", str(flow.path), "--key-file", str(flow.path.with_suffix(".key")), "--json")
    return json.loads(out)


def test_an_old_changelog_and_the_way_out(flow, capsys, monkeypatch):
    """The worker halts and names the command; the command refuses while somebody works, and then gives back what the judge, the verifier and the proof find in order."""
    rnd, path = random.Random(8), str(flow.path)
    name = flow.topology.changelog("perturb", "perturb")
    flow.start("collect"), flow.start("perturb")
    for t in range(6):
        flow.slot(rnd, t, USERS)
    until_acknowledged(flow)
    code, out, _ = said(capsys, "state", "verify", path)
    assert code == 0, out
    old = compacted({"bootstrap.servers": flow.boot}, name)
    for t in range(6, 12):
        flow.slot(rnd, t, USERS)
    until_acknowledged(flow)
    with monkeypatch.context() as patch:
        patch.setattr(state_tools, "PATIENCE", -60.0)
        code, _, err = said(capsys, "state", "rewind", path, "--role", "perturb", "--yes")
    assert code == 1 and "has 1 members: stop its workers first" in err
    flow.stop()
    put_back(flow, name, old)

    code, out, _ = said(capsys, "state", "verify", path)
    assert code == 1 and out.count("perturb partition") == out.count(": covered: ") == 2, out
    flow.slot(rnd, 12, USERS)  # a partition is loaded when something is to be folded
    flow.start("collect")
    halted = flow.start("perturb")
    assert halted.wait(60) == 1
    assert "`ldp-kafka state rewind`" in flow.log_path.read_text()
    flow.workers = [(role, process) for role, process in flow.workers if process is not halted]

    ask = ("state", "rewind", path, "--role", "perturb")
    code, out, err = said(capsys, *ask)
    assert code == 0 and "nothing was done" in out, err
    code, out, err = said(capsys, *ask, "--yes")
    assert code == 0 and out.count("went back") == 2, err
    assert said(capsys, "state", "verify", path)[0] == 0
    before = prove(flow, capsys)
    flow.start("perturb")
    for t in range(13, 16):
        flow.slot(rnd, t, USERS)
    flow.finish(16)
    expected = flow.expected()
    flow.wait(expected)
    verdict = flow.judge(expected)
    assert verdict.clean and verdict.reports > 800, verdict
    found = prove(flow, capsys)
    assert found["clean"] and found["expected"] == found["ids"] == verdict.reports
    assert found["repeats"] > before["repeats"] + 100, "what was read again must have been reported again"
    code, out, _ = said(capsys, "state", "verify", path)
    assert code == 0, out
    code, out, _ = said(capsys, "state", "inspect", path, "--json")
    parts = json.loads(out)["partitions"]
    assert code == 0 and sum(part.get("users", 0) for part in parts) == USERS
    assert all(0 < part["spent"] <= part["budget"] for part in parts if part["table"] == "perturb")


def test_a_collector_without_its_state(flow, capsys):
    """It begins anew from the whole log, and releases the same."""
    rnd, path = random.Random(9), str(flow.path)
    flow.start("collect"), flow.start("perturb")
    for t in range(6):
        flow.slot(rnd, t, USERS)
    flow.finish(6)
    expected = flow.expected()
    flow.wait(expected)
    flow.stop()
    for table in ("collect", "merge"):
        put_back(flow, flow.topology.changelog("collect", table), {})
    flow.start("perturb")
    flow.slot(rnd, 12, USERS)
    halted = flow.start("collect")
    assert halted.wait(60) == 1
    flow.workers = [(role, process) for role, process in flow.workers if process is not halted]
    code, out, err = said(capsys, "state", "rewind", path, "--role", "collect", "--yes")
    assert code == 0 and out.count("went back") == 3, err
    flow.start("collect")
    flow.finish(13)
    expected = flow.expected()
    flow.wait(expected)
    verdict = flow.judge(expected)
    assert verdict.clean and verdict.releases > 400, verdict
    until(lambda: said(capsys, "state", "verify", path)[0] == 0)


def test_a_second_report_is_found(flow, capsys):
    """Whoever wrote it, and without the key."""
    rnd = random.Random(10)
    flow.start("collect"), flow.start("perturb")
    for t in range(4):
        flow.slot(rnd, t, USERS)
    flow.finish(4)
    flow.wait(flow.expected())
    assert said(capsys, "prove-once", str(flow.path))[0] == 0
    message = next(m for m in flow.read(flow.topology.reports_topic) if (batch := read_reports(m.value())) is not None and len(batch) > 1)
    batch = read_reports(message.value())
    shared = {name: getattr(batch, name) for name in ("ids", "slots", "scale", "fingerprint", "offset", "closed", "chunk", "phase", "series")}
    producer = Producer({"bootstrap.servers": flow.boot})
    producer.produce(message.topic(), write_reports(Reports(values=batch.values + 1, **shared)), partition=message.partition())
    assert producer.flush(10) == 0
    code, out, _ = said(capsys, "prove-once", str(flow.path))
    assert code == 1 and f"{len(batch)} ids have a second report" in out
    assert prove(flow, capsys)["different"] == len(batch)
