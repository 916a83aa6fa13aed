"""The outbox without a broker: what goes when. (`tests/broker/test_outbox.py` has why.)"""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.kafka import producer as outbox
from ldp_kafka.runtime.log import PlainRecords, Record, TableRecord


class Slow:
    """A producer whose broker confirms when it is told to."""

    def __init__(self, config):
        assert config["enable.idempotence"] and config["enable.gapless.guarantee"]
        self.log, self.under_way, self.room = [], [], 1000

    def produce(self, topic, value, key, partition, callback, on_delivery, timestamp, headers):
        if len(self.under_way) >= self.room:
            raise BufferError
        assert on_delivery is None  # another name of the callback
        self.under_way.append(Note(topic, partition, value, callback))

    def poll(self, seconds):
        pass

    def __len__(self):
        return len(self.under_way)

    def confirm(self, number):
        for _ in range(number):
            note = self.under_way.pop(0)
            self.log.append((note.partition(), note.value))
            note.delivered(None, note)


class Note:
    def __init__(self, topic, partition, value, delivered):
        self.place, self.value, self.at = (topic, partition), value, -1001
        self.delivered = delivered

    def topic(self):
        return self.place[0]

    def partition(self):
        return self.place[1]

    def offset(self):
        return self.at


@pytest.fixture
def box(monkeypatch):
    """An outbox, its producer, and the clock that it reads."""
    monkeypatch.setattr(outbox, "Producer", Slow)
    clock = [1000.0]
    monkeypatch.setattr(outbox.time, "monotonic", lambda: clock[0])
    made = outbox.OrderedProducer({}, pytest.fail)
    return made, made._producer, clock


def records(values, partition=0):
    return [Record("reports", partition, None, bytes([value])) for value in values]


def values(notes):
    return [note.value[0] for note in notes]


def test_the_first_goes_alone(box):
    """The rest follows, in order, with what came meanwhile, once it is confirmed; other partitions
    do not wait for it.
    """
    made, producer, _ = box
    made.send(records(range(3)))
    made.send(records([100], partition=1))
    made.send(records([3]))
    assert values(producer.under_way) == [0, 100]
    producer.confirm(1)
    made.poll()
    assert values(producer.under_way) == [100, 1, 2, 3]
    made.send(records([4]))
    assert values(producer.under_way) == [100, 1, 2, 3, 4]
    assert made.mark() == {("reports", 0): 5, ("reports", 1): 1}


def test_after_a_silence_one_goes_alone_again(box):
    """Also where it is a record that has waited, and where what was under way takes long."""
    made, producer, clock = box
    made.send(records([0]))
    producer.confirm(1)
    clock[0] += outbox.KNOWN
    made.send(records([1, 2, 3]))
    assert values(producer.under_way) == [1]
    producer.confirm(1)
    clock[0] += outbox.KNOWN  # nobody has polled since
    made.poll()
    assert values(producer.under_way) == [2]
    producer.confirm(1)
    made.send(records([4, 5]))
    assert values(producer.under_way) == [3, 4, 5]
    clock[0] += outbox.KNOWN
    made.send(records([6]))
    assert values(producer.under_way) == [3, 4, 5]
    producer.confirm(3)
    made.poll()
    producer.confirm(1)
    assert [value[0] for _, value in producer.log] == list(range(7))


def test_a_full_queue_loses_nothing_and_keeps_the_order(box):
    """Also while what was held back is handed over."""
    made, producer, _ = box
    producer.room = 2
    made.send(records(range(6)))
    producer.confirm(1)
    made.send(records(range(6, 9)))
    assert not made.room  # of what is under way nobody will say that it has arrived
    for _ in range(6):
        producer.confirm(len(producer.under_way))
        made.poll()
    assert [value[0] for _, value in producer.log] == list(range(9))
    assert made.arrived(made.mark()) and made.room


