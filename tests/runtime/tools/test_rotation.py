"""A new key between two slots: whatever was folded, reported or lost before, no (user, slot) is
drawn under both, and no user's budget begins anew.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from confluent_kafka import Producer

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.randomness import keyed
from ldp_kafka.records import Ids
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.changelog import compacted, key_bytes
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets, read_facts
from ldp_kafka.runtime.kafka.setup import prepare
from ldp_kafka.runtime.keys import Keyring, edge_randomness, read_key
from ldp_kafka.runtime.recovery.checkpoints import checkpoints
from ldp_kafka.runtime.recovery.inspection import inspect
from ldp_kafka.runtime.recovery.rules import PartitionOffsets
from ldp_kafka.runtime.recovery.start import decide
from ldp_kafka.runtime.stages.perturb import make_perturb
from ldp_kafka.runtime.tools import prove_once, rotate_key
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import load
from tests.fold import cases
from tests.fold.epochs import Shelf, facts_of, opened
from tests.keys import OTHER
from tests.runtime.tools.changelogs import edge_table

OLD, NEW = cases.KEY, bytes(reversed(cases.KEY))
FIRST = cases.START // cases.SLOT
SLOTS = 8
LOGS = cases.orderly(1, SLOTS)
A_SLOT = 3  # messages
TOPOLOGIES = [
    pytest.param(cases.topology(1), id="capp"),
    pytest.param(
        cases.topology(
            1,
            privacy="{method: sw_direct, epsilon: 2.0, window: 3, domain: [0, 10]}",
            statistics="[mean]",
        ),
        id="sw_direct",
    ),
]


def ring_at(slot, new=NEW):
    return Keyring(OLD).rotated(slot * cases.SLOT, new)


def folded(topology, ring, log, *, held=None, want=1):
    """The partition and what it reports."""
    stage = make_perturb(topology, 0, edge_randomness(topology, ring, cases.HERE))
    shelf = Shelf(held)
    epoch = opened(stage, want=want, shelf=shelf)
    for message in log:
        epoch.take(message, None)
    epoch.fold()
    return epoch, shelf.records


def draws(topology, records, keys):
    """Of each (user, slot) all that was ever said: by the ids of each of these single keys or
    rings, as only the edge can tell.
    """
    whose = {}
    users = Ids.of([f"u0.{user}" for user in range(cases.USERS)])
    for key in keys:
        source = edge_randomness(topology, key, cases.HERE)
        digests = source.digests(users)
        for slot in range(FIRST - 2, FIRST + SLOTS + 2):
            whose |= {
                row.tobytes(): (user, slot)
                for user, row in enumerate(source.report_ids(digests, slot, 0))
            }
    said = defaultdict(set)
    for record in records:
        batch = read_reports(record.value) if record.topic == topology.reports_topic else None
        for at in range(0 if batch is None else len(batch)):
            said[whose[batch.ids[at].tobytes()]].add(
                (batch.ids[at].tobytes(), batch.values[at].tobytes())
            )
    return said


def overspent(topology, said):
    """Whether a user said more in any run than the budget allows: each different report costs."""
    ledger, cost = topology.method.ledger, topology.method.spend
    spent = defaultdict(Counter)
    for (user, slot), what in said.items():
        spent[user][slot] += cost * len(what)
    return any(
        sum(by[slot - back] for back in range(ledger.run)) > ledger.budget
        for by in spent.values()
        for slot in list(by)
    )


def run_over(topology, before, after, kept, reported, *, rebind=True):
    """A worker folds and reports, keeps a state that covers less, dies; the key is rotated, and
    another worker goes on from that state.
    """
    (log,) = LOGS
    old = edge_table(topology, LOGS, until=kept)
    said = folded(topology, before, log[:reported])[1]
    if rebind:
        edges = [
            make_perturb(topology, 0, edge_randomness(topology, ring, cases.HERE))
            for ring in (before, after)
        ]
        facts = facts_of(edges[0], PartitionOffsets(kept + 1, 0, len(log) + 1, begun=False))
        shelf = Shelf(old)
        asyncio.run(
            rotate_key.rebind(*edges, decide(facts, checkpoints(old, 0, facts.seal)), shelf)
        )
        partition, more = folded(topology, after, log[kept:], held=shelf.table, want=kept + 1)
    else:
        partition, more = folded(topology, after, log)
    return said + more, partition


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("reported", [1, 5, 3 * A_SLOT])
def test_no_slot_is_drawn_under_both_keys(topology, reported):
    """At every distance between what was kept and what was reported; with what a single key says of
    the slots before, and something else of those after.
    """
    (log,) = LOGS
    reached = -(-reported // A_SLOT)
    ring = ring_at(FIRST + reached)
    for kept in range(1, reported + 1):
        records, _ = run_over(topology, Keyring(OLD), ring, kept, reported)
        said = draws(topology, records, [OLD, ring, NEW])
        assert {len(what) for what in said.values()} == {1}
        assert not overspent(topology, said)
        alone = draws(topology, folded(topology, OLD, log)[1], [OLD])
        assert said.keys() == alone.keys() and len(said) == cases.USERS * SLOTS
        changed = {slot for (user, slot), what in said.items() if what != alone[user, slot]}
        assert changed == set(range(FIRST + reached, FIRST + SLOTS))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_broken_rotations_are_found(topology):
    """One slot too early, a new key for all that comes next, and one that takes users for new."""
    reported = 3 * A_SLOT
    early, _ = run_over(topology, Keyring(OLD), ring_at(FIRST + 2), 3, reported)
    said = draws(topology, early, [OLD, ring_at(FIRST + 2)])
    assert {slot for (_, slot), what in said.items() if len(what) > 1} == {FIRST + 2}
    assert overspent(topology, said)
    at_once, _ = run_over(topology, Keyring(OLD), ring_at(1), 3, reported)
    said = draws(topology, at_once, [OLD, ring_at(1)])
    twice = {slot for (_, slot), what in said.items() if len(what) > 1}
    # what has waited since the first slot is sent under the new key's ids
    assert twice == {FIRST + 1, FIRST + 2} | ({FIRST} if topology.report_rows else set())
    other, _ = run_over(topology, Keyring(OLD), Keyring(NEW), 3, reported, rebind=False)
    assert overspent(topology, draws(topology, other, [OLD, NEW]))


def test_the_ledger_goes_on():
    """A user who has spent all of a run is refused under the new key too; with a first key of its
    own a user would be new.
    """
    topology = cases.topology(1)
    _, partition = run_over(topology, Keyring(OLD), ring_at(FIRST + 4), 4 * A_SLOT, 4 * A_SLOT)
    before, _ = folded(topology, Keyring(OLD), LOGS[0])
    mine, theirs = partition.state.users.state, before.state.users.state
    assert mine.count == theirs.count == cases.USERS
    order, other = (np.lexsort(users.users[: users.count].T) for users in (mine, theirs))
    for name in topology.method.ledger.fields:
        assert np.array_equal(mine.columns[name][..., order], theirs.columns[name][..., other]), (
            name
        )


def test_old_and_new_files_refuse_each_others_state():
    """Neither a worker that has not heard of the rotation nor one whose rotation is another's."""
    topology = cases.topology(1)
    held = edge_table(topology, LOGS, until=4)
    rotated = edge_table(topology, LOGS, until=4, key=ring_at(FIRST + 3))
    for state, ring in (
        (held, ring_at(FIRST + 3)),
        (rotated, Keyring(OLD)),
        (rotated, ring_at(FIRST + 4)),
        (rotated, ring_at(FIRST + 3, new=bytes(32))),
    ):
        with pytest.raises(StateError, match="key rotate"):
            folded(topology, ring, LOGS[0], held=state)
    folded(topology, ring_at(FIRST + 3), LOGS[0], held=rotated)


