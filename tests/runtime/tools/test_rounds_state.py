"""The tools on topologies whose coordinator asks: what lies in the changelog of each agent, a key
that is rotated while values are held, and reports of both phases made once more.
"""

from __future__ import annotations

import asyncio
import json
import zlib

import numpy as np
import pytest
from confluent_kafka import Producer

from ldp_kafka.cli import main
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.reader import Kept
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.keys import Keyring, edge_randomness
from ldp_kafka.runtime.recovery.checkpoints import META, checkpoints
from ldp_kafka.runtime.recovery.inspection import inspect
from ldp_kafka.runtime.recovery.packing import pack, unpack
from ldp_kafka.runtime.recovery.rules import Facts, PartitionOffsets, bindings_of
from ldp_kafka.runtime.recovery.start import decide
from ldp_kafka.runtime.sealing import Sealed
from ldp_kafka.runtime.stages.requests import is_request
from ldp_kafka.runtime.tools import rotate_key
from ldp_kafka.runtime.tools.prove_once import Due, read_held, recompute
from ldp_kafka.runtime.tools.report_index import compare
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from ldp_kafka.topology import load
from tests import rounds
from tests.fold import cases
from tests.fold.epochs import Shelf, facts_of, opened
from tests.fold.phases import AGENTS, case
from tests.runtime.tools.changelogs import overspent, rewritten, ring, table
from tests.sealed import all_plain, all_sealed

NEW = bytes(reversed(cases.KEY))
PROTOCOLS = ["lpa", "lbd"]


