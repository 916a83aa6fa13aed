"""A device that is asked for a second phase: what it answers, what it does not, what it keeps of a
value and for how long; whoever asks.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError

import ldp_kafka as lk
from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Request, Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.device import provisioning
from ldp_kafka.runtime.keys import edge_randomness, read_key
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.records import encode_json, header
from ldp_kafka.runtime.wire.reports import read_reports
from tests.depth import depth
from tests.keys import KEY
from tests.runtime.device.lives import FIRST, SLOT, TEXT, Broker, in_a_process, loads, opened

ASKED = TEXT.replace("lateness: 1000", "lateness: 0, hold: 2, max_ahead: 5m")
GRR = "mechanism: grr, categories: 5"
TOPOLOGIES = {name: ASKED % (name, GRR, "frequencies") for name in ("lbd", "lba", "lpd", "lpa")}
TOPOLOGIES["mean"] = ASKED % ("lba", "domain: [0, 4]", "mean")
HEADER = header("d", "0" * 32, "0" * 32)
BUDGET, WINDOW, HOLD = 3_000_000, 3, 2


@pytest.fixture(autouse=True)
def same_key(monkeypatch):
    """Who is in which half, and whose turn it is, is a matter of the key: here of one."""

    def made(path):
        path.write_bytes(KEY)
        path.chmod(0o600)

    monkeypatch.setattr(provisioning, "new_key", made)


def request(slot, cost=None, share=1, of=1, phase=1, name="lba"):
    """A request of a slot counted from the first; by default all that can be asked of a slot."""
    most = BUDGET if name.startswith("lp") else BUDGET // 2
    cost = most if cost is None else cost
    return encode_json(Request("r", FIRST + slot, phase, cost, FIRST + slot + 9, share, of))


def said(message):
    """(id, slot, phase, value, cost) of a report."""
    [one] = read_reports(message).singles()
    return one.id, one.slot, one.phase, one.value, read_reports(message).cost


def held(client):
    """(slot counted from the first, value) of what waits in a device's database."""
    rows = client._store._ask("SELECT slot, code FROM held ORDER BY slot")
    return [(slot - FIRST, code) for slot, code in rows]


def everything(client):
    """All that a database has, as text."""
    return list(client._store._db.iterdump())


@pytest.mark.parametrize("seed", range(depth(4, 60)))
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_it_answers_what_an_edge_would(name, seed, disk):
    """The same values and requests in a raw log give the same reports, over restarts: of users who
    are there, are not, or come later, and of requests of any share and cost, some of them invalid.
    """
    text, dice, broker = TOPOLOGIES[name], Random(seed), Broker()
    topology = loads(text.replace("source: devices, ", ""))
    assert topology.fingerprint == loads(text).fingerprint
    client = opened(disk, text, producer=broker)
    randomness = edge_randomness(topology, read_key(disk / "m.key"), "here")
    stage = roles.make(topology, "perturb", 0, randomness)
    state, expected, offset = stage.fresh(), set(), 0

    def fold(value):
        nonlocal offset
        folded = stage.fold(state, [Message(offset, -1, value)])
        offset += 1
        for record in folded.records:
            batch = read_reports(record.value) if record.topic == stage.reports_topic else None
            for one in () if batch is None else batch.singles():
                expected.add((one.id, one.slot, one.phase, one.value, batch.cost))

    users = [f"m{number}" for number in range(8)]
    settled = -1
    for slot in range(14):
        for user in users:
            if (user == "m1" and slot < 5) or (user != "m0" and dice.random() < 0.3):
                continue  # m0 is always there: else the edge's clock is not that of every device
            at, value = (FIRST + slot) * SLOT, dice.randrange(5)
            fold(encode(Events(Ids.of([user]), np.array([at]), np.array([value]))))
            client.report(value, at, user=user)
        due = [each for each in range(slot - HOLD, slot) if each > settled]
        for each in due[: dice.randint(0, 2)]:
            wanted = _wanted(dice, name, each)
            fold(wanted)
            client.answer(wanted)
            before = len(expected)
            again = _wanted(dice, name, dice.randint(0, each))
            if state.asked.settled - FIRST >= each:
                settled = each
                fold(again)
                client.answer(again)
                assert len(expected) == before
        if dice.random() < 0.4:
            client.close()
            client = opened(disk, text, producer=broker)
    fold(encode(Tick((FIRST + 99) * SLOT)))  # else an edge's last reports wait for more
    client.close()
    assert {said(value) for _, value in broker.left} == expected
    assert {phase for _, _, phase, _, _ in expected} == {0, 1}


