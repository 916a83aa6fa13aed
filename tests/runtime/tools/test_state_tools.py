"""Changelogs in a broker: read with the semantics of compaction; a group goes back to what its
state covers, and only where that is sound.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer

from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.changelog import compacted, key_bytes
from ldp_kafka.runtime.kafka.reader import read_records, spans
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.recovery.inspection import inspect
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.recovery.rules import PartitionOffsets
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.tools import state
from ldp_kafka.runtime.tools.state import plan_rewind
from ldp_kafka.topology import load
from tests.fold import cases
from tests.fold.epochs import facts_of
from tests.runtime.tools.changelogs import collector_tables, edge_table, in_meta, overspent
from tests.sealed import all_plain, sealed

LOGS = cases.wild(3)
END = len(LOGS[0]) + 1
TOPOLOGY = cases.topology()
SEAL = cases.randomness(TOPOLOGY).seal


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("LDP_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("LDP_KAFKA_EDGE_KEY", raising=False)


@pytest.fixture
def kept(tmp_path):
    """A topology on an embedded broker, as its workers left it: raw log, changelogs, offsets."""
    key = tmp_path / "edge.key"
    key.write_bytes(cases.KEY)
    key.chmod(0o600)
    path = tmp_path / "fold.yaml"
    path.write_text(
        cases.TEXT.format(partitions=2, privacy=cases.CAPP, statistics="[mean]", lateness=1)
        + f"edge: {{key_file: {key}}}\n"
    )
    made = load(path)
    with EmbeddedBroker() as broker:
        broker.deployment = "here"
        publish(made.name, broker)
        prepare(made, broker)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        write(
            config,
            made.raw_topic,
            [(number, None, message.value) for number, log in enumerate(LOGS) for message in log],
        )
        collect, merge, run = collector_tables(made, LOGS)
        write(
            config,
            made.reports_topic,
            [
                (number, None, record.value)
                for number, log in enumerate(run.reports)
                for record in log
            ],
        )
        write(config, made.partials_topic, [(0, None, record.value) for record in run.partials])
        edge = edge_table(made, LOGS)
        for table, role, held in (
            ("perturb", "perturb", edge),
            ("collect", "collect", collect),
            ("merge", "collect", merge),
        ):
            store(config, made.changelog(role, table), held)
        admin.commit(
            config,
            made.group("perturb"),
            made.raw_topic,
            {number: len(log) + 1 for number, log in enumerate(LOGS)},
        )
        admin.commit(
            config,
            made.group("collect"),
            made.reports_topic,
            {number: len(log) + 1 for number, log in enumerate(run.reports)},
        )
        admin.commit(config, made.group("collect"), made.partials_topic, {0: len(run.partials) + 1})
        yield SimpleNamespace(
            path=str(path), topology=made, config=config, edge=edge, broker=broker
        )


def write(config, topic, records):
    """Records of (partition, key, value)."""
    producer = Producer({**config, "linger.ms": 0})
    for partition, key, value in records:
        producer.produce(topic, value, key, partition=partition, timestamp=cases.START)
    assert producer.flush(10) == 0


def store(config, topic, held):
    """Records of a changelog; None deletes."""
    write(
        config,
        topic,
        [(int(place_of(key).split("/")[0]), key_bytes(key), value) for key, value in held.items()],
    )


def changelog(kept):
    return kept.topology.changelog("perturb", "perturb")


def committed(kept):
    return admin.committed(
        kept.config, kept.topology.group("perturb"), kept.topology.raw_topic, range(2)
    )


def run(capsys, *words):
    code = main(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_records_with_keys_and_tombstones(kept):
    """Everything, in the order of each partition; the last value of a key counts, and none where it
    was deleted.
    """
    name = changelog(kept)
    assert compacted(kept.config, name) == kept.edge
    store(kept.config, name, {"0/0/x": b"1", "0/1/x": b"2"})
    store(kept.config, name, {"0/0/x": b"3", "0/1/x": None})
    assert compacted(kept.config, name) == {**kept.edge, "0/0/x": b"3"}
    first, end = spans(kept.config, name)[0]
    tail = list(read_records(kept.config, name, {0: (end - 2, end), 1: (0, 0)}))
    assert first == 0
    assert [(record.offset, record.key, record.value) for record in tail] == [
        (end - 2, b'"0/0/x"', b"3"),
        (end - 1, b'"0/1/x"', None),
    ]
    assert b"3" not in repr(tail[0]).encode()


def test_inspect_and_verify(kept, capsys):
    """Sums for people and programs; 0 where all holds, 1 and a line for each rule that does not."""
    code, out, _ = run(capsys, "state", "inspect", kept.path, "--json")
    assert code == 0
    parts = json.loads(out)["partitions"]
    assert [(part["table"], part["partition"]) for part in parts] == [
        ("perturb", 0),
        ("perturb", 1),
        ("collect", 0),
        ("collect", 1),
        ("merge", 0),
    ]
    assert [part["offset"] for part in parts[:2]] == [len(log) for log in LOGS]
    code, out, _ = run(capsys, "state", "inspect", kept.path, "--role", "perturb")
    assert code == 0
    assert out.count("perturb") == 2 and "collect" not in out
    code, out, err = run(capsys, "state", "verify", kept.path)
    assert (code, "note" in err) == (0, False), out
    assert re.match(r"OK: all [1-9][0-9]* checks passed, of 5 partitions with [0-9]+ users \(", out)
    assert "key" in out
    budget = kept.topology.method.ledger.budget
    store(
        kept.config,
        changelog(kept),
        {
            key: value
            for key, value in changed(overspent, kept.edge, budget).items()
            if value != kept.edge[key]
        },
    )
    code, out, _ = run(capsys, "state", "verify", kept.path)
    assert code == 1
    assert (
        out == "perturb partition 0: budget: 1 users have spent more than the budget of 2000000"
        " micro-epsilon\n"
    )
    code, out, _ = run(capsys, "state", "verify", kept.path, "--json")
    assert code == 1
    found = json.loads(out)
    assert (found["holds"], [each["rule"] for each in found["violations"]]) == (False, ["budget"])
    assert run(capsys, "state", "verify", kept.path, "--role", "collect")[0] == 0


def test_the_edges_state_needs_its_key(kept, capsys, tmp_path):
    """To be verified or rewound; without it an inspection shows offsets, records and sizes."""
    whole = json.loads(run(capsys, "state", "inspect", kept.path, "--json")[1])["partitions"]
    (tmp_path / "edge.key").chmod(0o644)
    for words in (("verify",), ("verify", "--role", "perturb"), ("rewind", "--role", "perturb")):
        code, _, err = run(capsys, "state", words[0], kept.path, *words[1:])
        assert code == 2
        assert "must be readable by its owner only" in err
    assert run(capsys, "state", "verify", kept.path, "--role", "collect")[0] == 0
    code, out, err = run(capsys, "state", "inspect", kept.path, "--json")
    assert code == 0
    assert "cannot be read here" in err
    found = json.loads(out)["partitions"]
    for sealed_one, one in zip(found[:2], whole[:2], strict=True):
        secret = {"watermark", "closed", "users", "spent", "budget"}
        assert secret <= one.keys()
        assert not secret & sealed_one.keys()
        for name in ("epochs", "position", "offset", "shards", "violations"):
            shown = [{**each, "bytes": 0} for each in one[name]] if name == "epochs" else one[name]
            seen = sealed_one[name]
            assert ([{**e, "bytes": 0} for e in seen] if name == "epochs" else seen) == shown
    assert found[2:] == whole[2:]


def test_verify_compares_the_key(kept, capsys, tmp_path):
    (tmp_path / "edge.key").write_bytes(bytes(reversed(cases.KEY)))
    (tmp_path / "edge.key").chmod(0o600)
    code, out, _ = run(capsys, "state", "verify", kept.path)
    assert code == 1
    assert out == "".join(
        f"perturb partition {number}: key: the state was written under another key: the edge's key"
        " changed, or its rotations did\n"
        for number in range(2)
    )


def test_what_is_wrong_once_only_is_looked_at_again(kept, monkeypatch, capsys):
    """A changelog that is compacted while it is read can lack what it never lacked."""
    real, calls = state.compacted, []

    def halfway(config, topic):
        calls.append(topic)
        return {} if len(calls) == 1 else real(config, topic)

    monkeypatch.setattr(state, "compacted", halfway)
    assert run(capsys, "state", "verify", kept.path, "--role", "perturb")[0] == 0
    assert len(calls) == 2


def old_state(kept, messages):
    """The changelog is put back to what it was after so many messages."""
    store(kept.config, changelog(kept), dict.fromkeys(kept.edge))
    store(kept.config, changelog(kept), edge_table(kept.topology, LOGS, until=messages))


def test_rewind_sets_the_group_back_to_what_the_state_covers(kept, capsys):
    """It says what it would do, does it when told to, and then there is nothing left to do;
    partitions that need nothing are left alone.
    """
    ask = ("state", "rewind", kept.path, "--role", "perturb")
    assert (
        run(capsys, *ask, "--yes")[1]
        == "no checkpoint offset is behind what was acknowledged: nothing to do\n"
    )
    old_state(kept, 5)
    admin.commit(kept.config, kept.topology.group("perturb"), kept.topology.raw_topic, {1: 3})
    code, out, _ = run(capsys, *ask)
    assert code == 0
    assert (
        out
        == f"fold.raw partition 0: group fold-perturb would go back from {END} to 6\nnothing was"
        " done: --yes does it\n"
    )
    assert committed(kept) == {0: END, 1: 3}
    assert run(capsys, "state", "verify", kept.path)[0] == 1
    code, out, _ = run(capsys, *ask, "--yes", "--json")
    assert code == 0
    assert json.loads(out)["moves"] == [
        {"table": "perturb", "topic": "fold.raw", "partition": 0, "committed": END, "to": 6}
    ]
    assert committed(kept) == {0: 6, 1: 3}
    assert run(capsys, "state", "verify", kept.path)[0] == 0
    assert "nothing to do" in run(capsys, *ask, "--yes")[1]


def test_rewind_of_a_collector_without_state(kept, capsys):
    """It begins anew behind the header, since its log is whole; the edge does not, since nothing
    would tell whether its key is the same.
    """
    topology = kept.topology
    for table in ("collect", "merge"):
        name = topology.changelog("collect", table)
        store(kept.config, name, dict.fromkeys(compacted(kept.config, name)))
    store(kept.config, changelog(kept), dict.fromkeys(kept.edge))
    code, out, _ = run(capsys, "state", "rewind", kept.path, "--role", "collect", "--yes")
    assert code == 0, out
    assert out.count("went back") == 3
    assert admin.committed(
        kept.config, topology.group("collect"), topology.reports_topic, range(2)
    ) == {0: 1, 1: 1}
    assert admin.committed(
        kept.config, topology.group("collect"), topology.partials_topic, [0]
    ) == {0: 1}
    before = committed(kept)
    code, _, err = run(capsys, "state", "rewind", kept.path, "--role", "perturb", "--yes")
    assert code == 1
    assert err.count("refused: fold.raw partition") == 2
    assert committed(kept) == before


def test_rewind_is_all_or_nothing(kept, capsys):
    """One partition that cannot go back keeps the others where they are."""
    store(kept.config, changelog(kept), {key: None for key in kept.edge if key.startswith("1/")})
    old = {
        key: value
        for key, value in edge_table(kept.topology, LOGS, until=5).items()
        if key.startswith("0/")
    }
    store(kept.config, changelog(kept), {key: None for key in kept.edge if key.startswith("0/")})
    store(kept.config, changelog(kept), old)
    before = committed(kept)
    code, _, err = run(capsys, "state", "rewind", kept.path, "--role", "perturb", "--yes")
    assert code == 1 and "partition 1" in err
    assert committed(kept) == before


def test_rewind_refuses_while_the_group_has_members(kept, capsys):
    """The broker itself refuses the commit, whatever was seen before."""
    old_state(kept, 5)
    before = committed(kept)
    worker = Consumer(
        {
            **kept.config,
            "group.id": kept.topology.group("perturb"),
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )
    worker.subscribe([kept.topology.raw_topic])
    try:
        for _ in range(100):
            worker.poll(0.1)
            if worker.assignment():
                break
        code, _, err = run(capsys, "state", "rewind", kept.path, "--role", "perturb", "--yes")
    finally:
        worker.close()
    assert code == 1
    assert "error" in err
    assert committed(kept) == before


def planned(table, position, key=None):
    """What a rewind of the first partition would do."""
    (spec,) = TOPOLOGY.role("perturb").agents
    stage = make_perturb(TOPOLOGY, 0, cases.randomness(TOPOLOGY))
    facts = facts_of(stage, position)
    if key is not None:
        facts = replace(facts, bindings={**facts.bindings, "key": key})
    held = inspect(TOPOLOGY, spec, table, facts)
    return plan_rewind(held, facts, checkpoints(table, 0, facts.seal), 1)


def changed(change, held, *more):
    """A state of the edge that it would have written so: only what ``change`` changes differs."""
    before = all_plain(held, SEAL)
    after = change(before, *more)
    return {
        key: held[key] if before.get(key) == value else sealed(key, value, SEAL)
        for key, value in after.items()
    }


OLD = edge_table(TOPOLOGY, LOGS, until=5)  # covers offset 5
AT_END = PartitionOffsets(END, 0, END, begun=False)
REFUSED = [
    ({}, OLD, PartitionOffsets(END, 7, END, begun=False), "the log begins at offset 7"),
    ({}, OLD, PartitionOffsets(END, 0, END - 1, begun=False), "made anew"),
    ({}, OLD, PartitionOffsets(END, 0, 4, begun=False), "made anew"),
    ({}, {}, PartitionOffsets(END, 0, END, begun=False), "no complete state"),
    (
        {},
        changed(in_meta, OLD, 0, lambda meta: meta.__setitem__("layout", "00" * 16)),
        PartitionOffsets(END, 0, END, begun=False),
        "another layout",
    ),
    ({"key": "ff" * 8}, OLD, PartitionOffsets(END, 0, END, begun=False), "another key"),
    (
        {},
        changed(overspent, OLD, 2_000_000),
        PartitionOffsets(END, 0, END, begun=False),
        "more than the budget",
    ),
]


@pytest.mark.parametrize(("more", "table", "position", "words"), REFUSED)
def test_what_a_rewind_refuses(more, table, position, words):
    """Where the same events could not be read again, or would not give the same reports."""
    plan = planned(table, position, **more)
    assert not plan.moves
    assert all(words in refusal for refusal in plan.refusals) and plan.refusals


@pytest.mark.parametrize(
    "position",
    [
        PartitionOffsets(None, 0, END, begun=False),
        PartitionOffsets(1, 0, END, begun=False),
        PartitionOffsets(4, 0, END, begun=False),
        PartitionOffsets(6, 0, END, begun=False),
    ],
)
def test_offsets_are_never_set_forward(position):
    """What the state covers and nobody has acknowledged is acknowledged when it comes."""
    assert planned(OLD, position) == ([], [])


def test_a_rewind_that_the_broker_refuses_says_why(monkeypatch):
    """A worker that joins between the question and the commit."""

    def refuse(*_, **__):
        raise BrokerError("unknown member")

    monkeypatch.setattr(admin, "commit", refuse)
    for count, error in ((2, "has members"), (0, "unknown member"), (None, "unknown member")):
        monkeypatch.setattr(admin, "members", lambda *_, count=count, **__: count)
        with pytest.raises(Exception, match=error):
            state._commit({}, "g", state.Move("perturb", "t", 0, 2, 1))
