"""The relayer against the embedded broker: every record of the other topic is in our log once, as
it was, whatever is stopped when; and not before it may.

That one of two goes on where the other has ended is tried on real brokers
(`tests/broker/test_relay.py`), for the reason that `test_forwarder.py` gives.
"""

from __future__ import annotations

import json
import time
from uuid import uuid4

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.records import Request, Tick
from ldp_kafka.runtime.kafka import admin, relayer
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.stages.relaying import Mark
from ldp_kafka.runtime.wire.records import encode_json, header
from ldp_kafka.topology import loads
from tests.broker.relays import (
    FIRST,
    PARTITIONS,
    SLOT,
    TEXT,
    Copier,
    batch,
    copied,
    event,
    kept,
    left,
    now,
    put,
    slots_of,
    ticks,
)
from tests.broker.requests import ask
from tests.broker.watching import until
from tests.runtime.kafka.copiers import Held, cut_off_from_brokers, error

OFF = "off"


@pytest.fixture
def place(broker):
    """Makes a topology, with the topics that are needed, and how to reach the broker."""

    def make(method="lpu", idle=OFF, more="", theirs=PARTITIONS):
        name = f"t{uuid4().hex}"
        text = TEXT.format(
            name=name,
            boot="127.0.0.1:1",
            key="k",
            session="6s",
            method=method,
            idle=idle,
            more=more,
        )
        topology = loads(text)
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


def test_records_are_copied_as_they_are(place):
    """Key, value, headers, timestamp and order; those that are no events too."""
    topology, config = place()
    stamp = now() - 3_600_000
    given = [
        (event(0), {"key": b"u", "timestamp": stamp, "headers": [("trace", b"7"), ("x", None)]}),
        (b"\xff junk", {"timestamp": stamp + 1}),
        (event(0, "v"), {"key": None, "headers": [("ldp-source", b"99")]}),
        (None, {"key": b"tombstone"}),
    ]
    put(topology, config, 1, *given)
    with Copier(topology, config) as copier:
        until(lambda: copied(topology, config) == [[], [0, 1, 2, 3]])
        until(lambda: left(topology, config) == 0)
        put(topology, config, 1, event(1))
        until(lambda: copier.shown.waiting == 0 and left(topology, config) == 0)
    _, found = kept(topology, config)
    assert [each.value for each in found[1:]] == [
        given[0][0],
        given[1][0],
        given[2][0],
        b"",
        event(1),
    ]
    assert [each.key for each in found[1:]] == [b"u", None, None, b"tombstone", None]
    assert [each.timestamp for each in found[1:3]] == [stamp, stamp + 1]
    assert list(found[1].headers) == [("trace", b"7"), ("x", None), ("ldp-source", b"0")]
    assert list(found[3].headers) == [("ldp-source", b"99"), ("ldp-source", b"2")]
    assert copier.counts == {"relayed": 5, "relay_dropped": 0} and not copier.ended


def test_a_timestamp_of_the_future_becomes_now(place):
    """A broker would refuse it, and whoever reads the log would wait for that time."""
    topology, config = place()
    put(topology, config, 0, (event(0), {"timestamp": now() + 10 * 86_400_000}))
    with Copier(topology, config):
        until(lambda: copied(topology, config)[0] == [0])
    assert abs(kept(topology, config)[0][1].timestamp - now()) < 60_000


class Begun:
    """A message that was written when the clock of timestamps began."""

    def __init__(self, message):
        self._message = message

    def __getattr__(self, name):
        return getattr(self._message, name)

    def timestamp(self):
        return TIMESTAMP_CREATE_TIME, 0


def test_a_timestamp_of_0_does_not_become_now(place, monkeypatch):
    """A producer takes 0 for now: then an event that was far ahead of its record, and so is none,
    would be one, and would have been copied past what can still be asked.
    """
    topology, config = place("lpa")
    put(topology, config, 0, event(50))

    class Old(relayer.Consumer):
        def poll(self, timeout):
            message = super().poll(timeout)
            return message if message is None or message.error() else Begun(message)

    monkeypatch.setattr(relayer, "Consumer", Old)
    with Copier(topology, config):
        until(lambda: copied(topology, config)[0] == [0])
    assert kept(topology, config)[0][1].timestamp == 1


def test_requests_of_others_are_not_copied(place):
    """Those are the forwarder's to write, after its checks."""
    topology, config = place()
    forged = encode_json(Request("7/1", FIRST, 1, 500_000, FIRST + 4))
    put(topology, config, 0, event(0), forged, event(1))
    with Copier(topology, config) as copier:
        until(lambda: copied(topology, config)[0] == [0, 2])
        until(lambda: left(topology, config) == 0)
    assert copier.counts == {"relayed": 2, "relay_dropped": 1}