def _wanted(dice, name, slot):
    """A request, which may ask for nothing, or be invalid."""
    if name.startswith("lp"):
        cost = dice.choice([BUDGET] * 6 + [0, BUDGET // 2])
        return request(slot, cost, dice.choice([1, 1, 2]), dice.choice([2, 2, 3, 1000]))
    return request(slot, dice.choice([0, 1, 300_000, 700_000, BUDGET // 2, BUDGET]))


@pytest.mark.parametrize(
    "what",
    [
        b"",
        b"\xff\x00",
        b"{}",
        b'{"ldp_kafka": 1, "type": "request"}',
        HEADER,
        encode(Tick((FIRST + 3) * SLOT)),
        request(1, phase=0),
        request(1, phase=2),
        request(1, cost=BUDGET // 2 + 1),
        request(1, cost=BUDGET),
        request(1, share=1, of=2),
        request(1, cost=-1),
        request(0),
        request(0, cost=1000),
        request(-1),
        request(99 + 6),
        request(10**6),
    ],
)
def test_what_is_no_request_changes_nothing(what, tmp_path):
    """Nor does what comes again, with whatever other cost, or for an earlier slot, or too far ahead
    of the clock: not a byte of the database, and the next valid one is answered.
    """
    with opened(tmp_path, TOPOLOGIES["lba"]) as client:
        for slot in (0, 1):
            client.report(2, (FIRST + slot) * SLOT)
        assert client.answer(request(0, cost=500_000)) == 1
        before = everything(client)
        assert client.answer(what, what) == 0
        assert everything(client) == before
        assert client.answer(request(1, cost=500_000)) == 1


def test_too_small_a_share_is_refused(tmp_path):
    """Nobody can be singled out: no device of half B answers what less than the least fraction is
    asked, and the next request is answered as if it had not come.
    """
    topology = loads(TOPOLOGIES["lpa"])
    share, of = topology.method.protocol.terms.least
    made = 0
    with opened(tmp_path, TOPOLOGIES["lpa"]) as client:
        for number in range(40):
            client.report(1, FIRST * SLOT, user=f"m{number}")
        assert client.answer(request(0, BUDGET, share, 2 * of)) == 0
        assert client.answer(request(0, BUDGET // 2, share, of)) == 0
        assert client._answers.last == -1
        made = client.answer(request(0, BUDGET, 1, 1))
        halves = in_second_half(
            client._randomness.digests(Ids.of([f"m{number}" for number in range(40)]))
        )
    assert made == halves.sum() > 5


def test_how_long_a_value_waits(tmp_path):
    """Until its request has come, or that of a later slot, or as many slots later as the collector
    counts answers for.
    """
    with opened(tmp_path, TOPOLOGIES["lba"]) as client:
        for slot in range(3):
            client.report(slot, (FIRST + slot) * SLOT)
        assert held(client) == [(0, 0), (1, 1), (2, 2)]
        assert client.answer(request(0, cost=0)) == 0
        assert held(client) == [(1, 1), (2, 2)]
        assert client.answer(request(2)) == 1
        assert held(client) == []
        client.report(4, (FIRST + 3) * SLOT)
        client.report(3, (FIRST + 3 + HOLD) * SLOT)
        assert held(client) == [(3, 4), (5, 3)]
        client.report(1, (FIRST + 3 + HOLD + 1) * SLOT)
        assert held(client) == [(5, 3), (6, 1)]
        assert client.answer(request(3)) == 0
        assert held(client) == [(5, 3), (6, 1)]


def test_nothing_is_held_for_what_cannot_come(tmp_path):
    """Of a slot whose request has come, of users of half A, and where nobody asks."""
    with opened(tmp_path, TOPOLOGIES["lba"]) as client:
        client.answer(request(4))
        assert client.report(1, (FIRST + 4) * SLOT) == "sent"
        assert held(client) == []
        assert client.report(1, (FIRST + 5) * SLOT) == "sent"
        assert held(client) == [(5, 1)]
    (tmp_path / "lpa").mkdir()
    with opened(tmp_path / "lpa", TOPOLOGIES["lpa"]) as client:
        names = [f"m{number}" for number in range(30)]
        for name in names:
            client.report(3, FIRST * SLOT, user=name)
        digests = client._randomness.digests(Ids.of(names))
        rows = client._store._ask("SELECT digest FROM held")
        assert {row[0] for row in rows} == {
            digests[at].tobytes() for at in np.flatnonzero(in_second_half(digests))
        }
    (tmp_path / "lbu").mkdir()
    with opened(tmp_path / "lbu", ASKED % ("lbu", GRR, "frequencies")) as client:
        client.report(3, FIRST * SLOT)
        assert held(client) == []
        with pytest.raises(ConfigurationError, match="lbu is not asked for anything"):
            client.answer(request(0))


@pytest.mark.parametrize("served", ["poll", "open", "report"])
def test_a_value_is_let_go_by_the_devices_own_clock(served, tmp_path):
    """Where neither requests nor values come; whatever is called next, and not a moment before."""
    now = [FIRST * SLOT + 7]
    made = {"clock": lambda: now[0]}
    client = opened(tmp_path, TOPOLOGIES["lba"], **made)
    client.report(3)
    over = now[0] + (1 + HOLD) * SLOT
    for moment, left in ((over - 1, True), (over, False)):
        now[0] = moment
        if served == "poll":
            client.poll()
        elif served == "open":
            client.close()
            client = opened(tmp_path, TOPOLOGIES["lba"], **made)
        else:
            client.report(1, FIRST * SLOT, user=f"other {left}")
        assert ((0, 3) in held(client)) == left
    client.close()


@pytest.mark.parametrize(("early", "made"), [(1, 1), (0, 0)])
def test_a_request_finds_nothing_that_has_waited_for_too_long(early, made, tmp_path):
    now = [FIRST * SLOT + 7]
    with opened(tmp_path, TOPOLOGIES["lba"], clock=lambda: now[0]) as client:
        client.report(3)
        now[0] += (1 + HOLD) * SLOT - early
        assert client.answer(request(0)) == made


def test_what_is_let_go_is_nowhere_in_the_file(tmp_path):
    """A code that stands nowhere else is in the file while it waits, and is not when it does not.
    It is not the digits of it that are looked for: SQLite writes integers as bytes.
    """
    client = opened(tmp_path, (ASKED % ("lba", "domain: [0, 100]", "mean")))
    client.report(77.123, FIRST * SLOT)
    [(_, code)] = held(client)
    path, mark = tmp_path / "m.db", int(code).to_bytes(4, "big")
    assert code.bit_length() > 24

    def there():
        client._store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return mark in path.read_bytes()

    assert there()
    client.answer(request(0, cost=0))
    assert not there()
    assert client._store._ask("PRAGMA secure_delete") == [(1,)]
    client.close()


def test_a_turn_is_used_whether_there_is_a_value_or_not(tmp_path):
    """Two devices of one key: one has a value in every slot and hears at once, the other is off,
    and reads all requests when it comes back. They are selected for the same slots.
    """
    dice = Random(5)
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    names = [f"m{number}" for number in range(30)]
    asked = [request(slot, BUDGET, 1, 2) for slot in range(8)]
    with opened(one, TOPOLOGIES["lpa"]) as client:
        for name in names:
            client.report(1, FIRST * SLOT, user=name)
    other.mkdir()
    for path in one.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
        (other / path.name).chmod(0o600)
    states, made = [], []
    for folder in (one, other):
        with opened(folder, TOPOLOGIES["lpa"]) as client:
            count = 0
            for slot in range(8):
                for name in names:
                    if slot and folder == one:
                        client.report(dice.randrange(5), (FIRST + slot) * SLOT, user=name)
                if folder == one:
                    count += client.answer(asked[slot])
            count += client.answer(*asked)
            made.append(count)
            digests = client._randomness.digests(Ids.of(names))
            selected = []
            for at in range(len(names)):
                state = client._load(digests[at : at + 1])
                selected.append(int(state.columns["selected"][0]) - FIRST)
            states.append(selected)
    assert states[0] == states[1]
    assert made[0] > 2 * made[1] > 0
    assert len({slot for slot in states[0] if slot >= 0}) > 2


def test_a_new_user_draws_what_it_would_have_been_selected_for(tmp_path):
    """The same user, met after the same requests by two devices of one key: on one the requests
    come before its first value, on the other after it.
    """
    names = [f"m{number}" for number in range(200)]
    asked = [request(slot, BUDGET, 1, 2) for slot in range(5)]
    found = []
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    opened(one, TOPOLOGIES["lpa"]).close()
    other.mkdir()
    for path in one.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
        (other / path.name).chmod(0o600)
    for folder in (one, other):
        with opened(folder, TOPOLOGIES["lpa"]) as client:
            for request_ in asked if folder == one else asked[:3]:
                client.answer(request_)
            for name in names:
                client.report(1, (FIRST + 5) * SLOT, user=name)
            client.answer(*asked)
            digests = client._randomness.digests(Ids.of(names))
            found.append(
                [
                    int(client._load(digests[at : at + 1]).columns["selected"][0])
                    for at in range(len(names))
                ]
            )
    assert found[0] == found[1]
    seen = np.array(found[0])[np.array([slot >= 0 for slot in found[0]])] - FIRST
    assert set(seen.tolist()) == {3, 4}, "the slots of the window before"


def test_reports_that_wait_keep_requests_waiting(tmp_path):
    """Where as many wait as may, nothing is drawn, and the request counts when there is room."""
    broker = Broker()
    broker.full = True
    with opened(tmp_path, TOPOLOGIES["lba"], producer=broker, most_queued=1) as client:
        assert client.report(1, FIRST * SLOT) == "queued"
        before = everything(client)
        with pytest.raises(BrokerError, match="as many as may"):
            client.answer(request(0))
        assert everything(client) == before
        broker.full = False
        client.flush()
        assert client.answer(request(0)) == 1


class Consumer:
    """A topic of requests, from an offset on."""

    def __init__(self, log):
        self.log, self.at, self.errors, self.closed = log, None, [], False
        self.unread, self.looks = None, 0

    def assign(self, partitions):
        [place] = partitions
        assert (place.topic, place.partition) == ("d.requests", 0)
        self.at = 0 if place.offset == OFFSET_BEGINNING else place.offset

    def consume(self, most, timeout):
        found = [_message(error=error) for error in self.errors]
        self.errors = []
        found += [
            _message(offset, value) for offset, value in enumerate(self.log) if offset >= self.at
        ]
        self.at = max(self.at, len(self.log))
        return found[:most]

    def list_topics(self, topic, timeout):
        self.looks += 1
        return SimpleNamespace(topics={topic: SimpleNamespace(error=self.unread)})

    def close(self):
        self.closed = True


def _message(offset=None, value=None, error=None):
    return SimpleNamespace(error=lambda: error, offset=lambda: offset, value=lambda: value)


def test_it_reads_requests_by_itself(tmp_path):
    """Within `poll` and `report`; the next client goes on where the last one was, and one that
    must read all again answers nothing again.
    """
    log, broker = [HEADER, b"junk"], Broker()
    given = {"producer": broker, "text": TOPOLOGIES["lba"]}
    with opened(tmp_path, consumer=Consumer(log), **given) as client:
        client.report(1, FIRST * SLOT)
        client.poll()
        assert held(client) == [(0, 1)]
        log.append(request(0, cost=500_000))
        client.poll()
        assert held(client) == [] and len(broker.left) == 2
        client.report(2, (FIRST + 1) * SLOT)
        log.append(request(1, cost=500_000))
        client.report(2, (FIRST + 2) * SLOT)
        assert len(broker.left) == 5
        last = client._requests._consumer
    assert last.closed
    for at in (4, None):
        consumer = Consumer(log)
        with opened(tmp_path, consumer=consumer, **given) as client:
            assert consumer.at == 4
            consumer.at = at or 0
            client.poll()
    assert len(broker.left) == 5
    assert {said(value)[2:5:2] for _, value in broker.left} == {(0, 0), (1, 500_000)}


def test_requests_that_were_read_wait_for_room(tmp_path):
    """They are not lost with the call that could not answer them."""
    log, broker = [request(0, cost=500_000)], Broker()
    broker.full = True
    given = {"producer": broker, "text": TOPOLOGIES["lba"], "most_queued": 1}
    consumer = Consumer([])
    with opened(tmp_path, consumer=consumer, **given) as client:
        client.report(1, FIRST * SLOT)
        consumer.log = log
        for _ in range(2):
            with pytest.raises(BrokerError, match="as many as may"):
                client.poll()
        broker.full = False
        client.flush()
        client.poll()
        assert len(broker.left) == 2


def test_what_the_connection_says(tmp_path):
    """An error that passes is shown, and one of rights is raised."""
    consumer = Consumer([])
    with opened(tmp_path, TOPOLOGIES["lba"], consumer=consumer) as client:
        consumer.errors = [KafkaError(KafkaError._ALL_BROKERS_DOWN)]
        client.poll()
        assert "broker" in client.problem.lower()
        consumer.log = [request(0)]
        client.poll()
        assert client.problem is None
        consumer.errors = [KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)]
        with pytest.raises(ConfigurationError, match=r"may not READ topic d\.requests"):
            client.poll()


def test_a_topic_that_nothing_is_heard_of(tmp_path):
    """A consumer that may not read waits for ever: so the topic is looked at, where there is time
    for it, until something has come.
    """
    consumer = Consumer([])
    consumer.unread = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with opened(tmp_path, TOPOLOGIES["lba"], consumer=consumer) as client:
        client.report(1, FIRST * SLOT)
        client.poll()
        assert consumer.looks == 0
        with pytest.raises(ConfigurationError, match=r"may not READ topic d\.requests"):
            client.poll(0.1)
        client.poll(0.1)
        assert consumer.looks == 1, "not at every poll"
        client._requests._look_at = 0.0
        consumer.unread = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        client.poll(0.1)
        assert consumer.looks == 2 and "nknown topic" in client.problem
        consumer.log = [request(0)]
        client.poll(0.1)
        client._requests._look_at = 0.0
        client.poll(0.1)
        assert consumer.looks == 2 and client.problem is None


def test_a_fork_leaves_the_parents_consumer_alone(tmp_path):
    """A child has none of its threads: whoever closes it there waits for ever, and whoever lets go
    of it is ended by librdkafka.
    """
    life = """
import os, signal, sys
from pathlib import Path
from tests.runtime.device.lives import opened
from tests.runtime.device.test_client_asked import TOPOLOGIES
from ldp_kafka.runtime.kafka.reader import reader
for way in ("leaves", "drops"):
    folder = Path(sys.argv[1], way)
    folder.mkdir()
    consumer = reader({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    client, consumer = opened(folder, TOPOLOGIES["lba"], consumer=consumer), None
    client.poll(0.1)
    if os.fork() == 0:
        signal.alarm(10)
        if way == "leaves":
            client.close()
        client = None
        sys.exit(0)  # and the interpreter clears up
    assert os.wait()[1] == 0, way
    client.close()
"""
    in_a_process(life, tmp_path)


def test_a_database_of_before(tmp_path):
    """One that was made when nobody asked devices has no place for values; it needs none."""
    opened(tmp_path, ASKED % ("lbu", GRR, "frequencies")).close()
    with closing(sqlite3.connect(tmp_path / "m.db")) as before:
        before.execute("DROP TABLE held")
        before.execute("DROP TABLE asked")
        before.commit()
    with opened(tmp_path, ASKED % ("lbu", GRR, "frequencies")) as client:
        assert client.report(1, FIRST * SLOT) == "sent"


def test_with_an_event_loop(tmp_path):
    async def run():
        opened(tmp_path, TOPOLOGIES["lba"]).close()
        files = {"database": tmp_path / "m.db", "key_file": tmp_path / "m.key"}
        async with lk.AsyncClient(
            loads(TOPOLOGIES["lba"]), user="m", producer=Broker(), **files
        ) as client:
            await client.report(1, FIRST * SLOT)
            return await client.answer(request(0)), await client.answer(request(0))

    assert asyncio.run(run()) == (1, 0)
