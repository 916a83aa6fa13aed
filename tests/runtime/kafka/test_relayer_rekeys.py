"""The relayer where it re-keys, against the embedded broker: every event of a topic of any key is
in the partition of its user, and nothing is committed before all of it has arrived.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from contextlib import nullcontext
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from ldp_kafka.errors import StateError
from ldp_kafka.runtime.kafka import admin, relayer
from ldp_kafka.runtime.kafka.decisions import Decided
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.runs import Run
from ldp_kafka.runtime.stages.relaying import Mark
from ldp_kafka.runtime.stages.sources import Sources
from ldp_kafka.runtime.wire.copies import place_of
from ldp_kafka.runtime.wire.records import header
from ldp_kafka.topology import loads
from tests.broker.relays import FIRST, SLOT, Copier, kept, put
from tests.broker.requests import ask
from tests.broker.watching import until
from tests.runtime.stages.rekeys import asked

SOURCES, PARTITIONS = 2, 3
TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{topic: {name}.theirs, relay: rekey, sources: 2, partitions: 3, slot: 60s, lateness: 1,
  hold: 3, idle: {idle}, events: $}}
privacy: {{method: {method}, epsilon: 1.0, window: 5, categories: 4}}
output: {{statistics: [frequencies]}}
edge: {{key_file: k}}
runtime: {{session_timeout: 6s}}
"""


@pytest.fixture
def place(broker):
    """Makes a topology, with the topics that are needed, and how to reach the broker."""

    def make(method="lpu", idle="off", theirs=SOURCES):
        name = f"t{uuid4().hex}"
        topology = loads(TEXT.format(name=name, method=method, idle=idle))
        config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        broker.create_topic(topology.input.topic, theirs)
        broker.create_topic(topology.raw_topic, PARTITIONS)
        first = header(topology.name, topology.fingerprint, topology.layout)
        producer = Producer(config)
        for number in range(PARTITIONS):
            producer.produce(topology.raw_topic, first, partition=number)
        assert producer.flush(20) == 0
        if topology.flow.requests:
            broker.create_topic(topology.requests_topic, 1)
            ask(topology, config, first)
        return topology, config

    return make


def array(*slots, users="abcdefgh"):
    """An event of each user in turn, in these slots after the first."""
    return json.dumps(
        [
            {"user": users[at % len(users)], "time": (FIRST + slot) * SLOT, "value": 1}
            for at, slot in enumerate(slots)
        ]
    ).encode()


def left(topology, config):
    """What the group has not committed."""
    relay = topology.role("perturb").relay
    return sum(admin.lag(config, relay.group, relay.reads.name, range(SOURCES)).values())


def events(topology, config):
    """Of each partition of ours, {place: user} in its order; of a row that is none, None."""
    found = []
    for part in kept(topology, config):
        found.append({})
        for each in part:
            place = place_of(each.value)
            if place is not None and not place.is_tick:
                body = json.loads(each.value)
                found[-1].setdefault(place, body.get("user"))
    return found


def ticks(topology, config):
    """Of each partition of ours, by source, the ticks in slots after the first."""
    found = []
    for part in kept(topology, config):
        found.append(defaultdict(list))
        for each in part:
            place = place_of(each.value)
            if place is not None and place.is_tick:
                found[-1][place.source].append(json.loads(each.value)["tick"] // SLOT - FIRST)
    return [dict(each) for each in found]


def test_each_event_is_in_the_partition_of_its_user(place):
    """Whatever the key; ticks say in every partition how far each source is."""
    topology, config = place()
    put(topology, config, 0, (array(0, 0, 1), {"key": b"bike"}), array(1, users="xyz"))
    put(topology, config, 1, array(5, 6, 7, 5), b"junk", None)
    with Copier(topology, config) as copier:
        until(lambda: left(topology, config) == 0)
    found = events(topology, config)
    for number, part in enumerate(found):
        users = [user for user in part.values() if user is not None]
        assert partitions_of(users, PARTITIONS).tolist() == [number] * len(users)
    whole = [at for part in found for at, user in part.items() if user is not None]
    assert sorted(at[:] for at in whole) == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 0, 2),
        (0, 1, 0),
        *((1, 0, row) for row in range(4)),
    ]
    assert ticks(topology, config) == [{0: [1], 1: [7]}] * PARTITIONS
    bad = [each for each in kept(topology, config)[1] if b'"bad"' in (each.value or b"")]
    assert len(bad) == 2 and not any(b"junk" in each.value for each in bad)
    assert copier.counts == {"relayed": 5, "relay_dropped": 0} and not copier.ended


