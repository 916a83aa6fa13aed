"""The client of a device: what it reports, what it refuses, and what its database is bound to."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.errors import BadRecord, BrokerError, ConfigurationError, StateError
from ldp_kafka.metrics import Metrics
from ldp_kafka.records import Events, Ids, Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.device.client import Client, Status
from ldp_kafka.runtime.device.counter import Counter
from ldp_kafka.runtime.device.state import bound_to
from ldp_kafka.runtime.device.store import DeviceStore
from ldp_kafka.runtime.kafka import setup
from ldp_kafka.runtime.keys import edge_randomness, read_key
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.collect_devices import partition_of
from ldp_kafka.runtime.wire.codec import encode
from tests.keys import KEY
from tests.runtime.device.lives import (
    FIRST,
    SLOT,
    TEXT,
    TOPOLOGIES,
    Broker,
    in_a_process,
    loads,
    opened,
    provisioned,
)

NOW = (FIRST + 99) * SLOT
ETM = TEXT.replace("lateness: 1000", "lateness: 2") % ("etm", "domain: [0, 100]", "per_user")


def sent(broker):
    """The single reports that have left, in their order."""
    return [report for _, value in broker.left for report in lk.decode(value)]


SPLIT = TEXT % ("sample_split", "domain: [0, 100], dimension: 3", "mean, per_user")
VECTORS = {
    "sample_split": SPLIT,
    "budget_split": SPLIT.replace("sample_split", "budget_split"),
    "cgm_vector": (
        (
            TEXT
            % (
                "cgm_vector",
                "level: user, horizon: 200, delta: 1.0e-5, dimension: 3, diameter: 200",
                "per_user",
            )
        ).replace(", window: 3", "")
    ),
}


UNASKED = {
    f"{name} {statistic}": TEXT % (name, shape, statistic)
    for name in ("lbu", "lsp", "lpu")
    for shape, statistic in (("domain: [0, 100]", "mean"), ("categories: 5", "frequencies"))
}
"""Protocols whose users are asked for nothing."""


@pytest.mark.parametrize(
    "text",
    [*TOPOLOGIES.values(), ETM, *VECTORS.values(), *UNASKED.values()],
    ids=[*TOPOLOGIES, "etm", *VECTORS, *UNASKED],
)
def test_it_reports_what_an_edge_worker_would(text, tmp_path):
    """The same key, users and values in a raw topic give the same reports: over restarts of the
    device, gaps and repeated slots.
    """
    topology, rng, broker = (
        loads(text.replace("source: devices, ", "")),
        np.random.default_rng(5),
        Broker(),
    )
    assert topology.fingerprint == loads(text).fingerprint and topology.layout != loads(text).layout
    count, width = topology.privacy.categories, topology.method.dimension or None
    raw, client = [], None
    for at in range(72):
        user, slot = f"m{rng.integers(2)}", FIRST + at // 2 + int(rng.integers(2))
        value = rng.integers(count) if count else rng.uniform(-20, 120, width)
        raw.append(
            Message(
                at,
                -1,
                encode(Events(Ids.of([user]), np.array([slot * SLOT + at]), np.array([value]))),
            )
        )
        if at % 17 == 0:
            if client:
                client.close()
            client = opened(tmp_path, text, producer=broker)
        client.report(value, slot * SLOT + at, user=user)
    client.close()
    raw.append(Message(72, -1, encode(Tick((FIRST + 1099) * SLOT))))  # an edge's last reports wait
    randomness = edge_randomness(topology, read_key(tmp_path / "m.key"), "here")
    expected = [
        report
        for part in local.run(topology, randomness, [raw, []]).reports
        for record in part
        for report in lk.decode(record.value)
    ]
    key = lambda report: (report.slot, report.id)  # noqa: E731
    assert sorted(sent(broker), key=key) == sorted(expected, key=key)
    assert len(expected) > 5
    assert all(
        partition == partition_of(bytes.fromhex(lk.decode(value)[0].id), 2)
        for partition, value in broker.left
    )
    assert {partition for partition, _ in broker.left} == {0, 1}
    for number in range(2):
        values = [value for partition, value in broker.left if partition == number]
        stage = roles.make(loads(text), "collect", number)
        folded = stage.fold(
            stage.fresh(), [Message(at, -1, value) for at, value in enumerate(values)]
        )
        assert folded.counts["reports"] == len(values)
        Metrics("d", "collect", "m").count(folded)


def test_two_spellings_of_an_id_are_one_user(tmp_path):
    """As at the edge: one character, or a letter and an accent."""
    with opened(tmp_path) as client:
        assert client.report(50.0, NOW, user="m\u00e9") == "sent"
        assert client.report(50.0, NOW, user="me\u0301") is Status.LATE
        assert client.report(50.0, NOW, user="me") == "sent"


def test_one_draw_a_slot(tmp_path):
    """An event at or before the user's last slot produces nothing, whatever its value, and says
    nothing of it.
    """
    with opened(tmp_path) as client:
        assert client.report(50.0, NOW) == "sent"
        for time in (NOW, NOW + SLOT - 1, NOW - SLOT):
            assert client.report(50.0, time) is Status.LATE
        assert client.report(50.0, NOW, user="other") is Status.SENT
        assert client.report(1e9, NOW + SLOT) is Status.SENT
    assert len({(report.id, report.slot) for report in sent(client._queue._producer)}) == 3


def test_the_ledger_is_on_the_disk(tmp_path):
    """What was spent before a restart counts after it: a method whose reports cost more than a
    window has is refused.
    """
    broker, seen = Broker(), []
    for slot in range(8):
        with opened(tmp_path, producer=broker) as client:
            client._method = method = _dear(client._method)
            seen.append(str(client.report(50.0, (FIRST + slot) * SLOT)))
    assert method.spend * 2 > method.ledger.budget
    assert seen == ["sent", "refused", "refused"] * 2 + ["sent", "refused"]


def _dear(method):
    """The same method, each report of which costs two thirds of the budget: as a bug, or another's
    request, would have it.
    """
    dear = lk.method(
        "sw_direct", epsilon=method.epsilon, window=method.window, domain=method.domain
    )
    dear.spend = method.ledger.budget * 2 // 3
    return dear


def test_silent_users_are_silent(tmp_path):
    """In all but one slot of a window; their state moves on all the same."""
    with opened(tmp_path, TOPOLOGIES["lpu"]) as client:
        found = [client.report(1, (FIRST + slot) * SLOT) for slot in range(6)]
        assert sorted(found) == ["sent"] * 2 + ["silent"] * 4
        assert client.report(2, (FIRST + 5) * SLOT) == "late"


@pytest.mark.parametrize(
    ("value", "time", "user", "reason"),
    [
        (math.nan, None, None, "not_finite"),
        (math.inf, None, None, "not_finite"),
        (np.float64("nan"), None, None, "not_finite"),
        (True, None, None, "value"),
        ("12", None, None, "value"),
        (None, None, None, "value"),
        (10**400, None, None, "not_finite"),
        (1.0, -1, None, "time"),
        (1.0, math.nan, None, "time"),
        (1.0, "yesterday", None, "time"),
        (1.0, None, "", "user"),
        (1.0, None, "x" * 257, "user"),
        (1.0, NOW + 25 * 3_600_000, None, "ahead"),
    ],
)
def test_bad_events_spend_nothing(value, time, user, reason, tmp_path):
    """Their reason is a code; the slot is still free."""
    with opened(tmp_path) as client:
        with pytest.raises(BadRecord) as caught:
            client.report(value, time, user=user)
        assert caught.value.reason == reason
        assert client.report(1.0) == "sent"
    assert len(sent(client._queue._producer)) == 1


def test_a_clock_that_is_none(tmp_path):
    """Is no time, nor is one that was never set: nothing is spent in slots of 1970."""
    clock = [-1]
    with opened(tmp_path, clock=lambda: clock[0]) as client:
        for clock[0] in (-1, 0, 10 * SLOT, 10**11 - 1, 2**47):
            with pytest.raises(BadRecord, match=r"^time: "):
                client.report(1.0)
        for time in (0, 120, 20_240_331, 0.5):
            with pytest.raises(BadRecord, match=r"^time: "):
                client.report(1.0, time)
        clock[0] = NOW
        assert client.report(1.0) == "sent"
    assert [report.slot for report in sent(client._queue._producer)] == [NOW // SLOT]


@given(st.sampled_from(["iso", "datetime", "seconds", "milliseconds", "numpy"]))
@settings(max_examples=10)
def test_times_in_all_spellings(tmp_path_factory, spelling):
    """As in a raw topic, and datetimes."""
    moment = datetime(2024, 5, 1, 10, 0, 30, tzinfo=UTC)
    seconds = int(moment.timestamp())
    time = {
        "iso": "2024-05-01T12:00:30+02:00",
        "datetime": moment,
        "seconds": seconds,
        "milliseconds": seconds * 1000,
        "numpy": np.int64(seconds * 1000),
    }[spelling]
    with opened(tmp_path_factory.mktemp("times"), clock=lambda: seconds * 1000) as client:
        client.report(np.float32(3), time)
    assert [report.slot for report in sent(client._queue._producer)] == [seconds // 60]


def test_categories_by_name(tmp_path):
    """As the topology has them."""
    text = TEXT % ("lpu", "mechanism: grr, categories: [red, green, blue]", "frequencies")
    with opened(tmp_path, text) as client:
        with pytest.raises(BadRecord, match=r"^category: "):
            client.report("orange", FIRST * SLOT)
        assert {client.report("green", (FIRST + slot) * SLOT) for slot in range(3)} == {
            "sent",
            "silent",
        }


def test_a_full_producer_takes_it_later(tmp_path):
    """What it does not take waits on the disk, and goes in its order."""
    broker = Broker()
    with opened(tmp_path, producer=broker, most_queued=3) as client:
        broker.full = True
        assert [client.report(1.0, (FIRST + slot) * SLOT) for slot in range(3)] == ["queued"] * 3
        with pytest.raises(BrokerError, match="3 reports wait"):
            client.report(1.0, (FIRST + 3) * SLOT)
        assert client.flush(0.05) == client.queued == 3
        broker.full = False
        assert client.report(1.0, (FIRST + 3) * SLOT) == "sent"  # nothing was drawn for it
        assert client.flush() == 0
    assert [report.slot - FIRST for report in sent(broker)] == [0, 1, 2, 3]


def test_what_was_not_acknowledged_is_sent_again(tmp_path):
    """The same bytes, to the same partition, until it is; then never more."""
    first, second, third = Broker(), Broker(), Broker()
    first.down = True
    client = opened(tmp_path, producer=first)
    client.report(1.0, NOW)
    client.close(0.05)
    with opened(tmp_path, producer=second) as client:
        assert client.queued == 1
        client.poll()
        assert client.poll() == 0
    with opened(tmp_path, producer=third) as client:
        assert client.queued == client.poll() == 0
    assert first.left == second.left and len(first.left) == 1 and not third.left


def test_a_failed_delivery_is_tried_again(tmp_path):
    """And said, in the broker's words."""

    class Failing(Broker):
        fails = 2

        def poll(self, timeout):
            if self.flying and self.fails:
                self.fails -= 1
                self.flying.pop()[2](Problem(), None)
                return
            super().poll(timeout)

    class Problem:
        def str(self):
            return "Local: Unknown partition"

    broker = Failing()
    with opened(tmp_path, producer=broker) as client:
        client.report(1.0, NOW)
        client.poll()
        assert client.problem == "Local: Unknown partition" and client.queued == 1
        assert client.flush() == 0 and client.problem is None
    assert len(broker.left) == 3 and len(set(broker.left)) == 1


