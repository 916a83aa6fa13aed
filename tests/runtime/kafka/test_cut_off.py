"""A client is cut off where it is not answered while others are."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.runtime.kafka import cut_off
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, Question
from ldp_kafka.runtime.kafka.cut_off import ANSWER, QUIET, CutOff


class World:
    """A client beside others, by a clock of its own."""

    def __init__(self, monkeypatch, kind=CutOff):
        self.now, self.asked, self.answers = 1000.0, 0, True
        self.there: object = None
        monkeypatch.setattr(cut_off.time, "monotonic", lambda: self.now)
        self.brokers = BrokerHealth([Question("a log", self.others)], clock=lambda: self.now)
        self.pass_by(5)
        self.cut_off = kind(self.brokers)

    def others(self):
        if self.there is not None:
            raise self.there

    def pass_by(self, seconds):
        """Others ask once a second meanwhile."""
        for _ in range(int(seconds)):
            self.now += 1.0
            self.brokers.look()

    def ask(self, seconds):
        self.asked += 1
        assert seconds == ANSWER
        if not self.answers:
            self.pass_by(seconds)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.now += 0.01

    def found(self):
        return self.cut_off.found(self.ask)


AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT))


def one_that_is_cut_off_is_found(world):
    world.pass_by(QUIET)
    world.answers = False
    assert world.found()
    world.pass_by(1)
    assert not world.found(), "the one in its place has time to find them"


def none_is_found_in_an_outage(world):
    world.pass_by(QUIET)
    world.answers, world.there = False, AWAY
    for _ in range(10):
        assert not world.found()
        world.pass_by(QUIET)
    assert world.asked == 10


def none_is_found_right_behind_an_outage(world):
    """Brokers are there again while it is asked: it is yet to connect."""
    world.answers, world.there = False, AWAY
    world.pass_by(QUIET)

    def ask(seconds):
        world.pass_by(2)
        world.there = None
        world.pass_by(seconds - 2)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    assert not world.cut_off.found(ask)
    assert world.brokers.here


def none_is_asked_that_works(world):
    for _ in range(20):
        world.pass_by(QUIET - 1)
        world.cut_off.heard()
        assert not world.found()
    assert not world.asked


def a_refusal_is_an_answer(world):
    """It comes at once."""
    world.pass_by(QUIET)

    def ask(_):
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    assert not world.cut_off.found(ask)


class Never(CutOff):
    def found(self, ask):
        ask = lambda _: None  # noqa: E731
        return super().found(ask)


class Alone(CutOff):
    """Whatever others are answered."""

    def found(self, ask):
        try:
            ask(ANSWER)
        except KafkaException:
            return True
        return False


class NotHere(CutOff):
    """Whether they are there now is all that counts."""

    def found(self, ask):
        return Alone.found(self, ask) and self._brokers.here


class Deaf(CutOff):
    def heard(self):
        pass


CHECKS = {
    one_that_is_cut_off_is_found: Never,
    none_is_found_in_an_outage: Alone,
    none_is_found_right_behind_an_outage: NotHere,
    none_is_asked_that_works: Deaf,
    a_refusal_is_an_answer: NotHere,
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_who_is_cut_off(check, monkeypatch):
    check(World(monkeypatch))


@pytest.mark.parametrize(("check", "twin"), CHECKS.items(), ids=lambda each: each.__name__)
def test_a_broken_one_is_found(check, twin, monkeypatch):
    with pytest.raises(AssertionError):
        check(World(monkeypatch, twin))