class Slow(OrderedProducer):
    """What is written while it is held is not confirmed."""

    held = sent = False

    def send(self, records):
        Slow.sent |= Slow.held
        super().send(records)

    def arrived(self, mark):
        return not (Slow.held and Slow.sent) and super().arrived(mark)


def test_nothing_is_committed_before_all_of_it_has_arrived(place, monkeypatch):
    """In all partitions: whoever goes on begins there, and looks nowhere else."""
    topology, config = place()
    monkeypatch.setattr(relayer, "OrderedProducer", Slow)
    put(topology, config, 0, array(0))
    with Copier(topology, config):
        until(lambda: left(topology, config) == 0)
        monkeypatch.setattr(Slow, "held", True)
        put(topology, config, 0, array(0, 1))
        until(lambda: ticks(topology, config)[PARTITIONS - 1].get(0) == [0, 1])
        time.sleep(1)
        assert left(topology, config) == 1
        monkeypatch.setattr(Slow, "held", False)
        until(lambda: left(topology, config) == 0)


class Forgetful(relayer.Relayer):
    """It commits nothing."""

    def _commit(self, consumer):
        pass


def test_who_goes_on_writes_again_what_was_not_committed(place, monkeypatch):
    """The same, in the same order; the fold drops it. It reads nothing of our log."""
    topology, config = place()
    monkeypatch.setattr(relayer, "read_records", lambda *_: pytest.fail("our log was read"))

    put(topology, config, 0, *(array(slot, slot, slot) for slot in range(40)))
    for number in (1, 2):
        with Copier(topology, config, make=Forgetful):
            until(lambda n=number: sum(map(len, kept(topology, config))) >= PARTITIONS + n * 240)
    with Copier(topology, config):
        until(lambda: left(topology, config) == 0)
    assert sum(map(len, events(topology, config))) == 120
    for part in kept(topology, config):
        values = [each.value for each in part[1:]]
        third = len(values) // 3
        assert values == values[:third] * 3
        messages = [Message(at, -1, value) for at, value in enumerate(values)]
        new, _ = Sources(SOURCES).new(Run.of(messages))
        assert new.values[:third] == values[:third]
        assert set(new.values[third:]) == {values[-1]}  # the last tick may stand again


@pytest.mark.parametrize(("low", "ends"), [(2, False), (3, True)])
def test_what_expired_while_nothing_was_committed(place, monkeypatch, low, ends):
    """As of a group that the broker has forgotten: our log says how far it was copied."""
    topology, config = place()

    put(topology, config, 0, array(0), array(1))
    with Copier(topology, config, make=Forgetful):
        until(lambda: ticks(topology, config)[PARTITIONS - 1].get(0) == [0, 1])
    put(topology, config, 0, array(2), array(3))
    real = relayer.extents

    def shorter(config, topic, numbers):
        found = real(config, topic, numbers)
        return {n: (low, end) if n == 0 else (first, end) for n, (first, end) in found.items()}

    monkeypatch.setattr(relayer, "extents", shorter)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended or left(topology, config) == 0)
    if not ends:
        assert ticks(topology, config) == [{0: [0, 1, 2, 3]}] * PARTITIONS and not copier.ended
        return
    (told,) = copier.ended
    assert isinstance(told, StateError)
    assert "theirs partition 0: offsets 2 to 2 expired before they were relayed" in str(told)


def test_what_was_decided_is_in_our_log(place, monkeypatch):
    """Where the group's offsets and the requests have expired nothing else says it: held back
    behind what was folded long ago, the relay would wait for decisions that wait for it.
    """
    topology, config = place("lpa")
    reached = list(range(5 + topology.input.ahead))
    put(topology, config, 0, *(array(slot) for slot in range(12)))
    ask(topology, config, *(FIRST + slot for slot in range(5)))
    with Copier(topology, config, make=Forgetful):
        until(lambda: ticks(topology, config)[2].get(0) == reached)
    producer = Producer(config)
    producer.produce(topology.raw_topic, asked(FIRST + 4), partition=1)  # as it is forwarded
    assert producer.flush(20) == 0
    monkeypatch.setattr(relayer, "decided", lambda *_: nullcontext(Decided(Silent())))
    with Copier(topology, config):
        until(lambda: ticks(topology, config)[2].get(0) == [*reached, *reached])


