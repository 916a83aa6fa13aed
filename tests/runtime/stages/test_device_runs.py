"""Devices' reports counted many at a time: the same as one by one, however a log is cut, from its
start or with parts of slots that are ahead of the rest.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter

import numpy as np
import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages import collect_devices
from ldp_kafka.runtime.stages.collect_devices import CollectDevices
from ldp_kafka.runtime.stages.device_rows import DeviceRows
from ldp_kafka.runtime.wire.codec import encode
from tests.depth import depth
from tests.runtime.device.lives import SLOT
from tests.runtime.stages.crashes import of_kind
from tests.runtime.stages.devices import BUDGET, MEAN, TEXTS, Asked, Fed, fed_of, name_of
from tests.runtime.stages.test_single_runs import folded

PER_SLOT, OFTEN = 80, 0.85  # messages of a slot's time, and how many of them are plain reports


def message_of(of, rng, slot, kind, *, answers):
    """A message of a slot; the same number and slot are the same report, mostly."""
    number = int(rng.integers(40))
    low, high = (0, 2) if of.topology.method.blank(1).ndim > 1 else of.topology.method.index_range
    index = int(np.random.default_rng([number, slot]).integers(low, high))
    if answers and kind < OFTEN:
        cost = BUDGET if of.topology.method.name == "lpa" else BUDGET // int(rng.integers(2, 4))
        return of.answer(number, slot, cost, min(index, 1))
    index = min(index, 1) if isinstance(of, Asked) else index
    if kind < OFTEN:
        return of.report(number, slot, index)
    return [
        lambda: of.report(number, slot, min(index + 1, high - 1)),
        lambda: of.report(number, slot, high if high == 2 else 10**6),
        lambda: of.report(number, slot, index, fingerprint="0" * len(of.topology.fingerprint)),
        lambda: of.report(number, slot, index, bound=3),
        lambda: of.report(number, slot, index).replace(b'"slot"', b'"Slot"'),
        lambda: encode(Tick(slot * SLOT)),
        lambda: b"{",
        lambda: b"",
        lambda: foreign(of, number, slot, index),
    ][int(rng.integers(9))]()


def foreign(of, number, slot, index):
    """A report of another partition."""
    mine = name_of(1000 * number + slot).hex().encode()
    other = name_of(1000 * number + slot, at=0).hex().encode()
    return of.report(number, slot, index).replace(mine, other)


def script(seed, name, n):
    """A log of devices that report slot after slot, some late, some ahead, some twice."""
    rng, of, log = np.random.default_rng(seed), fed_of(TEXTS[name]), []
    for at in range(n):
        now = 50 + at // PER_SLOT
        slot = now + int(rng.choice([0, 0, 0, 0, -1, -1, -2, -3, 1, 2]))
        time = [now * SLOT + int(rng.integers(SLOT)), -1][int(rng.random() < 0.02)]
        if rng.random() < 0.02:
            slot = now + int(rng.integers(2, 3000))  # further ahead than a clock may be
        answers = isinstance(of, Asked) and at // 12 % 2 == 1
        log.append(Message(at, time, message_of(of, rng, slot, rng.random(), answers=answers)))
    return of.stage, log


def cuts(rng, n):
    while n > 0:
        size = min(n, int(rng.integers(1, [2, 20, 300][int(rng.integers(3))])))
        yield size
        n -= size


def strictly(stage, state, messages):
    """Message by message, each by the strict reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect_devices, "read_plain_reports", lambda *_, **__: ())
        return folded(stage, state, messages, [1] * len(messages))


def ahead(stage, rng, messages):
    """How many messages a state has seen of which some parts have seen more; and that state, made
    anew with each call.
    """
    first, second = sorted(rng.choice(len(messages), 2, replace=False).tolist())
    early, late = stage.fresh(), stage.fresh()
    stage.fold(early, messages[:first])
    stage.fold(late, messages[:second])
    meta = json.dumps(stage.meta(early))
    shards = {each: (-1, held) for each, held in stage.dump(early, stage.shards_of(early)).items()}
    for each, held in stage.dump(late, stage.shards_of(late)).items():
        if rng.random() < 0.7:
            shards[each] = (-1, held)
    return first, lambda: stage.load(json.loads(meta), shards)


