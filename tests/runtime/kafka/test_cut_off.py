"""A member is cut off where a new client is answered, and it still is not."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from ldp_kafka.runtime.kafka import cut_off
from ldp_kafka.runtime.kafka.cut_off import ANSWER, CERTAIN, QUIET, CutOff


class World:
    """A member, its brokers, and a clock of its own."""

    def __init__(self, monkeypatch, kind=CutOff):
        self.now, self.asked, self.made = 1000.0, [], 0
        self.lost, self.away = False, False
        """Whether the member finds none of its brokers, and whether they are there."""
        self.back = float("inf")
        """When they are there again; the member finds them a second later."""
        self.refuses = self.silent = False
        """Whether the login lacks a right, and whether the member has asked one that hangs."""
        monkeypatch.setattr(cut_off.time, "monotonic", lambda: self.now)
        self.cut_off = kind("t", self.fresh)

    def fresh(self):
        self.made += 1
        return Client(self, fresh=True)

    def found(self):
        return self.cut_off.found(Client(self))


class Client:
    def __init__(self, world, fresh=False):
        self.world, self.fresh = world, fresh

    def list_topics(self, topic, timeout):
        assert topic == "t"
        world, until = self.world, self.world.now + timeout
        world.asked.append(self.fresh)
        answers = world.back if world.away else world.now
        if not self.fresh:
            answers = float("inf") if world.lost or world.silent else answers + world.away
        if answers > until:
            world.now = until
            silent = world.silent and not self.fresh
            code = KafkaError._TIMED_OUT if silent else KafkaError._TRANSPORT
            raise KafkaException(KafkaError(code))
        world.now = max(world.now, answers)
        if world.refuses:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


def one_that_is_cut_off_is_found(world):
    world.now += QUIET
    world.lost = True
    assert world.found()
    assert world.now == 1000 + QUIET + ANSWER + CERTAIN
    assert not world.found(), "the one in its place has time to find them"


def none_is_found_in_an_outage(world):
    world.away = True
    for _ in range(10):
        world.now += QUIET
        assert not world.found()
    assert world.asked == [False, True] * 10


def none_is_found_right_behind_an_outage(world):
    """Brokers are there again while a new client is asked, which is faster."""
    world.now += QUIET
    world.away, world.back = True, world.now + ANSWER
    assert not world.found()
    assert world.asked == [False, True, False]


def none_is_asked_that_works(world):
    for _ in range(20):
        world.now += QUIET - 1
        world.cut_off.heard()
        assert not world.found()
    assert not world.asked


def a_refusal_is_an_answer(world):
    """It comes at once."""
    world.refuses = True
    world.now += QUIET
    assert not world.found()
    assert not world.made


def one_that_has_asked_a_broker_is_not_cut_off(world):
    """That one is frozen, and others are not."""
    world.silent = True
    for _ in range(3):
        world.now += QUIET
        assert not world.found()
    assert world.asked == [False] * 3


class Never(CutOff):
    def found(self, client):
        super().found(client)
        return False


class Alone(CutOff):
    """Whatever a new client is answered."""

    def found(self, client):
        return self._said(client, ANSWER) is not None


class Hasty(CutOff):
    """The member is asked once."""

    def found(self, client):
        mine, other = self._said(client, ANSWER), self._said(self._fresh(), ANSWER)
        return mine is not None and other is None


class Deaf(CutOff):
    def heard(self):
        pass


class Strict(CutOff):
    """Any error is one of these."""

    def _said(self, client, seconds):
        said = super()._said(client, seconds)
        return said and KafkaError._TRANSPORT


CHECKS = {
    one_that_is_cut_off_is_found: Never,
    none_is_found_in_an_outage: Alone,
    none_is_found_right_behind_an_outage: Hasty,
    none_is_asked_that_works: Deaf,
    a_refusal_is_an_answer: Strict,
    one_that_has_asked_a_broker_is_not_cut_off: Strict,
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_who_is_cut_off(check, monkeypatch):
    check(World(monkeypatch))


@pytest.mark.parametrize(("check", "twin"), CHECKS.items(), ids=lambda each: each.__name__)
def test_a_broken_one_is_found(check, twin, monkeypatch):
    with pytest.raises(AssertionError):
        check(World(monkeypatch, twin))
