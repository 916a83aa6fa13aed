"""The forwarder against the embedded broker: every valid request is in every partition of the raw
log, in order, whatever is stopped when.

That one of two goes on where the other has ended is tried on real brokers
(`tests/broker/test_forwarder.py`): at librdkafka's mock of a broker, which the embedded one is, a
group of two sometimes waits for ever in a rebalance, and nobody is given the partition.
"""

from __future__ import annotations

import time
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError

from ldp_kafka.errors import BrokerError, ConfigurationError, Dropped
from ldp_kafka.records import Request
from ldp_kafka.runtime.kafka import admin, copying, forwarder, group_offsets, setup
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.kafka.producer import OrderedProducer
from ldp_kafka.runtime.wire.records import header
from ldp_kafka.topology import loads
from tests.broker.requests import PARTITIONS, TEXT, Copier, ask, asked, in_order, waiting
from tests.broker.watching import until
from tests.runtime.kafka.copiers import Held, cut_off_from_brokers, error


@pytest.fixture
def place(broker):
    """A topology, with the two topics that are needed, and how to reach the broker."""
    topology = loads(TEXT.format(name=f"t{uuid4().hex}", boot="embedded", key="k", session="1s"))
    broker.create_topic(topology.raw_topic, PARTITIONS)
    broker.create_topic(topology.requests_topic, 1)
    config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    ask(topology, config, header(topology.name, topology.fingerprint, topology.layout))
    return topology, config


def whole(topology, config, slots):
    """Every partition has these, each once."""
    return lambda: asked(topology, config) == [slots] * PARTITIONS


def test_every_request_is_in_every_partition(place):
    """In order, once; the header record is no request, and all is committed."""
    topology, config = place
    ask(topology, config, 3, 4, 6)
    with Copier(topology, config) as copier:
        until(whole(topology, config, [3, 4, 6]))
        ask(topology, config, 7)
        until(whole(topology, config, [3, 4, 6, 7]))
        until(lambda: waiting(topology, config) == 0)
    assert copier.counts == {"requests_forwarded": 4} and not copier.ended


def test_what_is_made_before_the_first_start(broker, monkeypatch, tmp_path):
    """Both topics of a coordinator, with a header record each, which nobody forwards; the group of
    the forwarder begins before it.
    """
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    topology = loads(TEXT.format(name="made", boot="embedded", key="k", session="1s"))
    done = setup.prepare(topology, broker)
    config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    for topic in (topology.requests_topic, topology.sums_topic):
        assert f"created topic {topic}" in done
        assert f"wrote the header record of {topic} partition 0" in done
        assert admin.watermarks(config, topic, 0) == (0, 1)
    assert waiting(topology, config) == 1
    with Copier(topology, config):
        until(lambda: waiting(topology, config) == 0)
    assert asked(topology, config) == [[]] * PARTITIONS
    assert setup.prepare(topology, broker) == []


def test_what_may_not_pass(place):
    """Garbage, another record, a repeat, the future, another phase: counted, and nothing of it in
    the log; what comes behind it passes.
    """
    topology, config = place
    now = time.time_ns() // 1_000_000 // topology.input.slot_ms
    soon, far = now + 30, now + 120  # max_ahead is an hour
    ask(
        topology,
        config,
        *(5, b"garbage", 5, 4, b'{"ldp_kafka":1,"type":"tick","time":1}', far),
        *(Request("x", 6, 0, 1, 9), Request("x", 6, 1, -1, 9), 6, b"", soon),
    )
    with Copier(topology, config) as copier:
        until(whole(topology, config, [5, 6, soon]))
        until(lambda: waiting(topology, config) == 0)
    assert copier.counts == {
        "requests_forwarded": 3,
        f"requests_dropped:{Dropped.NOT_A_REQUEST}": 4,
        f"requests_dropped:{Dropped.REPEATED}": 2,
        f"requests_dropped:{Dropped.AHEAD}": 1,
        f"requests_dropped:{Dropped.PHASE}": 1,
    }


class Promised:
    """A message whose sender says that it comes from the future."""

    def __init__(self, stamp):
        self.stamp = stamp

    def timestamp(self):
        return self.stamp