def test_it_goes_on_where_our_log_ends(place):
    """What the group has committed is only where it begins to look: here nothing of the first run
    was, nor of the second.
    """
    topology, config = place()

    class Forgetful(relayer.Relayer):
        def _commit(self, consumer):
            pass

    put(topology, config, 0, *(event(0, f"u{n}") for n in range(1200)))
    with Copier(topology, config, make=Forgetful):
        until(lambda: len(copied(topology, config)[0]) == 1200)
    put(topology, config, 0, event(0, "v"))
    with Copier(topology, config, make=Forgetful):
        until(lambda: len(copied(topology, config)[0]) > 1200)
    assert left(topology, config) == 1201
    with Copier(topology, config) as copier:
        until(lambda: left(topology, config) == 0)
    assert copied(topology, config)[0] == list(range(1201))
    assert copier.counts.get("relayed", 0) == 0


def test_it_looks_no_further_back_than_it_must(place, monkeypatch):
    """From where the last one had written: what is said of that with the offset."""
    topology, config = place()
    put(topology, config, 0, event(0), event(1))
    with Copier(topology, config):
        until(lambda: left(topology, config) == 0)
    seen = []

    def reading(config, topic, within):
        seen.append(dict(within))
        return iter(())

    monkeypatch.setattr(relayer, "read_records", reading)
    with Copier(topology, config):
        until(lambda: len(seen) == 2)
    assert {number: within for each in seen for number, within in each.items()} == {
        0: (3, 3),
        1: (1, 1),
    }


def test_what_expired_before_the_first_start_was_never_ours(place, monkeypatch):
    topology, config = place()
    put(topology, config, 0, event(0), event(1), event(2))
    real = relayer.extents

    def shorter(config, topic, numbers):
        found = real(config, topic, numbers)
        return {
            n: (2, end) if n == 0 and topic.endswith("theirs") else (low, end)
            for n, (low, end) in found.items()
        }

    monkeypatch.setattr(relayer, "extents", shorter)
    with Copier(topology, config) as copier:
        until(lambda: left(topology, config) == 0)
    assert copied(topology, config)[0] == [2] and not copier.ended


@pytest.mark.parametrize(("gaps", "ends"), [("strict", True), ("allow", False)])
def test_what_expired_since(place, monkeypatch, gaps, ends):
    """It is said which, and only who allows gaps goes on."""
    topology, config = place(more=f", gaps: {gaps}")
    put(topology, config, 0, event(0))
    with Copier(topology, config):
        until(lambda: left(topology, config) == 0)
    put(topology, config, 0, event(1), event(2), event(3))
    real = relayer.extents

    def shorter(config, topic, numbers):
        found = real(config, topic, numbers)
        return {
            n: (3, end) if n == 0 and topic.endswith("theirs") else (low, end)
            for n, (low, end) in found.items()
        }

    monkeypatch.setattr(relayer, "extents", shorter)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended or left(topology, config) == 0)
    if not ends:
        assert copied(topology, config)[0] == [0, 3] and not copier.ended
        return
    (told,) = copier.ended
    assert isinstance(told, StateError)
    assert "theirs partition 0: offsets 1 to 2 expired before they were relayed" in str(told)
    assert copied(topology, config)[0] == [0]


def test_a_topic_that_was_made_anew_is_refused(place):
    topology, config = place()
    relay = topology.role("perturb").relay
    admin.commit(config, relay.group, relay.reads.name, {0: 5})
    put(topology, config, 0, event(0))
    with Copier(topology, config) as copier:
        until(lambda: copier.ended)
    (told,) = copier.ended
    assert isinstance(told, StateError) and "ends at offset 1, and 5 were relayed" in str(told)


def test_nothing_is_copied_of_a_topic_that_was_made_anew_while_it_runs(place):
    """Its offsets go on where the old one's were: nothing else would tell."""
    topology, config = place()
    put(topology, config, 0, event(0))
    with Copier(topology, config) as copier:
        until(lambda: copied(topology, config)[0] == [0] and left(topology, config) == 0)
        copier.replaced = True
        put(topology, config, 0, event(1))
        until(lambda: copier.ended)
    assert isinstance(copier.ended[0], StateError)
    assert copied(topology, config)[0] == [0] and left(topology, config) == 1


