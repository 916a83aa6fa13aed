"""The seven protocols on devices: what is decided and released is what `Protocol.run` makes of the
same streams, whoever is away for a while, is new, or hears of the requests late.
"""

from __future__ import annotations

import base64
import json
from contextlib import closing
from functools import cache

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.runtime.device.answers import Answers
from ldp_kafka.runtime.device.client import Client
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.topology import loads
from tests.keys import KEY
from tests.rounds import numbers
from tests.runtime.device.fleet import Fleet
from tests.runtime.device.lives import SLOT

USERS, DEVICES, SLOTS, WINDOW, HOLD = 42, 6, 13, 4, 3
START = WINDOW * (28_333_334 // WINDOW)
IDS = [f"u{user}" for user in range(USERS)]
KINDS = [(name, numeric) for name in PROTOCOLS for numeric in (False, True)]
TEXT = """
topology: t
input: {{source: devices, slot: 1m, lateness: 0, partitions: 2, hold: 3}}
privacy: {{method: {name}, epsilon: 6.0, window: 4, {kind}}}
output: {{statistics: [{statistic}]}}
"""


@cache
def topology(name, numeric):
    kind = "domain: [0, 10], mechanism: hybrid" if numeric else "categories: 3, mechanism: grr"
    return loads(TEXT.format(name=name, kind=kind, statistic="mean" if numeric else "frequencies"))


def streams(numeric, late=0):
    """(users, slots), whose crowd jumps; some users join late, some are away for a window and
    more. ``late``: all but the last users join in one of so many slots.
    """
    rng = np.random.default_rng(7)
    shares = np.repeat(rng.dirichlet([0.3] * 3, SLOTS // 3 + 1), 3, axis=0)[:SLOTS]
    table = np.stack([rng.choice(3, size=USERS, p=share) for share in shares], axis=1)
    gone = rng.random(table.shape) < 0.2
    gone[:7, :6] = True
    gone[7:16, 4:10] = True
    gone[30:, 0] = False
    for user in range(30) if late else ():
        gone[user, : user % late] = True
    if numeric:
        return np.where(gone, np.nan, 4.0 * table + rng.random(table.shape))
    return np.where(gone, -1, table)


@pytest.fixture
def key(monkeypatch):
    """All devices have one, so that one run of the protocol draws what they draw."""
    monkeypatch.setenv("LDP_KAFKA_EDGE_KEY", base64.b64encode(KEY).decode())


def run(of, table, folder, kind=Client):
    """A fleet that has lived through a table; every device is started anew in every other slot."""
    fleet = Fleet(of, folder, DEVICES, kind)
    with closing(fleet):
        there = ~np.isnan(table) if table.dtype.kind == "f" else table >= 0
        for at in range(SLOTS + HOLD + 2):
            slot = START + at
            fleet.tick(slot)
            while True:
                asked = len(fleet.requests)
                for client in fleet.clients.values():
                    if of.flow.requests is not None:
                        client.answer(*fleet.requests)  # all, again and again
                if asked == len(fleet.requests):
                    break
            for number in range(DEVICES) if at % 2 else ():
                fleet.open(number)
            for user in range(USERS) if at < SLOTS else ():
                if there[user, at]:
                    client = fleet.clients[user % DEVICES]
                    client.report(table[user, at].item(), slot * SLOT + user, user=IDS[user])
    return fleet


@pytest.mark.parametrize(("name", "numeric"), KINDS)
def test_the_same_decisions_and_releases(name, numeric, key, disk):
    of, table = topology(name, numeric), streams(numeric)
    same(of, table, run(of, table, disk))


def same(of, table, fleet):
    """Decisions, releases, and how many reports there are."""
    name = of.method.name
    protocol = getattr(of.method, "protocol", None) or lk.protocol(
        name, epsilon=6.0, window=WINDOW, categories=3, oracle="grr"
    )
    noise = edge_randomness(of, KEY, "here")
    trace = protocol.run(table, noise, users=IDS, first_slot=START)
    found = fleet.releases[:SLOTS]
    assert [release.slot for release in found] == list(range(START, START + SLOTS))
    said = np.array([np.atleast_1d(release.value) for release in found], float)
    errors = numbers([release.standard_error for release in found], trace.standard_error)
    np.testing.assert_allclose(said, trace.values.reshape(SLOTS, -1), rtol=1e-12)
    np.testing.assert_allclose(errors, trace.standard_error, rtol=1e-12)
    assert len(fleet.left) == trace.reports.sum()
    assert not any(count for name, count in fleet.counts.items() if name.startswith("dead"))
    if protocol.adaptive:
        strategies = [release.strategy for release in found]
        assert strategies == trace.strategy.tolist()
        assert {"publish", "approximate"} <= set(strategies)
        assert [json.loads(request)["slot"] for request in fleet.requests] == [
            release.slot for release in fleet.releases
        ]


class ForgetsRequests(Client):
    """A start begins with no history."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self._answers._history.restore([])


class MeetsAlways(Client):
    """Who comes late was never selected before."""

    def _step(self, *given):
        history, self._answers._history = self._answers._history, _without(self._answers)
        found = super()._step(*given)
        self._answers._history = history
        return found


def _without(answers):
    """The same last slot, and nothing that was asked."""
    bare = answers._method.history()
    bare.restore([[slot, 0] for slot, _ in answers._history.saved()])
    return bare


class AsksThoseWhoAreThere(Client):
    """Who has no value in a slot keeps the turn."""

    def answer(self, *requests):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Answers, "_asked", _of_those_there)
            return super().answer(*requests)


_ASKED = Answers._asked


def _of_those_there(self, asking):
    states, reports = _ASKED(self, asking)
    there = self._store.held(asking.slot)
    return [state for state in states if state[0] in there], reports


def test_users_who_are_met_late(key, disk):
    """After requests that would have selected them."""
    of, table = topology("lpd", False), streams(False, late=10)
    same(of, table, run(of, table, disk))


@pytest.mark.parametrize("kind", [ForgetsRequests, MeetsAlways, AsksThoseWhoAreThere])
def test_a_broken_device_is_found(kind, key, disk):
    """By the releases that come of it."""
    of, table = topology("lpd", False), streams(False, late=10)
    with pytest.raises(AssertionError):
        same(of, table, run(of, table, disk, kind))