def test_nothing_goes_behind_many(box):
    """What comes meanwhile goes together when all of these have arrived. Other partitions do not
    wait.
    """
    made, producer, _ = box
    made.send(records([0]))
    producer.confirm(1)
    for value in range(1, outbox.MANY + 1):
        made.send(records([value]))
    assert values(producer.under_way) == [1, 2, 3, 4, 5] and made.pause is None
    made.send(records([6, 7, 8]))
    made.send(records([9]))
    made.send(records([100], partition=1))
    assert values(producer.under_way) == [1, 2, 3, 4, 5, 100]
    assert made.pause == outbox.TURN
    producer.confirm(outbox.MANY - 1)
    made.poll()
    assert values(producer.under_way) == [5, 100, 6, 7, 8, 9] and made.pause is None


def test_many_go_together_where_nothing_is_under_way(box):
    """Few may not have been sent yet, and the client would begin to in the middle of what comes
    behind them.
    """
    made, producer, _ = box
    made.send(records([0]))
    producer.confirm(1)
    made.send(records([1]))
    made.send(records(range(2, 12)))
    assert values(producer.under_way) == [1] and made.pause == outbox.TURN
    producer.confirm(1)
    made.send(records([12]))
    assert values(producer.under_way) == [*range(2, 13)] and made.pause is None
    producer.confirm(10)  # a lot says at its end that it has arrived
    made.send(records([13]))
    assert values(producer.under_way) == [12]
    producer.confirm(1)
    made.poll()
    assert values(producer.under_way) == [13]


def test_one_request_holds_so_many_records(box):
    """What is left would wait for its answer on a whole core."""
    made, producer, _ = box
    producer.room = 3 * outbox.ROWS
    made.send(records([0]))
    producer.confirm(1)
    made.send([Record("reports", 0, None, b"x")] * (2 * outbox.ROWS + 1))
    for under_way in (outbox.ROWS, outbox.ROWS, 1, 0):
        assert len(producer.under_way) == under_way
        assert (made.pause is None) == (under_way < 2)
        producer.confirm(under_way)
        made.poll()
    assert made.arrived(made.mark())