def test_rows_of_many_slots_take_their_own_turns():
    """One call, slots on both sides of two rotations: as row by row, and as each key alone."""
    users = keyed(OLD).digests([f"u{at}" for at in range(12)])
    slots = np.array([3, 4, 5, 6, 9, 10, 11, 4, 5, 10, 3, 12])
    third = OTHER
    whole = keyed(OLD, context=b"x", later=[(5, NEW), (10, third)])
    bound = np.arange(24).reshape(12, 2)
    words, ids, series = (
        whole.at(users, slots, 1, bound).words(12, 6),
        whole.report_ids(users, slots, 2),
        whole.series(users, slots),
    )
    for row, slot in enumerate(slots.tolist()):
        alone = keyed(OLD if slot < 5 else NEW if slot < 10 else third, context=b"x")
        one = slice(row, row + 1)
        assert np.array_equal(words[one], alone.at(users[one], slot, 1, bound[one]).words(1, 6))
        assert np.array_equal(ids[one], alone.report_ids(users[one], slot, 2))
        assert np.array_equal(series[one], alone.series(users[one]))
    part = whole.at(users, slots, 1, bound).words(5, 6, first=4)
    assert np.array_equal(part, words[4:9])
    assert np.array_equal(whole.digests(["a"]), keyed(OLD, context=b"x").digests(["a"]))
    checks = {
        keyed(OLD, later=later).check
        for later in ((), [(5, NEW)], [(6, NEW)], [(5, third)], [(5, NEW), (6, third)])
    }
    assert len(checks) == 5