def test_nothing_is_copied_while_nobody_says_that_the_topic_is_the_same(place):
    topology, config = place()
    with Copier(topology, config) as copier:
        copier.silent = True
        put(topology, config, 0, event(0))
        until(lambda: copier.asked > 2)
        assert copied(topology, config)[0] == []
        copier.silent = False
        until(lambda: copied(topology, config)[0] == [0] and left(topology, config) == 0)
    assert not copier.ended


def test_other_partitions_than_before_are_refused(place, broker, monkeypatch):
    """Users would move, and spend in two places."""
    topology, config = place()
    broker.create_topic(f"{topology.name}.more", PARTITIONS + 1)
    real = relayer.Consumer

    class More(real):
        def list_topics(self, topic, timeout):
            found = super().list_topics(f"{topology.name}.more", timeout)
            found.topics[topic] = found.topics[f"{topology.name}.more"]
            return found

    monkeypatch.setattr(relayer, "Consumer", More)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended)
    (told,) = copier.ended
    assert isinstance(told, StateError) and f"{topology.input.topic}" in str(told)


def test_partitions_that_come_while_it_runs_are_refused(place, monkeypatch):
    """The group may be given them before the next look at how many there are: our log has no place
    for what lies there.
    """
    topology, config = place(theirs=PARTITIONS + 1)
    given = []

    class Growing(relayer.Consumer):
        def assign(self, partitions):
            given.append(self)
            super().assign(partitions)

        def list_topics(self, topic, timeout):
            found = super().list_topics(topic, timeout)
            if not given:
                del found.topics[topic].partitions[PARTITIONS]
            return found

    monkeypatch.setattr(relayer, "Consumer", Growing)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended, 40)
    (told,) = copier.ended
    assert isinstance(told, StateError) and f"{topology.input.topic}" in str(told)


# the pace


def reach(topology, config, slots, partition=0):
    """Whether exactly these were copied."""
    return lambda: slots_of(kept(topology, config)[partition]) == slots


def test_nothing_is_copied_past_what_can_still_be_asked(place):
    """At most lateness + hold slots after the last decided one; what is held back is ticked as far.
    With each decision it goes on.
    """
    topology, config = place("lpa")
    ahead = topology.input.ahead
    put(topology, config, 0, *(event(slot) for slot in range(30)))
    with Copier(topology, config) as copier:
        until(reach(topology, config, list(range(ahead))))  # before any: from the first on
        time.sleep(1.5)
        assert reach(topology, config, list(range(ahead)))()
        assert copier.shown.held > 0 and copier.shown.waiting == 30 - ahead
        ask(topology, config, FIRST)
        until(reach(topology, config, list(range(ahead + 1))))
        ask(topology, config, *(FIRST + slot for slot in range(1, 11)))
        until(reach(topology, config, list(range(11 + ahead))))
        time.sleep(1)
        assert reach(topology, config, list(range(11 + ahead)))()
        assert not any(ticks(topology, config))  # its own events had come as far
        ask(topology, config, *(FIRST + slot for slot in range(11, 40)))
        until(lambda: left(topology, config) == 0)
        assert reach(topology, config, list(range(30)))()
    assert not copier.ended


def test_one_that_starts_anew_knows_what_was_decided(place):
    """From the requests, and where those have expired, from what it had committed or our own
    log.
    """
    topology, config = place("lpa")
    ahead = topology.input.ahead
    put(topology, config, 0, *(event(slot) for slot in range(30)))
    with Copier(topology, config):
        until(reach(topology, config, list(range(ahead))))
    for _ in range(2):
        with Copier(topology, config):
            time.sleep(2)
            assert reach(topology, config, list(range(ahead)))()
    ask(topology, config, FIRST + 5)
    with Copier(topology, config):
        until(reach(topology, config, list(range(ahead + 6))))


def test_what_is_held_back_is_ticked(place):
    """Slots close by what comes after them, and the next event comes only with a decision. A tick
    never goes past an event that is still to be copied.
    """
    topology, config = place("lpa")
    ahead = topology.input.ahead
    put(topology, config, 0, event(0), event(20), event(19), event(21))
    with Copier(topology, config):
        until(lambda: ticks(topology, config)[0] == [ahead - 1])
        assert reach(topology, config, [0])()
        for slot in range(20):
            ask(topology, config, FIRST + slot)
        until(lambda: left(topology, config) == 0)
    first, _ = kept(topology, config)
    assert slots_of(first) == [0, 20, 19, 21]
    found = ticks(topology, config)[0]
    assert found == sorted(found) and found[-1] < 20