def test_one_request_holds_so_many_bytes(box):
    """One that is larger goes alone."""
    made, producer, clock = box
    made.send(records([0]))
    producer.confirm(1)
    large = bytes(outbox.BYTES // 3)
    made.send([Record("reports", 0, None, large)] * 5 + [Record("reports", 0, None, large * 9)] * 2)
    sizes = []
    while producer.under_way:
        sizes.append([len(note.value) // len(large) for note in producer.under_way])
        producer.confirm(len(producer.under_way))
        made.poll()
    assert sizes == [[1, 1], [1, 1], [1], [9], [9]]
    made.send(records([1] * (outbox.MANY + 1)))
    made.send(records([2]))
    assert made.pause == outbox.TURN
    clock[0] += outbox.SOON
    assert made.pause == outbox.STILL  # a broker that is away is not asked for all the time


@pytest.mark.parametrize("known", [True, False])
def test_what_found_no_room_goes_on_whatever_other_partitions_do(box, known):
    """Nobody says of what is under way before it that it has arrived, also where it took longer
    than a broker is taken to know its producer; others are given nothing more until then.
    """
    made, producer, clock = box
    made.send(records([0]))
    producer.confirm(1)
    producer.room = 3
    made.send(records([1, 2, 3, 4, 5]))
    assert values(producer.under_way) == [1, 2, 3]
    clock[0] += 0 if known else outbox.KNOWN
    producer.room = 10
    producer.confirm(3)
    made.poll()
    assert values(producer.under_way) == ([4, 5] if known else [4])
    assert not made.arrived(made.mark())
    producer.confirm(1)
    made.poll()
    producer.confirm(1)
    assert made.arrived(made.mark()) and made.room


def test_what_found_no_room_goes_on_beside_others_that_never_rest(box):
    """One record of it, which says of all before it that they have arrived."""
    made, producer, _ = box
    made.send(records([0]))
    made.send(records([100], partition=1))
    producer.confirm(2)
    producer.room = outbox.MANY + 3
    made.send(records(range(1, 12)))
    assert values(producer.under_way) == [*range(1, outbox.MANY + 4)]
    producer.confirm(outbox.MANY + 3)
    made.send(records([101], partition=1))
    assert values(producer.under_way) == [101, 9]
    made.send(records([102], partition=1))
    producer.confirm(2)
    made.poll()
    assert values(producer.under_way) == [102, 10, 11]


@pytest.mark.parametrize("bound", ["HELD", "HELD_BYTES"])
def test_whoever_gives_more_than_has_arrived_is_to_wait(box, monkeypatch, bound):
    """Records are of a byte here."""
    monkeypatch.setattr(outbox, bound, 4)
    made, producer, _ = box
    made.send(records(range(4)))
    assert made.room  # three are held back behind the first
    made.send(records([4]))
    assert not made.room
    producer.confirm(1)
    made.poll()
    assert made.room


@pytest.mark.parametrize("confirms", [True, False])
def test_waiting_ends_where_nothing_arrives_any_more(box, monkeypatch, confirms):
    """As long as something does, it goes on, however many there are."""
    made, producer, clock = box
    producer.room, slept = 2, []

    async def sleep(seconds):
        slept.append(seconds)
        clock[0] += 4.0
        if confirms or len(slept) < 4:
            producer.confirm(len(producer.under_way))

    monkeypatch.setattr(outbox.asyncio, "sleep", sleep)
    made.send(records(range(20)))
    assert asyncio.run(made.flush(made.mark(), 20.0, lambda: clock[0])) == confirms
    if confirms:
        assert clock[0] > 1020 and [value[0] for _, value in producer.log] == list(range(20))
    else:
        assert clock[0] > 1000 + 3 * 4 + 20
        assert made.late(made.mark()) == [("reports", 0)]


def test_a_clock_that_stands_still_ends_no_waiting(box, monkeypatch):
    """That of a broker that is away."""
    made, producer, clock = box
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        clock[0] += 100.0
        if len(slept) == 50:
            producer.confirm(1)

    monkeypatch.setattr(outbox.asyncio, "sleep", sleep)
    made.send(records([1]))
    assert asyncio.run(made.flush(made.mark("reports", 0), 20.0, lambda: 7.0))
    assert len(slept) == 50


REASON = KafkaException(
    KafkaError(KafkaError._GAPLESS_GUARANTEE, "failed: Broker: Topic authorization failed")
)
REFUSED = KafkaException(KafkaError(KafkaError._FATAL, "Unable to produce message"))


def test_where_the_last_record_of_ours_ends(box):
    """As far as the broker says: of one that had arrived before it was sent again it does not."""
    made, producer, _ = box
    made.send(records(range(3)))
    assert made.end("reports", 0) is None
    producer.under_way[0].at = 7
    producer.confirm(1)
    assert made.end("reports", 0) == 8
    made.poll()
    producer.confirm(2)
    assert made.end("reports", 0) == 8
    assert made.end("reports", 1) is None


class Failing(Slow):
    """A producer that comes to its end: what happens at each poll, one thing after the other."""

    script: ClassVar[list[str]] = []

    def produce(self, *what):
        if self.script[:1] == ["refuse"]:
            del self.script[0]
            raise REFUSED
        super().produce(*what)

    def poll(self, seconds):
        happens = self.script.pop(0) if self.script else ""
        if happens == "reason":
            raise REASON
        if happens == "purge":
            note = self.under_way.pop(0)
            note.delivered(KafkaError(KafkaError._PURGE_QUEUE), note)


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (["reason", "purge"], ConfigurationError),
        (["purge", "reason"], ConfigurationError),
        (["purge", "", "", "reason"], ConfigurationError),
        (["refuse", "purge", "reason"], ConfigurationError),
        (["refuse", "reason"], ConfigurationError),
        (["purge"], BrokerError),
    ],
    ids=str,
)
def test_why_a_producer_fails_is_told_in_whatever_order_it_comes(monkeypatch, script, kind):
    """A right that is missing is no failure that another start would mend."""
    monkeypatch.setattr(outbox, "Producer", Failing)
    monkeypatch.setattr(Failing, "script", [])
    told = []

    def failed(error):
        told.append(error)
        raise error

    made = outbox.OrderedProducer({}, failed)
    made.send(records([1]))
    Failing.script += script
    with pytest.raises(kind, match="topic reports: the producer has failed"):
        made.send(records([2], partition=1))
    assert len(told) == (script[0] != "refuse")


@pytest.mark.parametrize("code", ["_MSG_TIMED_OUT", "UNKNOWN"])
@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
def test_one_that_fails_among_others_is_heard(monkeypatch, code, place):
    """Whatever comes of those before and after it; it has not arrived, and so no mark behind it
    has. An error of code -1, which is a broker's for whatever it did not expect, has no hash.
    """
    monkeypatch.setattr(outbox, "Producer", Slow)
    told = []
    made = outbox.OrderedProducer({}, told.append)
    made.send(records([0]))
    made._producer.confirm(1)
    made.send(records(range(1, 5)))
    late = made._producer.under_way.pop(place)
    late.delivered(KafkaError(getattr(KafkaError, code)), late)
    made._producer.confirm(3)
    made.poll()
    (error,) = told
    assert isinstance(error, BrokerError) and "topic reports: not delivered" in str(error)
    assert not made.arrived(made.mark())
    assert made.arrived({("reports", 0): 1})


@pytest.mark.parametrize("deaf", [False, True])
def test_every_record_says_that_it_fails(monkeypatch, deaf):
    """Of a real client, which has no broker and throws away what it was given; ``deaf``: what the
    last record says, which alone is asked whether all have arrived, is not heard.
    """
    if deaf:
        monkeypatch.setattr(outbox._Line, "delivered", lambda *_: None)
    told = []
    made = outbox.OrderedProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, told.append)
    made._begin(("reports", 0)).heard = time.monotonic()  # else one would go alone
    made.send(records(range(5)))
    made._producer.purge()
    end = time.monotonic() + 30
    while not told and time.monotonic() < end:
        made.poll(0.05)
    assert isinstance(told[0], BrokerError)
    assert str(told[0]).startswith("topic reports: the producer has failed")
    assert not made.arrived(made.mark())