def test_the_senders_word_does_not_make_it_later():
    """The edge's own clock holds the future back."""
    now = time.time_ns() // 1_000_000
    assert abs(forwarder._asked_at(Promised((1, now + 10**9))) - now) < 10_000
    assert abs(forwarder._asked_at(Promised((0, 0))) - now) < 10_000
    assert forwarder._asked_at(Promised((1, now - 10**9))) == now - 10**9


class Dies(OrderedProducer):
    """Stops behind its n-th record, which arrives."""

    left = 0

    def send(self, records):
        for record in records:
            super().send([record])
            Dies.left -= 1
            if not Dies.left:
                until(lambda: self.poll(0.01) or self.arrived(self.mark()))
                raise KeyboardInterrupt


@pytest.mark.parametrize("dies", [1, PARTITIONS, PARTITIONS + 2])
def test_one_that_stops_between_partitions(place, monkeypatch, dies):
    """The next one appends again to all, from the first request of which it cannot know."""
    topology, config = place
    with Copier(topology, config):
        ask(topology, config, 1, 2)
        until(whole(topology, config, [1, 2]))
        until(lambda: waiting(topology, config) == 0)
    ask(topology, config, 3, 4, 5)
    monkeypatch.setattr(Dies, "left", dies)
    monkeypatch.setattr(forwarder, "OrderedProducer", Dies)
    with Copier(topology, config) as first:
        until(lambda: first.ended)
    assert [type(error) for error in first.ended] == [KeyboardInterrupt]
    assert sum(map(len, asked(topology, config))) == 2 * PARTITIONS + dies
    left = waiting(topology, config)  # a request that was read alone, and is whole, is committed
    assert 3 - dies // PARTITIONS <= left <= 3
    monkeypatch.undo()
    with Copier(topology, config) as second:
        until(lambda: waiting(topology, config) == 0)
    found = asked(topology, config)
    assert [in_order(slots) for slots in found] == [[1, 2, 3, 4, 5]] * PARTITIONS
    assert sum(map(len, found)) == (2 + left) * PARTITIONS + dies
    assert second.counts == {"requests_forwarded": left}


def test_the_next_one_knows_the_last_slot(place):
    """It is committed with the offset: a repeat behind it is dropped."""
    topology, config = place
    ask(topology, config, 8, 9)
    with Copier(topology, config):
        until(lambda: waiting(topology, config) == 0)
    ask(topology, config, 8, 9, 10)
    with Copier(topology, config) as second:
        until(lambda: waiting(topology, config) == 0)
    assert asked(topology, config) == [[8, 9, 10]] * PARTITIONS
    assert second.counts == {
        "requests_forwarded": 1,
        f"requests_dropped:{Dropped.REPEATED}": 2,
    }


def test_the_judge_of_these_tests():
    """Whole last runs may be repeated, in order, and nothing else."""
    good = [[], [1, 2], [1, 2, 2, 3], [1, 2, 3, 2, 3, 4], [1, 1, 1], [1, 2, 1, 2, 1, 2]]
    assert [in_order(slots) for slots in good] == [
        *([], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1], [1, 2]),
    ]
    for bad in ([2, 1], [1, 2, 3, 2, 4], [1, 2, 3, 1, 3], [1, 2, 1]):
        with pytest.raises(AssertionError):
            in_order(bad)


def test_what_waits_is_counted_for_the_workers_that_end_by_themselves(place):
    topology, config = place
    offsets = GroupOffsets(topology, "perturb", (), config, config)
    ask(topology, config, 1, 2)
    assert offsets.waiting() == 3  # with the header record
    with Copier(topology, config):
        until(lambda: offsets.waiting() == 0)
    ask(topology, config, 3)
    assert offsets.waiting() == 1
    assert GroupOffsets(topology, "collect", (), config, config).waiting() == 0