def test_a_message_of_more_slots_than_can_be_asked(place):
    """It passes when all slots before it are decided; until then ticks stop before it, so that
    none of its events is late because of them.
    """
    topology, config = place("lpa", more=", format: arrow")
    put(topology, config, 0, event(0), batch(list(range(6, 26))), event(26))
    lateness = topology.input.lateness
    with Copier(topology, config):
        until(lambda: ticks(topology, config)[0] == [topology.input.ahead - 1])
        for slot in range(4):
            ask(topology, config, FIRST + slot)
        until(lambda: ticks(topology, config)[0][-1:] == [6 + lateness])
        time.sleep(1)
        assert copied(topology, config)[0] == [0]
        ask(topology, config, FIRST + 4, FIRST + 5)
        until(lambda: copied(topology, config)[0] == [0, 1])
        assert max(ticks(topology, config)[0]) == 6 + lateness


def test_an_event_that_ran_ahead_holds_nothing_back(place):
    """Where the fold takes it for a dead letter, it does not say how far event time is."""
    topology, config = place("lpa")
    stamp = (FIRST + 1) * SLOT
    year = event(400_000)
    put(topology, config, 0, event(0), (year, {"timestamp": stamp}), event(1))
    with Copier(topology, config):
        until(lambda: left(topology, config) == 0)
    assert not ticks(topology, config)[0]


def test_a_partition_of_which_nothing_is_left_is_ticked(place, monkeypatch):
    """With the greatest event time of the others, whoever copies those, and after `input.idle`."""
    topology, config = place("lpa", idle="1s")
    ahead = topology.input.ahead
    put(topology, config, 0, *(event(slot) for slot in range(20)))
    with Copier(topology, config):
        until(lambda: ticks(topology, config)[1][-1:] == [ahead - 1])
        ask(topology, config, *(FIRST + slot for slot in range(8)))
        until(lambda: ticks(topology, config)[1][-1:] == [7 + ahead])
        put(topology, config, 1, event(7 + ahead))
        until(lambda: copied(topology, config)[1] == [0])

    class Elsewhere(relayer.Consumer):
        """Another process has the first partition, and says how far it is."""

        def committed(self, places, timeout):
            far = Mark(13, (FIRST + 50) * SLOT, None).text
            found = super().committed(places, timeout=timeout)
            if len(found) == PARTITIONS:
                found[0] = TopicPartition(found[0].topic, 0, 12, metadata=far)
            return found

    monkeypatch.setattr(relayer, "Consumer", Elsewhere)
    with Copier(topology, config):
        until(lambda: 50 in ticks(topology, config)[1])


@pytest.mark.parametrize("idle", ["1s", OFF])
def test_ticks_where_nobody_asks(place, idle):
    """A method without requests: copied as it comes, and idle partitions get ticks where that is
    asked for.
    """
    topology, config = place(idle=idle)
    put(topology, config, 0, *(event(slot) for slot in range(50)))
    with Copier(topology, config):
        until(reach(topology, config, list(range(50))))
        if idle == OFF:
            time.sleep(2.5)
        else:
            until(lambda: ticks(topology, config)[1] == [49])
            put(topology, config, 0, event(50))
            until(lambda: ticks(topology, config)[1] == [49, 50])
    assert ticks(topology, config)[0] == []
    assert bool(ticks(topology, config)[1]) == (idle != OFF)


def test_no_tick_while_something_waits_to_be_copied(place, monkeypatch):
    """A broker that is slow with one partition is no partition without events."""
    topology, config = place(idle="1s")
    put(topology, config, 0, *(event(slot) for slot in range(50)))
    put(topology, config, 1, *(event(slot) for slot in range(50)))
    open_ = []

    class Slow(relayer.Consumer):
        def poll(self, timeout):
            message = super().poll(timeout)
            while message is not None and message.partition() == 1 and not open_:
                slow.append(message)
                message = super().poll(0)
            if open_ and slow:
                return slow.pop(0)
            return message

    slow = []
    monkeypatch.setattr(relayer, "Consumer", Slow)
    with Copier(topology, config):
        until(reach(topology, config, list(range(50))))
        time.sleep(2.5)
        assert ticks(topology, config) == [[], []]
        open_.append(1)
        until(reach(topology, config, list(range(50)), 1))


def test_no_tick_while_a_leader_does_not_answer(place, monkeypatch):
    """What is written there comes later, and must not be late by then."""
    topology, config = place(idle="1s")
    away = [True]

    class Away(relayer.Consumer):
        def offsets_for_times(self, *given, **more):
            if away[0]:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return super().offsets_for_times(*given, **more)

    monkeypatch.setattr(relayer, "Consumer", Away)
    put(topology, config, 0, event(0))
    put(topology, config, 1, event(9))
    with Copier(topology, config) as copier:
        until(lambda: copied(topology, config) == [[0], [0]])
        time.sleep(4)
        assert ticks(topology, config) == [[], []]
        away[0] = False
        until(lambda: ticks(topology, config) == [[9], []])
        assert not copier.ended