@pytest.mark.parametrize(
    "later",
    [
        [(5, OLD)],
        [(5, NEW), (5, bytes(32))],
        [(5, NEW), (4, bytes(32))],
        [(5, NEW), (6, NEW)],
        [(5, bytes(31))],
    ],
)
def test_a_rotation_needs_another_key_and_a_later_slot(later):
    """In the ring as in the randomness."""
    with pytest.raises(ValueError, match=r"another key|at least 32"):
        keyed(OLD, later=later)
    with pytest.raises(ConfigurationError):
        Keyring(OLD, tuple(later))


def test_a_ring_on_disk(tmp_path):
    """One key is its bytes, several are a text; what is neither is refused, and nothing shows a
    key.
    """
    file = tmp_path / "edge.key"
    ring = Keyring(OLD).rotated(1_000, NEW).rotated(60_001, OTHER)
    assert Keyring.decode(ring.encode()) == ring
    assert Keyring(OLD).encode() == OLD
    assert Keyring.decode(OLD) == Keyring(OLD)
    assert ring.turns(1_000) == [(1, NEW), (61, OTHER)]
    assert ring.turns(60_000) == [(1, NEW), (2, OTHER)]
    assert ring.turns(3_600_000) == [(1, OTHER)]
    assert "rotations" in repr(ring) and repr(NEW) not in repr(ring)
    for content in (
        ring.encode()[:-30],
        ring.encode() + b"x y\n",
        ring.encode().replace(b"1000 ", b""),
        b"short",
    ):
        file.write_bytes(content)
        file.chmod(0o600)
        with pytest.raises(ConfigurationError, match=r"edge\.key"):
            read_key(file)
    file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_key(file)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A topology on an embedded broker whose worker died: it has folded and reported five slots,
    and kept three of them.
    """
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("LDP_KAFKA_BOOTSTRAP", raising=False)
    path = tmp_path / "fold.yaml"
    path.write_text(
        cases.TEXT.format(
            partitions=1, privacy=cases.CAPP, statistics="[mean, per_user]", lateness=1
        )
        + "edge: {key_file: edge.key}\n"
    )
    (tmp_path / "edge.key").write_bytes(OLD)
    (tmp_path / "edge.key").chmod(0o600)
    made = load(path)
    with EmbeddedBroker() as broker:
        broker.deployment = "here"
        publish(made.name, broker)
        prepare(made, broker)
        world = Kept(made, path, {"bootstrap.servers": broker.bootstrap_servers})
        world.put(made.raw_topic, [(None, message.value) for message in LOGS[0][: 5 * A_SLOT]])
        world.report(Keyring(OLD), 5 * A_SLOT)
        world.keep(edge_table(made, LOGS, until=3 * A_SLOT))
        admin.commit(world.config, made.group("perturb"), made.raw_topic, {0: 3 * A_SLOT + 1})
        yield world


class Kept:
    def __init__(self, topology, path, config):
        self.topology, self.path, self.config, self.file = (
            topology,
            str(path),
            config,
            path.parent / "edge.key",
        )
        self.changelog = topology.changelog("perturb", "perturb")

    def put(self, topic, records):
        producer = Producer({**self.config, "linger.ms": 0})
        for key, value in records:
            producer.produce(topic, value, key, partition=0, timestamp=cases.START)
        assert producer.flush(10) == 0

    def keep(self, held):
        self.put(self.changelog, [(key_bytes(key), value) for key, value in held.items()])

    def report(self, ring, until, *, held=None, want=1):
        _, records = folded(self.topology, ring, LOGS[0][want - 1 : until], held=held, want=want)
        self.put(
            self.topology.reports_topic,
            [
                (None, record.value)
                for record in records
                if record.topic == self.topology.reports_topic
            ],
        )

    def violations(self, ring):
        offsets = GroupOffsets(
            self.topology, "perturb", self.topology.role("perturb").agents, self.config, self.config
        )
        (spec,) = self.topology.role("perturb").agents
        seal = edge_randomness(self.topology, ring, cases.HERE).seal
        facts = read_facts(offsets, spec, 0)
        found = inspect(
            self.topology,
            spec,
            compacted(self.config, self.changelog),
            replace(facts, bindings={"key": seal.check}, seal=seal),
        )
        return [each.rule for each in found.violations]


def test_the_command(kept, capsys):
    """It begins after what the log holds and not after what the state covers; then a worker goes
    on, and the proof finds one draw of everything.
    """
    assert main(["key", "rotate", kept.path]) == 0
    assert "nothing was done" in capsys.readouterr().out
    assert kept.file.read_bytes() == OLD and kept.violations(Keyring(OLD)) == []
    assert main(["key", "rotate", kept.path, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == 1
    ring = read_key(kept.file)
    assert [(at // cases.SLOT, at % cases.SLOT) for at, _ in ring.later] == [(FIRST + 5, 0)]
    assert ring.first == OLD and not list(kept.file.parent.glob("edge.key.*"))
    assert kept.violations(ring) == [] and kept.violations(Keyring(OLD)) == ["key"]
    kept.put(kept.topology.raw_topic, [(None, message.value) for message in LOGS[0][5 * A_SLOT :]])
    kept.report(
        ring, len(LOGS[0]), held=compacted(kept.config, kept.changelog), want=3 * A_SLOT + 1
    )
    found = prove_once.prove(kept.topology, ring)
    assert found.clean and found.recomputed and found.ids == cases.USERS * SLOTS
    assert found.repeats == cases.USERS * 2
    assert not prove_once.prove(kept.topology, Keyring(OLD)).clean
    early = Keyring(OLD).rotated((FIRST + 4) * cases.SLOT, ring.later[0][1])
    assert prove_once.prove(kept.topology, early).unexpected == cases.USERS


def test_it_is_refused_too_early(kept, capsys):
    """While the log holds events of that time."""
    at = f"{cases.START // 1000 + 4 * 60}"
    assert main(["key", "rotate", kept.path, "--at", at]) == 2
    capsys.readouterr()
    for slot, code in ((4, 2), (5, 0), (6, 0)):
        assert (
            main(
                ["key", "rotate", kept.path, "--at", rotate_key.moment((FIRST + slot) * cases.SLOT)]
            )
            == code
        )
    assert "must not begin before" in capsys.readouterr().err


def test_a_broken_state_is_not_rotated(kept, capsys):
    """What a worker would halt over."""
    admin.commit(
        kept.config, kept.topology.group("perturb"), kept.topology.raw_topic, {0: 4 * A_SLOT}
    )
    assert main(["key", "rotate", kept.path, "--yes"]) == 1
    assert (
        "was acknowledged: it is an old one: `ldp-kafka state verify` first"
        in capsys.readouterr().err
    )
    assert kept.file.read_bytes() == OLD


@pytest.mark.parametrize("point", range(6))
def test_stopped_at_any_point_it_is_finished_later(kept, monkeypatch, capsys, point):
    """Before, between and after the records of the changelog, and before the file is put in place:
    the old file or none works meanwhile, and the same command brings it to its end.
    """
    real, count = rotate_key._Writer.put, []

    async def put(writer, key, value):
        if len(count) == point:
            raise KeyboardInterrupt
        count.append(key)
        await real(writer, key, value)

    monkeypatch.setattr(rotate_key._Writer, "put", put)
    with pytest.raises(KeyboardInterrupt):
        rotate_key.rotate([kept.topology], do=True)
    # the loop's abandoned task holds the interrupt and logs it when it is collected: here, not in
    # the middle of a later test's parser, which Python's traceback would enter a second time
    gc.collect()
    assert kept.file.read_bytes() == OLD
    written = next(at for at, name in enumerate([*count, "0/meta/"], 1) if "/meta/" in name) <= len(
        count
    )
    pending = read_key(kept.file.with_name("edge.key.next"))
    assert not (kept.violations(Keyring(OLD)) == [] and kept.violations(pending) == [])
    assert written or kept.violations(Keyring(OLD)) == []
    monkeypatch.setattr(rotate_key._Writer, "put", real)
    # life goes on: the new key must begin later
    kept.put(
        kept.topology.raw_topic,
        [(None, message.value) for message in LOGS[0][5 * A_SLOT : 6 * A_SLOT]],
    )
    rotate_key.rotate([kept.topology], do=True)
    ring = read_key(kept.file)
    assert ring.later == (((FIRST + 6) * cases.SLOT, pending.later[0][1]),)
    assert kept.violations(ring) == []
    capsys.readouterr()


def test_again_and_again(kept):
    """Each rotation later than the one before it, also where nothing has happened meanwhile."""
    for _ in range(3):
        rotate_key.rotate([kept.topology], do=True)
    ring = read_key(kept.file)
    times = [time for time, _ in ring.later]
    assert len(times) == 3 and all(a < b for a, b in pairwise(times))
    assert kept.violations(ring) == []


def test_a_worker_meanwhile(kept, monkeypatch):
    """Its state is bound to the old ring and covers more: the command says so, and the new file is
    not in place.
    """
    real = rotate_key._Held.write

    def write(held, ring):
        kept.keep(edge_table(kept.topology, LOGS, until=4 * A_SLOT, token="f" * 16))
        real(held, ring)

    monkeypatch.setattr(rotate_key._Held, "write", write)
    with pytest.raises(StateError, match="meanwhile"):
        rotate_key.rotate([kept.topology], do=True)
    assert kept.file.read_bytes() == OLD
    monkeypatch.setattr(rotate_key._Held, "write", real)
    rotate_key.rotate([kept.topology], do=True)
    assert kept.violations(read_key(kept.file)) == []


def test_all_topologies_of_one_file(kept, tmp_path):
    """They are named together."""
    with pytest.raises(ConfigurationError, match="same one"):
        rotate_key.rotate([kept.topology, cases.topology()], do=True)
    os.link(kept.file, tmp_path / "edge.key.next")  # not a rotation of it
    with pytest.raises(ConfigurationError, match="is not a rotation of"):
        rotate_key.rotate([kept.topology], do=True)