def differs(stage, seed, name, n=400, turns=1):
    """Whether it counts otherwise together than one by one; what was counted one by one."""
    rng, seen = np.random.default_rng(seed), Counter()
    for turn in range(turns):
        plain, log = script([seed, turn], name, n)
        stage = stage or plain
        expected = strictly(plain, plain.fresh(), log)
        seen.update(expected[1])
        for sizes in ([n], list(cuts(rng, n))):
            if folded(stage, stage.fresh(), log, sizes) != expected:
                return True, seen
        first, state = ahead(plain, rng, log)
        rest = log[first:]
        expected = strictly(plain, state(), rest)
        for sizes in ([len(rest)], list(cuts(rng, len(rest)))):
            if folded(stage, state(), rest, sizes) != expected:
                return True, seen
    return False, seen


@pytest.mark.parametrize("name", TEXTS)
def test_together_or_one_by_one(name, monkeypatch):
    seed, together = secrets.randbits(32), Counter()
    count = CollectDevices._count

    def counted(self, state, batch, *rest):
        together[len(batch)] += 1
        return count(self, state, batch, *rest)

    monkeypatch.setattr(CollectDevices, "_count", counted)
    found, seen = differs(None, seed, name, turns=depth(4, 60))
    assert not found, seed
    # many were counted together, and everything that can happen to a report did
    assert sum(size * times for size, times in together.items() if size > 5) > 400, together
    names = {"fingerprint", "wrong_fields", "closed", "not_json", "empty", "ahead", "partition"}
    assert {f"dead_letters:{each}" for each in names} <= seen.keys(), seen
    assert all(seen[each] for each in ("reports", "repeated", "partials", "second_reports")), seen
    assert (seen["releases"] > 0) == (name in ("per-user", "averaged"))


class ClosesLater(CollectDevices):
    """Closes nothing within a run."""

    def _all_closed(self, state):
        closed = super()._all_closed(state)
        return None if closed is None else closed + 10**6


class AnyClock(CollectDevices):
    """Does not look how far ahead of the broker's clock a report of a run is."""

    def _stretch(self, state, rows, start, stop):
        return super()._stretch(state, rows._replace(latest=rows.slots), start, stop)


class AnyHome(CollectDevices):
    """Takes the reports of other partitions."""

    def _stretch(self, state, rows, start, stop):
        return super()._stretch(state, rows._replace(at_home=rows.slots >= 0), start, stop)


class AllNew(CollectDevices):
    """Counts what comes again within a run."""

    def _count(self, state, batch, names, offsets, output):
        first = offsets if len(names) == 1 else [-2] * len(names)
        return super()._count(state, batch, names, first, output)


class Unmoved(CollectDevices):
    """Forgets the watermark of a run."""

    def _together(self, state, run, messages, output):
        before = state.watermark
        super()._together(state, run, messages, output)
        if len(run) > 20:
            state.watermark = before


class OnePhase(CollectDevices):
    """Does not see that the second phase is behind the first."""

    def _all_closed(self, state):
        closed = state.phases[0].closed
        return None if closed is None else closed + self.hold


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ClosesLater, "mean"),
        (AnyClock, "mean"),
        (AnyHome, "mean"),
        (AllNew, "mean"),
        (Unmoved, "mean"),
        (OnePhase, "lba"),
    ],
)
def test_a_broken_stage_is_found(kind, name):
    stage = of_kind(kind, fed_of(TEXTS[name]).stage)
    assert any(differs(stage, seed, name)[0] for seed in range(3))


def test_columns_show_no_report():
    of = Fed(MEAN)
    rows = DeviceRows([name_of(3)], *([np.arange(1)] * 4))
    assert repr(rows) == "DeviceRows(1 reports)"
    assert of.stage.fold(of.state, []).records == []