def test_no_value_is_shown(tmp_path):
    """In no repr and no error; and the user in none either."""
    client = opened(tmp_path, user="who-it-is")
    assert "who-it-is" not in repr(client) + repr(client._store) and str(tmp_path / "m.db") in repr(
        client._store
    )
    with pytest.raises(BadRecord) as caught:
        client.report("98765.4321")
    assert "98765" not in repr(caught.value) + str(caught.value)
    client._store._db.close()
    with pytest.raises(StateError) as caught:
        client.report(98765.4321)
    assert "98765" not in str(caught.value)
    with pytest.raises(StateError):
        client.report(1.0)  # and so on, until it is opened anew
    client.close()


def test_what_the_disk_is_told(tmp_path):
    """To sync each transaction; and to let nobody else read."""
    with opened(tmp_path) as client:
        client.report(1.0)
        ask = client._store._db.execute
        assert [
            ask(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "locking_mode", "fullfsync")
        ] == [2, "wal", "exclusive", 1]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("m.db", "m.db-wal", "m.key", "m.key.count"), 0o600)
    assert (tmp_path / "m.key").stat().st_size == 32


def test_one_process_has_it(tmp_path):
    """Another one is told so, and so is a forked child."""
    with opened(tmp_path) as client:
        with pytest.raises(StateError, match="in use"):
            opened(tmp_path)
        client._process += 1
        with pytest.raises(StateError, match="fork"):
            client.report(1.0)
        client._process -= 1
    with pytest.raises(StateError, match="closed"):
        client.report(1.0)
    client.close()