class Silent:
    """Of a topic without requests."""

    def consume(self, number, seconds):
        return []


def test_what_is_known_of_a_source_is_committed_with_it(place):
    """How far its event time is: one that goes on says nothing twice."""
    topology, config = place()
    put(topology, config, 0, array(0), array(3))
    with Copier(topology, config):
        until(lambda: left(topology, config) == 0)
    put(topology, config, 0, array(2), array(3), array(4))
    with Copier(topology, config):
        until(lambda: left(topology, config) == 0)
    assert ticks(topology, config) == [{0: [0, 3, 4]}] * PARTITIONS
    relay = topology.role("perturb").relay
    (known,) = [
        Mark.read(each.metadata)
        for each in relayer.Consumer({**config, "group.id": relay.group}).committed(
            [relayer.TopicPartition(relay.reads.name, 0)], timeout=10
        )
    ]
    assert known == Mark(0, (FIRST + 4) * SLOT, None)


def test_a_source_of_which_nothing_is_left_follows_the_others(place):
    """In every partition, and it moves its own mark alone."""
    topology, config = place(idle="1s")
    put(topology, config, 0, array(0), array(9))
    with Copier(topology, config):
        until(lambda: all(each.get(1) == [9] for each in ticks(topology, config)))
        put(topology, config, 0, array(12))
        until(lambda: all(each.get(1) == [9, 12] for each in ticks(topology, config)))
    assert ticks(topology, config) == [{0: [0, 9, 12], 1: [9, 12]}] * PARTITIONS


def test_a_source_is_held_back_by_itself(place):
    """Hours behind the other one, each goes as far as may be asked of it; a tick says so."""
    topology, config = place("lpa")
    ahead = topology.input.ahead
    put(topology, config, 0, *(array(slot) for slot in range(12)))
    put(topology, config, 1, *(array(slot) for slot in (300, 310)))

    def reached(source):
        return max(each.get(source, [-1])[-1] for each in ticks(topology, config))

    with Copier(topology, config):
        until(lambda: ticks(topology, config)[0].get(1, [0])[-1] == 299 + ahead)
        until(lambda: reached(0) == ahead - 1)
        ask(topology, config, *(FIRST + slot for slot in range(5)))
        until(lambda: reached(0) == 4 + ahead)
        time.sleep(1)
        assert reached(1) == 299 + ahead
        ask(topology, config, *(FIRST + slot for slot in range(5, 310)))
        until(lambda: left(topology, config) == 0)
    assert [reached(source) for source in range(SOURCES)] == [11, 310]


def test_nothing_is_copied_of_a_topic_that_was_made_anew_while_it_runs(place):
    """Nor while nobody says that it is the same: its places would be taken for the old one's."""
    topology, config = place()
    put(topology, config, 0, array(0))
    with Copier(topology, config) as copier:
        until(lambda: left(topology, config) == 0)
        copier.silent, asked = True, copier.asked
        put(topology, config, 0, array(1), array(2))
        until(lambda: copier.asked > asked + 2)
        copier.silent, copier.replaced = False, True
        until(lambda: copier.ended)
    assert isinstance(copier.ended[0], StateError)
    assert ticks(topology, config) == [{0: [0]}] * PARTITIONS and left(topology, config) == 2


@pytest.mark.parametrize("later", [False, True])
def test_other_partitions_than_it_says_are_refused(place, monkeypatch, later):
    """No slot would wait for all of them: at the start, and while it runs."""
    topology, config = place(theirs=SOURCES + 1)
    monkeypatch.setattr(relayer, "CHECK", 0.5)
    put(topology, config, 0, array(0))
    begun = []

    class Growing(relayer.Consumer):
        def assign(self, partitions):
            begun.extend(partitions)
            super().assign(partitions)

        def list_topics(self, topic, timeout):
            found = super().list_topics(topic, timeout)
            if later and not begun:
                del found.topics[topic].partitions[SOURCES]
            return found

    monkeypatch.setattr(relayer, "Consumer", Growing)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended, 40)
    (told,) = copier.ended
    assert isinstance(told, StateError) and "(input.sources), found 3" in str(told)