def part_of(name, agent):
    """The stage of partition 1 of an agent, or the only one, and the first part of its log."""
    given = case(name, 2, 5)
    number = len(given.logs(agent)) - 1
    log = given.logs(agent)[number]
    return given.topology, given.make(agent, number), log[: len(log) * 3 // 4]


def looked(of, agent, stage, held, count):
    """What an inspection says of a changelog."""
    position = PartitionOffsets(count + 1, 0, count + 1, begun=False)
    spec = of.agent(agent)
    facts = Facts(
        spec.topic,
        stage.partition,
        position,
        spec.header,
        bindings=bindings_of(stage),
        seal=stage.seal,
    )
    return inspect(of, spec, held, facts)


def rules(found):
    return {violation.rule for violation in found.violations}


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_sound_state_breaks_no_rule(name, agent):
    """It has slots that wait, or users; what is seen is what a worker knows that loads it."""
    of, stage, log = part_of(name, agent)
    held = table(stage, log)
    found = looked(of, agent, stage, held, len(log))
    assert not found.violations
    assert (found.offset, found.shards > 0) == (len(log), True)
    state = stage.fresh()
    stage.fold(state, log)
    if agent == "perturb":
        assert (found.users, found.closed) == (state.users.state.count, state.closed)
        assert 0 < found.spent <= found.budget == of.method.protocol.terms.budget
    elif agent == "coordinate":
        waits = state.rounds.asked is not None
        assert found.closed == state.coordinator.slot - waits
        assert found.slots == len(state.rounds.queue) + waits
    else:
        assert found.closed is not None
        assert found.slots is not None


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_damaged_state_is_found(name, agent):
    """A shard that cannot be read, and one that is not there."""
    of, stage, log = part_of(name, agent)
    held = table(stage, log)
    plain = held if stage.seal is None else all_plain(held, stage.seal)
    key = next(key for key in plain if f"/{META}/" not in key)
    cover, payload = unpack(plain[key])
    for damaged in (payload[: len(payload) // 2], b"{}[", b'{"1":2}'):
        bad = {**plain, key: pack(cover, damaged)}
        sealed = bad if stage.seal is None else all_sealed(bad, stage.seal)
        assert "readable" in rules(looked(of, agent, stage, sealed, len(log)))
    without = {name: value for name, value in held.items() if name != key}
    assert "complete" in rules(looked(of, agent, stage, without, len(log)))


@pytest.mark.parametrize("agent", ["collect", "merge"])
def test_a_slot_in_another_shard_is_found(agent):
    """Of either phase; and a shard of a phase that there is not."""
    of, stage, log = part_of("lbd", agent)
    held = table(stage, log)
    for key in [key for key in held if f"/{META}/" not in key]:
        cover, payload = unpack(held[key])
        moved = {
            f"{int(at.split('.')[0]) + 9999}.0": what for at, what in json.loads(payload).items()
        }
        bad = {**held, key: pack(cover, json.dumps(moved).encode())}
        assert "shards" in rules(looked(of, agent, stage, bad, len(log)))
    number, shard, epoch = key.split("/")
    strange = {**held, f"{number}/7.{shard}/{epoch}": held[key]}
    meta = next(key for key in held if f"/{META}/" in key)
    cover, payload = unpack(held[meta])
    told = json.loads(payload)
    told["manifest"][f"7.{shard}"] = cover
    strange[meta] = pack(cover, json.dumps(told).encode())
    assert "readable" in rules(looked(of, agent, stage, strange, len(log)))


def test_a_ledger_above_the_budget_is_found():
    of, stage, log = part_of("lpa", "perturb")
    plain = all_plain(table(stage, log), stage.seal)
    bad = all_sealed(overspent(plain, of.method.protocol.terms.budget), stage.seal)
    assert "budget" in rules(looked(of, "perturb", stage, bad, len(log)))


def test_a_value_that_should_be_gone_is_found():
    """Of a slot that is settled: the edge would have let go of it."""
    of, stage, log = part_of("lbd", "perturb")
    plain = all_plain(table(stage, log), stage.seal)
    state = stage.fresh()
    stage.fold(state, log)

    def change(name, column):
        def put(cells):
            at, lap = stage.requested._place(state.asked.settled)
            cells[0, at] = lap | 1

        return ring(column, put) if name == "held" else column

    bad = all_sealed(rewritten(plain, change), stage.seal)
    found = looked(of, "perturb", stage, bad, len(log))
    assert [each.text for each in found.violations] == [
        "1 values are held of slots that are settled"
    ]


# sealing


def test_held_values_are_not_compressed():
    """How well they could be would tell how alike users' values are: states of equal values and of
    all kinds are of one size, and no part of either can be compressed.
    """
    of = rounds.topology("lbd", lateness=2, hold=4, numeric=True)
    random = np.random.default_rng(5)
    tables = []
    for values in (np.zeros((6, 400)), random.uniform(0, 10, (6, 400))):
        stage = roles.make(of, "perturb", 0, cases.randomness(of))
        log = [
            rounds.batch([(f"u{user}", slot, value) for user, value in enumerate(column)])
            for slot, column in enumerate(values.tolist())
        ]
        tables.append(table(stage, rounds.messages(log)))
        state = stage.load(*_loaded(stage, tables[-1]))
        assert len(rounds.held(state)) == 6 * 400
    sizes = [sorted((key.split("/")[1], len(v)) for key, v in held.items()) for held in tables]
    assert sizes[0] == sizes[1]
    for held in tables:
        bodies = b"".join(Sealed.read(value).body for value in held.values())
        assert len(zlib.compress(bodies, 9)) >= len(bodies)


def _loaded(stage, held):
    """Meta and shards as a stage is given them."""
    [found] = checkpoints(held, stage.partition, stage.seal)
    return found.meta["state"], found.state


# another key


def asks(message):
    """Whether a request is for reports."""
    return json.loads(message.value)["epsilon"] > 0


@pytest.mark.parametrize("name", PROTOCOLS)
def test_held_values_are_answered_after_a_rotation(name):
    """A request for a slot from before it is answered as it would have been, with the noise and the
    ids of the old key; those of later slots with the new one's.
    """
    of = case(name, 1, 5).topology
    log = case(name, 1, 5).raw[0]
    old = edge_randomness(of, cases.KEY, cases.HERE)
    stage = roles.make(of, "perturb", 0, old)
    cut = [at for at, each in enumerate(log) if is_request(each.value) and asks(each)][1]
    state = stage.fresh()
    stage.fold(state, log[:cut])
    turn = max(slot for _, slot in rounds.held(state)) + 1
    keys = Keyring(cases.KEY).rotated(turn * cases.SLOT, NEW)
    new = roles.make(of, "perturb", 0, edge_randomness(of, keys, cases.HERE))
    held = table(roles.make(of, "perturb", 0, old), log[:cut])
    facts = facts_of(stage, PartitionOffsets(cut + 1, 0, len(log) + 1, begun=False))
    shelf = Shelf(held)
    start = decide(facts, checkpoints(held, 0, facts.seal))
    asyncio.run(rotate_key.rebind(stage, new, start, shelf))
    after = opened(new, want=cut + 1, shelf=Shelf(shelf.table))
    straight = opened(stage, want=cut + 1, shelf=Shelf(held))
    assert rounds.held(after.state) == rounds.held(straight.state) != {}
    said = []
    for epoch in (after, straight):
        for message in log[cut:]:
            epoch.take(message, None)
        epoch.fold()
        said.append(
            {
                (made.ids[at].tobytes(), int(made.slots[at]), made.phase, made.values[at].tobytes())
                for record in epoch.output.records
                if (made := read_reports(record.value)) is not None
                for at in range(len(made))
            }
        )
    mine, theirs = said
    before = {each for each in theirs if each[1] < turn}
    assert {each for each in mine if each[1] < turn} == before
    assert any(phase for _, _, phase, _ in before)
    later = {each for each in theirs if each[1] >= turn}
    assert later and not later & mine


# reports made once more


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_raw_log_with_requests_is_folded_again(name):
    """Reports of both phases are what it gives; one that is of another cost is a second one."""
    given = case(name, 2, 5)
    of, everything = given.topology, dict.fromkeys(range(2), Due(acknowledged=10**9))
    raw = [
        Kept(number, message.offset, -1, None, message.value)
        for number, log in enumerate(given.raw)
        for message in log
    ]
    records = [
        Kept(number, message.offset, -1, None, message.value)
        for number, log in enumerate(given.reports)
        for message in log
    ]

    def judged(written):
        held, unreadable, _ = read_held(written)
        made = recompute(of, cases.randomness(of), raw, everything, held.seed)
        assert (unreadable, made.scattered_users) == (0, 0)
        return compare(held, made.reports), held

    found, held = judged(records + records[::2])
    assert tuple(found)[1:] == (0, 0, 0, 0, 0)
    assert found.ids == held.reports - held.repeats > 20
    second = next(each for each in records if read_reports(each.value).cost)
    made = read_reports(second.value)
    object.__setattr__(made, "cost", made.cost - 1)
    found, _ = judged([*records, second._replace(value=write_reports(made))])
    assert (found.second, found.different) == (len(made), len(made))
    at = records.index(second)
    found, _ = judged(records[:at] + records[at + 1 :])
    assert (found.missing, found.unexpected) == (len(made), 0)


def test_the_commands(tmp_path, monkeypatch, capsys):
    """`state inspect`, `state verify` and `prove-once` of a topology on a broker, as its workers
    left it.
    """
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("LDP_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("LDP_KAFKA_EDGE_KEY", raising=False)
    key, path = tmp_path / "edge.key", tmp_path / "fold.yaml"
    key.write_bytes(cases.KEY)
    key.chmod(0o600)
    given = case("lbd", 2, 5)
    text = rounds.TEXT.format(
        name="lbd",
        lateness=0,
        partitions=2,
        hold=2,
        per_slot="first",
        epsilon=8.0,
        window=3,
        statistic="frequencies",
        kind="categories: 3, mechanism: grr",
    )
    path.write_text(f"{text}edge: {{key_file: {key}}}\n")
    of = load(path)
    assert of.fingerprint == given.topology.fingerprint
    with EmbeddedBroker() as broker:
        broker.deployment = "here"
        publish(of.name, broker)
        prepare(of, broker)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer({**config, "linger.ms": 0})
        for agent in AGENTS:
            role, spec = next((r, s) for r, s in of.flow.readers() if s.name == agent)
            for number, log in enumerate(given.logs(agent)):
                for message in log:
                    producer.produce(spec.topic, message.value, partition=number)
                for name, value in table(given.make(agent, number), log).items():
                    producer.produce(
                        of.changelog(role.name, agent), value, name.encode(), partition=number
                    )
            assert producer.flush(10) == 0
            ends = {number: len(log) + 1 for number, log in enumerate(given.logs(agent))}
            admin.commit(config, role.group, spec.topic, ends)
        assert main(["state", "verify", str(path)]) == 0
        capsys.readouterr()
        assert main(["state", "inspect", str(path), "--json"]) == 0
        said = capsys.readouterr().out
        for agent in AGENTS:
            assert agent in said
        assert main(["prove-once", str(path), "--key-file", str(key), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["clean"] and found["recomputed"]
        assert found["expected"] == found["ids"] > 20
        assert main(["key", "rotate", str(path), "--yes"]) == 0
        assert main(["state", "verify", str(path)]) == 0
        assert Keyring.decode(key.read_bytes()).later