def test_a_fork_leaves_the_parents_database_alone(tmp_path):
    """SQLite's own end of it in a child would take the log away under the parent."""
    life = """
import os, sys
from tests.runtime.device.lives import opened, FIRST, SLOT
with opened(sys.argv[1]) as client:
    for slot in range(5):
        client.report(1.0, (FIRST + slot) * SLOT)
    if os.fork() == 0:
        sys.exit(0)  # leaves the block, and the interpreter clears up
    assert os.wait()[1] == 0
    assert client._store._db.execute("PRAGMA locking_mode").fetchone() == ("exclusive",)
    for slot in range(5, 10):
        client.report(1.0, (FIRST + slot) * SLOT)
    if os.fork() == 0:
        client = None
        sys.exit(0)
    assert os.wait()[1] == 0
    os._exit(0)  # as a crash would end it
"""
    in_a_process(life, tmp_path)
    with opened(tmp_path) as client:
        assert [client.report(1.0, (FIRST + slot) * SLOT) for slot in range(11)] == [
            "late"
        ] * 10 + ["sent"]


def test_a_full_disk_lets_nothing_out(tmp_path):
    """Nothing is drawn where the ledger cannot be written; what was written before stays, and the
    next client goes on.
    """
    with opened(tmp_path) as client:
        ask = client._store._db.execute
        ask(f"PRAGMA max_page_count={ask('PRAGMA page_count').fetchone()[0] + 1}")
        client._queue._producer.down = True
        slot = -1
        with pytest.raises(StateError, match="SQLITE_FULL") as caught:
            while slot < 100:
                slot += 1
                client.report(98765.4321, (FIRST + slot) * SLOT)
        assert "98765" not in str(caught.value)
        assert slot > 0
        assert [report.slot - FIRST for report in sent(client._queue._producer)] == list(
            range(slot)
        )
        with pytest.raises(StateError, match="anew"):
            client.report(1.0, (FIRST + slot) * SLOT)
    broker = Broker()
    with opened(tmp_path, producer=broker) as client:
        assert client.report(1.0, (FIRST + slot - 1) * SLOT) == "late"
        assert client.report(1.0, (FIRST + slot) * SLOT) == "sent"
    assert [report.slot - FIRST for report in sent(broker)] == list(range(slot + 1))