class Asked:
    """A broker that says nothing of a group."""

    def __init__(self, name):
        self.name = name

    def committed(self, *_, **__):
        raise error(self.name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("GROUP_AUTHORIZATION_FAILED", ConfigurationError), ("_TRANSPORT", BrokerError)],
)
def test_where_the_broker_does_not_say_what_waits(place, monkeypatch, name, kind):
    topology, config = place
    monkeypatch.setattr(group_offsets, "asker", lambda *_, **__: Asked(name))
    offsets = GroupOffsets(topology, "perturb", (), config, config)
    with pytest.raises(kind, match=f"how far group {topology.name}-forward is"):
        offsets.waiting()


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", ConfigurationError, "may not READ topic {name}.requests"),
        ("GROUP_AUTHORIZATION_FAILED", ConfigurationError, "may not READ group {name}-forward"),
        ("UNKNOWN_TOPIC_OR_PART", BrokerError, "topic {name}.requests: requests cannot be"),
        ("_FATAL", BrokerError, "requests cannot be forwarded"),
    ],
)
@pytest.mark.parametrize("where", ["poll", "commit"])
def test_what_ends_it(place, monkeypatch, name, kind, says, where):
    """A right that is missing, named; a topic that is gone. What a commit comes to is another's
    business, but for the right.
    """
    topology, config = place

    class Failing(forwarder.Consumer):
        def poll(self, timeout):
            if where == "poll":
                raise error(name)
            return super().poll(timeout)

        def commit(self, **more):
            if where == "commit" and not committed:
                committed.append(1)
                raise error(name)
            return super().commit(**more)

    committed = []
    monkeypatch.setattr(forwarder, "Consumer", Failing)
    ask(topology, config, 1)
    with Copier(topology, config) as copier:
        if where == "commit" and kind is BrokerError:
            until(lambda: waiting(topology, config) == 0)
            assert committed and not copier.ended
            return
        until(lambda: copier.ended)
    (told,) = copier.ended
    assert type(told) is kind and says.format(name=topology.name) in str(told)


def test_one_that_finds_no_broker_ends(place, monkeypatch):
    """Another process will."""
    topology, config = place
    cut_off_from_brokers(monkeypatch, forwarder)
    with Copier(topology, config) as copier:
        until(lambda: copier.ended)
    (told,) = copier.ended
    assert isinstance(told, BrokerError) and "found no broker" in str(told)


def test_a_broker_that_is_away_does_not_end_it():
    """It is stopped in order all the same, and in time."""
    topology = loads(TEXT.format(name="away", boot="127.0.0.1:1", key="k", session="6s"))
    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with Copier(topology, config) as copier:
        time.sleep(1.0)
        begin = time.monotonic()
        copier.copying.stop()
        assert copier.copying.join(10)
        assert time.monotonic() - begin < 5
    assert not copier.ended


def test_an_edge_that_is_away(place):
    """Nothing is committed; it ends when it is told to, and the next one forwards all."""
    topology, config = place
    ask(topology, config, 1, 2)
    nobody = {**config, "bootstrap.servers": "127.0.0.1:1"}
    with Copier(topology, config, nobody) as copier:
        time.sleep(2.5)
        assert waiting(topology, config) >= 2
        begin = time.monotonic()
        copier.copying.stop()
        assert copier.copying.join(15)
        assert time.monotonic() - begin < copying.GRACE + 3
    assert not copier.ended and not copier.counts
    with Copier(topology, config):
        until(whole(topology, config, [1, 2]))


def test_one_that_has_lost_its_partition_meanwhile(place, monkeypatch):
    """The group takes it from one that comes to nothing for too long. It goes on where the group
    stands, and nothing that it did before is committed after that.
    """
    topology, config = place
    monkeypatch.setattr(forwarder, "OrderedProducer", Held)
    monkeypatch.setattr(Held, "until", time.monotonic() + 5)
    ask(topology, config, 1, 2)
    heard = []

    class Listening(forwarder.Forwarder):
        def _hear(self, error):
            heard.append(error.code())
            super()._hear(error)

    with Copier(topology, {**config, "max.poll.interval.ms": 2000}, config, Listening) as copier:
        until(lambda: waiting(topology, config) == 0)
        assert not copier.ended
    assert KafkaError._MAX_POLL_EXCEEDED in heard
    assert [in_order(slots) for slots in asked(topology, config)] == [[1, 2]] * PARTITIONS