def test_plain_records_are_as_many_records(box):
    """Beside others of their partition, and where all but the first are held back."""
    made, producer, _ = box
    plain = PlainRecords("reports", 0, [bytes([value]) for value in range(1, 5)])
    made.send([*records([0]), plain, *records([5])])
    assert values(producer.under_way) == [0]
    assert made.mark() == {("reports", 0): 6}
    producer.confirm(1)
    made.poll()
    assert values(producer.under_way) == [1, 2, 3, 4, 5]
    made.send([plain])
    producer.confirm(5)
    made.poll()
    producer.confirm(3)
    assert not made.arrived(made.mark())
    producer.confirm(1)
    assert made.arrived(made.mark())
    assert [value[0] for _, value in producer.log] == [*range(6), *range(1, 5)]


def test_a_record_is_handed_over_whole(monkeypatch):
    """Its key, headers and timestamp too."""
    given = []
    monkeypatch.setattr(Slow, "produce", lambda _, *what: given.append(what))
    monkeypatch.setattr(outbox, "Producer", Slow)
    made = outbox.OrderedProducer({}, pytest.fail)
    made.send(
        [Record("t", 2, b"k", b"v", (("h", b"x"), ("n", None)), 77), Record("t", 3, None, b"w")]
    )
    (first, second) = given
    assert first[:4] == ("t", b"v", b"k", 2) and first[5:] == (None, 77, [("h", b"x"), ("n", None)])
    assert second[:4] == ("t", b"w", None, 3) and second[5:] == (None, 0, None)
    made.send([TableRecord("log", 0, b"k", None)])  # which deletes the key
    assert given[-1][:4] == ("log", None, b"k", 0)


def test_a_record_names_its_partition(box):
    made, producer, _ = box
    with pytest.raises(ValueError, match="must name its partition"):
        made.send(records([1], partition=-1))
    assert not producer.under_way and not made.mark()