def test_a_clock_that_goes_back(tmp_path):
    """Gives no second draw: the user is silent until the clock has come back to where it was."""
    clock = [NOW]
    with opened(tmp_path, clock=lambda: clock[0]) as client:
        assert client.report(1.0) == "sent"
        clock[0] -= 50 * SLOT
        assert client.report(1.0) == "late"
        clock[0] = NOW + SLOT
        assert client.report(1.0) == "sent"


def test_a_topology_with_a_raw_topic_is_refused(tmp_path):
    """Nobody would count the reports."""
    with pytest.raises(ConfigurationError, match=r"input\.source of d must be devices"):
        opened(tmp_path, TOPOLOGIES["sw_direct"].replace("source: devices, ", ""))
    assert not list(tmp_path.iterdir())


def test_a_broker_that_is_down_holds_nothing_up(tmp_path):
    """A real producer: reports wait on the disk, and a later client sends them."""
    text = (
        TOPOLOGIES["sw_direct"]
        + "kafka: {bootstrap_servers: '127.0.0.1:1', client: {log_level: '0'}}\n"
    )
    with opened(tmp_path, text, producer=None) as client:
        assert client.report(1.0, NOW) == "sent"  # the producer has it
        assert client.flush(0.1) == client.queued == 1
        client.close(0)
    broker = Broker()
    with opened(tmp_path, text, producer=broker) as client:
        assert client.flush() == 0
    assert len(sent(broker)) == 1


