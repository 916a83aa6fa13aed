"""The once-a-second look: a broker that is silent for a while is asked again."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.errors import BrokerError, ConfigurationError, StateError
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth
from ldp_kafka.runtime.worker import health as module
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker import watch as room
from ldp_kafka.runtime.worker.diary import Diary
from ldp_kafka.runtime.worker.health import Health
from ldp_kafka.runtime.worker.health_rules import STALL
from ldp_kafka.runtime.worker.watch import Watch, idle_after

PLACE = ("t.raw", 0)


class Ended(BaseException):
    """What ``end`` is here: a process ends with nothing above it to catch."""


class Fake:
    """A watch by a clock of its own, over a broker that answers each question as told: an error is
    raised, anything else is the lag.
    """

    def __init__(self, monkeypatch, partitions=1, until_idle=None, spec=(), after=3600.0):
        self.now, self.answer, self.stopped, self.lags = 1000.0, 0, [], []
        self.idle, self.recovering = [], False
        monkeypatch.setattr(room, "time", SimpleNamespace(monotonic=lambda: self.now))

        def end(*reason):
            raise Ended(*reason)

        monkeypatch.setattr(module, "end", end)
        own = {"topic": PLACE[0], "partitions": 1, "raw": True, "ticks": False, "name": "perturb"}
        self.agent = SimpleNamespace(epochs={}, spec=SimpleNamespace(**own | dict(spec)))
        self.places = {PLACE}
        diary = Diary("t", "perturb", clock=lambda: self.now)
        self.brokers = BrokerHealth(clock=lambda: self.now, gone=diary.away, back=diary.back)
        self.health = Health(lambda: self.now)
        self.health.brokers, self.health.stop = self.brokers, self.stop
        self.health.until_idle = until_idle
        self.watch = Watch(
            [self.agent],
            lambda: self.places,
            SimpleNamespace(lag=self.lag, partitions=lambda topic: partitions, waiting=lambda: 0),
            SimpleNamespace(
                partitions=lambda count: None,
                idle=lambda count, seconds: self.idle.append((count, seconds)),
                lag=self.lags.append,
            ),
            None,
            idle_ms=None,
            recovering=lambda: self.recovering,
            idle_after=after,
            health=self.health,
            diary=diary,
        )

    def lag(self, assigned):
        if isinstance(self.answer, Exception):
            raise self.answer
        self.lags.append(self.answer)
        return dict.fromkeys(assigned, self.answer)

    async def nothing(self, *_):
        pass

    async def stop(self, reason):
        self.stopped.append(reason)

    def look(self, seconds):
        """Let seconds pass, in each of which the brokers are asked, and look."""
        for _ in range(int(seconds)):
            self.now += 1
            self.brokers.look()
        asyncio.run(self.once())

    async def once(self):
        self.health.beat()
        await self.watch.look()
        self.health.look()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # until `stop` has had its turn


TIMEOUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.mark.parametrize("error", [TIMEOUT, BrokerError("it knows none just now")])
def test_a_broker_that_is_away_ends_nothing(monkeypatch, error):
    """However long, and whatever waits meanwhile: no deadline comes nearer."""
    fake = Fake(monkeypatch)
    fake.answer = 7
    fake.look(6)
    for _ in range(3):
        fake.look(STALL - 10)  # nothing is delivered
        fake.answer = error
        fake.look(6)
        fake.look(10 * STALL)
        fake.answer = 7
        fake.look(3)
        fake.health.delivered(PLACE)
    assert set(fake.lags) == {7}
    fake.look(STALL - 10)
    with pytest.raises(Ended, match="none was delivered"):
        fake.look(20)


@pytest.mark.parametrize(
    ("answer", "partitions", "kind"),
    [
        (KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), 1, ConfigurationError),
        (ConfigurationError("a right is missing"), 1, ConfigurationError),
        (0, 2, StateError),
    ],
)
def test_what_asking_again_does_not_mend_ends_it_at_once(monkeypatch, answer, partitions, kind):
    fake = Fake(monkeypatch, partitions)
    fake.answer = answer
    with pytest.raises(Ended) as found:
        fake.look(6)
    assert isinstance(found.value.args[0], kind)


@pytest.mark.parametrize("raw", [True, False])
def test_a_raw_topic_that_was_made_anew_ends_it(monkeypatch, raw):
    """Of an agent that folds no raw log its topic is not asked for."""

    def check():
        raise StateError("made anew")

    fake = Fake(monkeypatch, spec={"raw": raw})
    fake.look(6)
    fake.watch.raw = SimpleNamespace(check=check)
    with pytest.raises(Ended, match="made anew") if raw else nullcontext():
        fake.look(6)


def test_silence_is_not_idleness(monkeypatch):
    fake = Fake(monkeypatch, until_idle=5.0)
    fake.look(1)
    fake.answer = TIMEOUT
    fake.look(3)
    fake.answer = 0
    fake.look(3)
    assert not fake.stopped
    fake.look(5)
    assert fake.stopped == ["nothing was left to read"]


def test_a_recovery_that_takes_long_is_no_stall(monkeypatch):
    """On a machine that is busy one took longer than that, and each new worker began it again."""
    fake = Fake(monkeypatch)
    fake.answer, fake.recovering = 2665, True
    for _ in range(3):
        fake.look(STALL)
    fake.recovering = False
    fake.look(STALL / 2)
    fake.look(STALL / 3)
    with pytest.raises(Ended, match="none was delivered"):
        fake.look(STALL / 2)


def test_a_partition_is_idle_after_its_slots_and_not_before(monkeypatch):
    """By its last event, or since it was assigned; a recovery brings none, and is no idleness."""
    fake = Fake(monkeypatch)
    epoch = SimpleNamespace(
        seen=fake.now - 1000, unsaved=0, state=None, stage=SimpleNamespace(budget=lambda _: None)
    )
    fake.watch.agents[0].epochs[0] = epoch
    fake.look(2600)
    assert fake.idle[-1] == (0, 3600)
    fake.look(1)
    assert fake.idle[-1] == (1, 3601)
    fake.watch.agents[0].epochs.clear()  # a rebalance, after which it has the same partition
    fake.look(1)
    assert fake.idle[-1] == (1, 3602)
    fake.recovering = True
    fake.look(1)
    assert fake.idle[-1] == (0, 0)
    fake.recovering = False
    fake.look(30)
    assert fake.idle[-1] == (0, 30)
    fake.watch.assigned = set
    fake.look(1)
    assert fake.idle[-1] == (0, 0)


def test_a_partition_that_gets_ticks_is_not_idle(monkeypatch):
    """They move it on: it holds nothing back."""
    fake = Fake(monkeypatch)
    fake.watch.ticks = {"perturb": None}
    fake.watch.tick = fake.nothing
    fake.look(10_000)
    assert fake.idle[-1] == (0, 0)


@pytest.mark.parametrize(
    ("slot_ms", "hop", "seconds"), [(1000, 1, 300), (3_600_000, 1, 10_800), (60_000, 24, 1560)]
)
def test_how_long_a_partition_may_be_without_an_event(slot_ms, hop, seconds):
    assert idle_after(slot_ms, hop) == seconds


def test_each_look_that_ends_is_told(monkeypatch):
    """Also one that the broker did not answer: it is the broker's matter then."""
    fake = Fake(monkeypatch)
    for fake.answer in (0, 0, TIMEOUT):
        fake.look(6)
        assert fake.health.facts().looked == 0