# what goes wrong


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", ConfigurationError, "may not READ topic {name}.theirs"),
        ("GROUP_AUTHORIZATION_FAILED", ConfigurationError, "may not READ group {name}-relay"),
        ("UNKNOWN_TOPIC_OR_PART", BrokerError, "topic {name}.theirs: its records cannot be relay"),
    ],
)
def test_what_ends_it(place, monkeypatch, name, kind, says):
    topology, config = place()

    class Failing(relayer.Consumer):
        def poll(self, timeout):
            raise error(name)

    monkeypatch.setattr(relayer, "Consumer", Failing)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended)
    (told,) = copier.ended
    assert type(told) is kind and says.format(name=topology.name) in str(told)


@pytest.mark.parametrize("gaps", ["strict", "allow"])
def test_an_offset_that_is_missing(place, monkeypatch, gaps):
    """As of a transaction, or compacted away."""
    topology, config = place(more=f", gaps: {gaps}")
    put(topology, config, 0, *(event(slot) for slot in range(4)))

    class Lacking(relayer.Consumer):
        def poll(self, timeout):
            message = super().poll(timeout)
            lacks = message is not None and not message.error() and message.offset() == 2
            return None if lacks else message

    monkeypatch.setattr(relayer, "Consumer", Lacking)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended or left(topology, config) == 0)
    if gaps == "allow":
        assert copied(topology, config)[0] == [0, 1, 3] and not copier.ended
        return
    (told,) = copier.ended
    assert isinstance(told, ConfigurationError)
    assert "partition 0 has no offset 2" in str(told)
    assert copied(topology, config)[0] in ([], [0, 1])


def test_one_that_finds_no_broker_ends(place, monkeypatch):
    """Another process will."""
    topology, config = place()
    cut_off_from_brokers(monkeypatch, relayer)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended)
    (told,) = copier.ended
    assert isinstance(told, BrokerError) and "found no broker" in str(told)


def test_a_broker_that_is_away_does_not_end_it(place):
    """Neither the edge's nor the collector's; it is stopped in order all the same."""
    topology, config = place("lpa")
    nobody = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    put(topology, config, 0, event(0))
    for edge, collector in ((nobody, nobody), (config, nobody)):
        with Copier(topology, edge, collector) as copier:
            time.sleep(1.5)
            copier.copying.stop()
            assert copier.copying.join(15)
        assert not copier.ended
    assert copied(topology, config)[0] == []  # what is decided is not known


def test_one_that_has_lost_its_partition_meanwhile(place, monkeypatch):
    """It looks at our log again before it goes on: what it had under way has come."""
    topology, config = place()
    monkeypatch.setattr(relayer, "OrderedProducer", Held)
    monkeypatch.setattr(Held, "until", time.monotonic() + 9)
    put(topology, config, 0, event(0), event(1))
    heard = []

    class Listening(relayer.Relayer):
        def _consumer(self):
            self._settings["max.poll.interval.ms"] = 6000
            return super()._consumer()

        def _hear(self, error):
            heard.append(error.code())
            super()._hear(error)

    with Copier(topology, config, make=Listening) as copier:
        until(lambda: left(topology, config) == 0)
        assert not copier.ended
    assert KafkaError._MAX_POLL_EXCEEDED in heard
    assert copied(topology, config)[0] == [0, 1]


def test_what_waits_is_counted_for_the_workers_that_end_by_themselves(place):
    topology, config = place("lpa")
    offsets = GroupOffsets(topology, "perturb", (), config, config)
    put(topology, config, 0, event(0), event(1))
    assert offsets.waiting() == 2 + 1  # and the header record of the requests
    with Copier(topology, config):
        until(lambda: offsets.waiting() == 1)


def test_a_tick_of_theirs_is_copied_as_event_time(place):
    topology, config = place("lpa")
    put(topology, config, 0, event(0), encode_json(Tick((FIRST + 20) * SLOT)))
    with Copier(topology, config):
        until(lambda: ticks(topology, config)[0] == [topology.input.ahead - 1])
        ask(topology, config, *(FIRST + slot for slot in range(20)))
        until(lambda: left(topology, config) == 0)
    assert json.loads(kept(topology, config)[0][-1].value)["time"] == (FIRST + 20) * SLOT