def test_threads_share_it(tmp_path):
    """Of many that report for one slot one is heard."""
    found = []
    with opened(tmp_path) as client:
        threads = [
            threading.Thread(
                target=lambda at=at: found.extend(
                    str(client.report(float(at), NOW + slot * SLOT)) for slot in range(5)
                )
            )
            for at in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (
        found.count("sent")
        == len(sent(client._queue._producer))
        == len({report.id for report in sent(client._queue._producer)})
        <= 5
    )
    assert found.count("late") == 40 - found.count("sent")


def test_the_database_is_bound(tmp_path):
    """To the key, the fingerprint, the topology and its partitions; and nothing is changed in one
    that is refused.
    """
    with opened(tmp_path) as client:
        client.report(1.0, NOW)
    text = TOPOLOGIES["sw_direct"]
    other = tmp_path / "other.key"
    other.write_bytes(os.urandom(32))
    (tmp_path / "other.key.count").write_bytes((tmp_path / "m.key.count").read_bytes())
    other.chmod(0o600)
    held = (tmp_path / "m.db").read_bytes()
    for changed, options in (
        ("key", {"key_file": other}),
        ("fingerprint", {"text": text.replace("epsilon: 3.0", "epsilon: 4.0")}),
        ("topology", {"text": text.replace("topology: d", "topology: e")}),
        ("layout", {"text": text.replace("partitions: 2", "partitions: 3")}),
    ):
        with pytest.raises(StateError, match=f"written under another {changed}"):
            opened(tmp_path, **options)
    assert (tmp_path / "m.db").read_bytes() == held
    with opened(tmp_path) as client:
        assert client.report(2.0, NOW) == "late"


def started(folder, **options):
    """What a start says, without making anything."""
    files = {"database": folder / "m.db", "key_file": folder / "m.key"}
    Client(loads(TOPOLOGIES["sw_direct"]), user="m", producer=Broker(), **files | options).close()


def test_a_start_makes_nothing(tmp_path):
    """Whatever is lost, no report is drawn anew: each loss has its error and its way out."""
    with pytest.raises(ConfigurationError, match="device init"):
        started(tmp_path)
    assert not list(tmp_path.iterdir())
    with opened(tmp_path) as client:
        assert client.report(1.0, NOW) == "sent"
    away = tmp_path.parent / "away"
    for name, error in (
        ("m.key", "the key is missing.*bring it back"),
        ("m.db", "the database is missing.*new name"),
        ("m.key.count", "the counter of this device's commits is missing.*bring it back"),
    ):
        (tmp_path / name).rename(away)
        with pytest.raises(StateError, match=error):
            started(tmp_path)
        with pytest.raises(ConfigurationError, match="was provisioned: that is done once"):
            provisioned(loads(TOPOLOGIES["sw_direct"]), tmp_path)
        away.rename(tmp_path / name)
    started(tmp_path)


@pytest.mark.parametrize("made", [["m.key"], ["m.key", "m.key.count"], ["m.db"], ["m.key.count"]])
def test_a_provisioning_that_was_cut_short(tmp_path, made):
    """Is no device: a start refuses what it left, and so does another provisioning until it is
    taken away.
    """
    whole = tmp_path / "whole"
    whole.mkdir()
    provisioned(loads(TOPOLOGIES["sw_direct"]), whole)
    cut = tmp_path / "cut"
    cut.mkdir()
    for name in made:
        (whole / name).rename(cut / name)
    with pytest.raises(StateError, match="missing"):
        started(cut)
    with pytest.raises(
        ConfigurationError, match="may be removed, if the device has never reported"
    ):
        provisioned(loads(TOPOLOGIES["sw_direct"]), cut)
    assert sorted(path.name for path in cut.iterdir()) == sorted(made)
    for path in cut.iterdir():
        path.unlink()
    provisioned(loads(TOPOLOGIES["sw_direct"]), cut)
    started(cut)


@pytest.mark.parametrize("left", [0, 1, 1000])
def test_a_truncated_database_is_refused(tmp_path, left):
    """As is an empty one."""
    with opened(tmp_path) as client:
        client.report(1.0, NOW)
    content = (tmp_path / "m.db").read_bytes()
    (tmp_path / "m.db").write_bytes(content[:left])
    with pytest.raises(StateError, match=r"empty|no SQLite database|damaged"):
        started(tmp_path)


def test_an_older_copy_is_refused(tmp_path):
    """Of any age: what was spent since would look unspent. The newest one is taken, and so is one
    whose last commit was not counted.
    """
    copies = []
    for slot in range(4):
        with opened(tmp_path) as client:
            client.report(float(slot), (FIRST + slot) * SLOT)
        copies.append({name: (tmp_path / name).read_bytes() for name in ("m.db", "m.key.count")})
    for copy in copies[:-1]:
        (tmp_path / "m.db").write_bytes(copy["m.db"])
        with pytest.raises(StateError, match=r"older copy.*bring the last one back"):
            started(tmp_path)
    (tmp_path / "m.db").write_bytes(copies[-1]["m.db"])
    (tmp_path / "m.key.count").write_bytes(copies[-2]["m.key.count"])
    started(tmp_path)


def test_a_commit_that_was_not_counted_is_counted_at_the_next_start(tmp_path):
    """Also where nothing is reported then: the copies before it are older ones from then on, and
    that of the commit itself is the last one. The commits of another device are not counted.
    """
    copies = [b""]
    for slot in range(3):
        with opened(tmp_path) as client:
            client.report(float(slot), (FIRST + slot) * SLOT)
        copies.append((tmp_path / "m.db").read_bytes())
        if slot == 1:
            before = (tmp_path / "m.key.count").read_bytes()
    (tmp_path / "m.key.count").write_bytes(before)  # the power went before the third was counted
    other = tmp_path / "other"
    other.mkdir()
    with opened(other) as client:
        for slot in range(9):
            client.report(0.0, (FIRST + slot) * SLOT)
    (tmp_path / "m.db").write_bytes((other / "m.db").read_bytes())
    with pytest.raises(StateError, match="under another key"):
        opened(tmp_path)
    assert (tmp_path / "m.key.count").read_bytes() == before
    (tmp_path / "m.db").write_bytes(copies[3])

    opened(tmp_path).close()
    with closing(Counter(tmp_path / "m.key.count")) as counter:
        assert counter.least == 3
    for copy in copies[1:3]:
        (tmp_path / "m.db").write_bytes(copy)
        with pytest.raises(StateError, match="older copy"):
            opened(tmp_path)
    (tmp_path / "m.db").write_bytes(copies[3])
    opened(tmp_path).close()


@pytest.mark.parametrize("damage", [b"", b"\0" * 32, b"x" * 31])
def test_a_damaged_counter_is_refused(tmp_path, damage):
    """One of its two places may be: a write was cut short."""
    opened(tmp_path).close()
    counter = tmp_path / "m.key.count"
    whole = counter.read_bytes()
    counter.write_bytes(damage)
    with pytest.raises(StateError, match="is damaged"):
        started(tmp_path)
    for place in (0, 16):
        half = bytearray(whole)
        half[place : place + 8] = b"\xff" * 8
        counter.write_bytes(half)
        started(tmp_path)


def test_a_device_keeps_its_deployment(tmp_path):
    """Equal values of two devices that have one key and topology, in two deployments."""
    topology, sent = loads(TOPOLOGIES["sw_direct"]), []
    key = KEY
    for name in ("eu", "us"):
        folder = tmp_path / name
        folder.mkdir()
        files = {"database": folder / "m.db", "key_file": folder / "m.key"}
        Client.provision(topology, deployment=name, **files)
        (folder / "m.key").write_bytes(key)
        with pytest.raises(StateError, match="another key"):
            started(folder)
        (folder / "m.db").unlink()
        noise = edge_randomness(topology, key, name)
        DeviceStore.make(folder / "m.db", bound_to(topology, noise))
        broker = Broker()
        with Client(topology, user="m", producer=broker, clock=lambda: NOW, **files) as client:
            client.report(50.0, NOW)
        sent.append(broker.left[0][1])
    assert len(set(sent)) == 2
    ids = [lk.decode(value)[0].id for value in sent]
    assert ids[0] != ids[1]


def test_a_damaged_database_is_refused(tmp_path):
    """As are a foreign one, one of another version, and one that others can read."""
    broker = Broker()
    broker.full = True
    client = opened(tmp_path, producer=broker)
    for slot in range(60):
        client.report(1.0, (FIRST + slot) * SLOT)
    client.close(0)
    place = tmp_path / "m.db"
    whole = place.read_bytes()
    assert len(whole) > 3 * 4096
    for wrong in (
        whole[:4096] + os.urandom(4096) + whole[8192:],
        whole[: len(whole) - 4096],
        b"no database" * 1000,
    ):
        place.write_bytes(wrong)
        with pytest.raises(StateError, match=r"damaged|could not"):
            opened(tmp_path)
    place.write_bytes(whole)
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("PRAGMA user_version=1")
    with pytest.raises(StateError, match="schema 1"):
        opened(tmp_path)
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("PRAGMA application_id=7")
    with pytest.raises(StateError, match="not a device's"):
        opened(tmp_path)
    place.write_bytes(whole)
    place.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        opened(tmp_path)


def test_the_async_twin(tmp_path):
    """The same, awaited; one call at a time."""
    broker = Broker()
    given = {
        "user": "m",
        "database": tmp_path / "m.db",
        "key_file": tmp_path / "m.key",
        "producer": broker,
        "clock": lambda: NOW,
    }
    provisioned(loads(TOPOLOGIES["sw_direct"]), tmp_path)

    async def run():
        async with lk.AsyncClient(loads(TOPOLOGIES["sw_direct"]), **given) as client:
            found = await asyncio.gather(*(client.report(float(at), NOW) for at in range(5)))
            assert await client.poll() <= 1
            assert await client.flush() == 0
            assert "m" not in repr(client).replace("AsyncClient", "").replace("Client", "")
        await client.close()
        with pytest.raises(RuntimeError, match="closed"):
            await client.report(1.0)
        return found

    assert sorted(asyncio.run(run())) == ["late"] * 4 + ["sent"]
    assert len(broker.left) == 1

    async def wrong():
        async with lk.AsyncClient(
            loads(TOPOLOGIES["sw_direct"]), **given | {"key_file": tmp_path / "none"}
        ):
            pass

    with pytest.raises(StateError, match="bring it back"):
        asyncio.run(wrong())


def test_the_pages_example_runs(tmp_path, monkeypatch):
    """As it is written there, against the embedded broker: one report, which the
    collector counts.
    """
    pages = Path(lk.__file__).parents[1] / "deploy" / "docs" / "pages"
    page = (pages / "how-to" / "devices.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    assert "lk.Client(" in code
    monkeypatch.chdir(tmp_path)
    with EmbeddedBroker() as broker:
        text = (
            TOPOLOGIES["sw_direct"]
            + f"kafka: {{bootstrap_servers: '{broker.bootstrap_servers}'}}\n"
        )
        Path("meters.yaml").write_text(text)
        topology = lk.load_topology("meters.yaml")
        for topic in topology.topics():
            broker.create_topic(topic.name, topic.partitions)
        setup.prepare(topology)
        publish(topology.name, broker)
        exec(code, {})
        found = []
        reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test"})
        # after the header
        reader.assign([TopicPartition(topology.reports_topic, number, 1) for number in range(2)])
        while not found:
            found += [(message.partition(), message.value()) for message in reader.consume(1, 1)]
        reader.close()
    [(number, value)] = found
    stage = roles.make(topology, "collect", number)
    assert stage.fold(stage.fresh(), [Message(1, -1, value)]).counts["reports"] == 1


def test_the_front_has_it_lazily():
    """``import ldp_kafka`` stays light; the name is there."""
    code = (
        "import sys, ldp_kafka as lk; assert 'confluent_kafka' not in sys.modules;"
        " print(lk.Client.__name__, lk.AsyncClient.__name__)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(lk.__file__).parents[1],
        timeout=60,
    )
    assert run.stdout == "Client AsyncClient\n"
    assert lk.Client is Client
    with pytest.raises(AttributeError, match="Clint"):
        _ = lk.Clint