def told(capsys):
    """The lines of the log since the last look."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize("error", [TIMEOUT, BrokerError("it knows none just now")])
def test_an_outage_is_said_at_its_beginning_and_at_its_end(monkeypatch, capsys, error):
    """Once each, however often the broker is asked."""
    with logs.writing("json", "t", "perturb"):
        fake = Fake(monkeypatch)
        fake.look(6)
        fake.answer = error
        for _ in range(3):
            fake.look(6)
        (begin,) = told(capsys)
        fake.answer = 0
        fake.look(6)
        fake.look(6)
        (end,) = told(capsys)
    assert (begin["event"], begin["level"]) == ("outage", "warning")
    assert "did not say" in begin["reason"] or "just now" in begin["reason"]
    assert (end["event"], end["seconds"]) == ("outage_over", 13.0)


def test_partitions_that_get_no_events_are_said(monkeypatch, capsys):
    """From their assignment on, or from their last event; nothing while nothing could come."""

    def idle():
        return [line.get("partitions") for line in told(capsys) if line["event"] == "idle"]

    with logs.writing("json", "t", "perturb"):
        fake = Fake(monkeypatch, after=89.5)
        fake.places = {(PLACE[0], 0), (PLACE[0], 1), ("t.other", 0)}
        fake.agent.epochs[1] = SimpleNamespace(seen=fake.now, unsaved=False, stage=Blank, state=0)
        fake.look(1)
        fake.agent.epochs[1].seen = fake.now + 60
        fake.look(89)
        assert idle() == []
        fake.look(1)
        assert idle() == [[0]]
        fake.recovering = True
        fake.look(500)
        assert idle() == []
        fake.recovering, fake.answer = False, TIMEOUT
        fake.look(89)
        for _ in range(4):
            fake.look(6)
        fake.answer = 0
        fake.look(1)
        fake.look(88)
        assert idle() == []
        fake.look(1)
        assert idle() == [[0, 1]]
        fake.places = {(PLACE[0], 1)}
        fake.agent.epochs[1].seen = fake.now
        fake.look(1)
        assert [line["event"] for line in told(capsys)] == ["busy"]


@pytest.mark.parametrize(("raw", "ticks"), [(False, False), (False, True), (True, False)])
def test_logs_in_which_a_partition_holds_nothing_back_are_left_out(monkeypatch, capsys, raw, ticks):
    """A collector's partition is idle where the edge's is: the edge says it."""
    with logs.writing("json", "t", "collect"):
        fake = Fake(monkeypatch, spec={"raw": raw}, after=89.5)
        fake.agent.spec.ticks, fake.watch.ticks = ticks, {}
        for _ in range(3):
            fake.look(60)
        assert len(told(capsys)) == (raw or ticks)


class Blank:
    """A stage without a budget."""

    @staticmethod
    def budget(state):
        del state
