"""What looks, from a thread, whether a worker's client and the recovery of its tables go on."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.worker import guard as room
from ldp_kafka.runtime.worker.probes import Assignment

MOVES = [1, 1, 2, 2, 3, 3, None, None, None, 4, 4]


def guarded(monkeypatch, recovering, given_up=lambda _: None, heard=lambda _: False, here=None):
    """What it ended with, and after how many looks; ``recovering`` gives where the recovery stands,
    ``heard`` whether the client's group had an error by then, ``here`` whether brokers were there.
    """
    ended, over, looks = [], threading.Event(), []

    def end(error):
        ended.append(error)
        over.set()

    class App:
        stands = Assignment.RECOVERING

        @property
        def recovering(self):
            looks.append(1)
            return next(recovering)

    monkeypatch.setattr(room, "STILL", 3)
    monkeypatch.setattr(room, "end", end)
    monkeypatch.setattr(room, "dropped", lambda _: given_up(len(looks)))
    monkeypatch.setattr(room, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(room, "heard", lambda _: heard(len(looks)))

    class Brokers:
        @property
        def here(self):
            return here is None or here(len(looks))

    room.guard(App(), Brokers())
    assert over.wait(20)
    return ended, len(looks)


def test_a_recovery_that_stands_still_ends_the_worker(monkeypatch):
    """After so many looks in a row that found nothing new, while there was one."""
    ended, looks = guarded(monkeypatch, iter([*MOVES, 7, 7, 7, 7, 8]))
    [error] = ended
    assert isinstance(error, BrokerError)
    assert "the recovery of tables stood still for 3 s" in str(error)
    assert looks == len(MOVES) + 4


@pytest.mark.parametrize("after", [1, 9])
def test_a_client_that_has_given_up_ends_the_worker(monkeypatch, after):
    """With what it gave up for, whatever its tables do."""
    error = BrokerError("gone")
    moving = iter(range(100))
    ended, looks = guarded(monkeypatch, moving, lambda n: error if n >= after else None)
    assert ended == [error]
    assert looks == after


def test_a_recovery_that_waits_for_its_broker_does_not_stand_still(monkeypatch):
    """Looks count only while brokers are there."""
    away = range(1, 200)
    ended, looks = guarded(monkeypatch, iter([7] * 300), here=lambda n: n not in away)
    [error] = ended
    assert "stood still" in str(error)
    assert looks > 200


def test_a_group_that_cannot_be_joined_ends_the_worker(monkeypatch):
    """After so many tries in which brokers were there, and never was all well."""
    moving = iter(range(1000))
    trouble = {*range(1, 4), *range(50, 60)}
    ended, looks = guarded(monkeypatch, moving, heard=lambda n: n in trouble, here=lambda n: n > 3)
    [error] = ended
    assert "has not joined its group in 3 tries" in str(error)
    assert looks == 52
