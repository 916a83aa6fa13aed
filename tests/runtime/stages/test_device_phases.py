"""The collector's fold over the reports of devices that are asked: two phases of a slot, which
close at different times; reports of every cost by themselves; a crash changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_kafka.records import Tick
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages import collect_device_phases
from ldp_kafka.runtime.stages.collect_device_phases import (
    CollectDevicePhases,
    make_collect_device_phases,
)
from ldp_kafka.runtime.stages.parts import PartOf
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import write_reports
from tests.runtime.device.lives import SLOT, TEXT, loads
from tests.runtime.stages.crashes import of_kind, over_crashes
from tests.runtime.stages.test_collector import partial
from tests.runtime.stages.test_devices import Fed as Devices
from tests.runtime.stages.test_devices import name_of, stages_single

HOLD, BUDGET = 3, 3_000_000
ASKED = TEXT.replace("lateness: 1000", f"lateness: 1, hold: {HOLD}")
GRR = "mechanism: grr, categories: 5"
LBA, LPA = (ASKED % (name, GRR, "frequencies") for name in ("lba", "lpa"))
OUE = ASKED % ("lba", "mechanism: oue, categories: 40", "frequencies")


class Fed(Devices):
    """The stage of partition 1, its state and its log."""

    def __init__(self, text=LBA):
        super().__init__(text)
        self.stage = replace(make_collect_device_phases(self.topology, 1), source=3)
        self.state = self.stage.fresh()

    def answer(self, number, slot, cost=BUDGET // 2, index=3, **changes):
        """A device's report of the second phase; the same number and slot have the same id."""
        form = self.topology.method.form(1, cost)
        blank = form.blank(1)
        values = np.array([index]) if blank.ndim == 1 else np.full_like(blank, index)
        single = stages_single(self.topology, name_of(7000 * number + slot), slot, values)
        return write_reports(replace(single, phase=1, cost=cost, scale=form.scale, **changes))

    def told(self, *values, at=None):
        """(slot, phase, cost, reports) of the partials that messages gave."""
        found = [partial(record) for record in self.put(*values, at=at)]
        return [
            (one.slot, one.phase, one.cost, one.support[0] if one.support else None)
            for one in found
        ]


def test_the_second_phase_is_open_for_so_many_slots_more():
    """And by the broker's clock, as the first is; what comes later is a dead letter."""
    fed = Fed()
    assert fed.told(fed.report(1, 50, 2), fed.report(2, 50, 2)) == [
        (48, 0, 0, None),
        (48 - HOLD, 1, 0, None),
    ]
    assert fed.told(encode(Tick(52 * SLOT))) == [
        (49, 0, 0, None),
        (50, 0, 0, 2),
        (50 - HOLD, 1, 0, None),
    ]
    assert fed.refused(fed.report(3, 50, 2)) == "closed"
    assert fed.told(fed.answer(1, 50), fed.answer(2, 50)) == []
    assert fed.told(encode(Tick((51 + HOLD) * SLOT))) == [
        (49 + HOLD, 0, 0, None),
        (49, 1, 0, None),
    ]
    assert fed.told(fed.answer(3, 50)) == []
    assert fed.told(encode(Tick(99 * SLOT)), at=52 + HOLD) == [
        (50 + HOLD, 0, 0, None),
        (50, 1, BUDGET // 2, 3),
    ]
    assert fed.refused(fed.answer(4, 50)) == "closed"
    assert fed.state.parts == {}


def test_each_cost_is_summed_by_itself():
    """A device has one report of a slot's second phase, whatever it says that it costs."""
    fed = Fed()
    one, other = 700_000, BUDGET // 2
    fed.put(fed.answer(1, 50, one), fed.answer(2, 50, other), fed.answer(3, 50, one))
    fed.put(fed.answer(1, 50, one), fed.answer(1, 50, other), fed.answer(2, 50, other, index=1))
    assert (fed.counts["repeated"], fed.counts["second_reports"]) == (1, 2)
    assert fed.told(encode(Tick((52 + HOLD) * SLOT)))[-2:] == [(50, 1, one, 2), (50, 1, other, 1)]


def test_what_nobody_can_be_asked_for_is_refused():
    """Costs that the protocol does not have, and phases."""
    fed = Fed()
    valid = fed.answer(1, 50)
    for changes in (
        {"cost": BUDGET // 2 + 1},
        {"cost": 0},
        {"phase": 2},
        {"phase": 0},
        {"settled": 3, "closed": 4},
        {"fingerprint": "0" * 32},
    ):
        [single] = [_changed(valid, **changes)]
        assert fed.refused(single) in ("wrong_fields", "fingerprint")
    assert fed.told(valid)[0][0] == 48
    divided = Fed(LPA)
    assert divided.refused(divided.answer(1, 50, BUDGET // 2)) == "wrong_fields"
    assert divided.told(divided.answer(1, 50, BUDGET))


def _changed(value, **changes):
    from ldp_kafka.runtime.wire.reports import read_reports

    return write_reports(replace(read_reports(value), **changes))


def test_costs_of_a_slot_are_not_without_end():
    """Each takes memory, and whoever makes them up has to stop; those that are there go on."""
    fed, most = Fed(), collect_device_phases.COSTS
    for cost in range(most):
        fed.put(fed.answer(cost, 50, 500_000 + cost))
        assert fed.counts["reports"] == 1
    assert fed.refused(fed.answer(most, 50, 500_000 + most)) == "wrong_fields"
    fed.put(fed.answer(most, 50, 500_000), fed.answer(most, 51, 500_000 + most))
    assert fed.counts["reports"] == 2


def test_what_is_looked_at():
    """Parts of the second phase may lie there when the first is closed, and no longer."""
    fed = Fed()
    fed.put(fed.report(1, 50, 2), fed.answer(1, 50), fed.answer(2, 51), encode(Tick(53 * SLOT)))
    meta, shards = (
        fed.stage.meta(fed.state),
        fed.stage.dump(fed.state, fed.stage.shards_of(fed.state)),
    )
    found = fed.stage.look(meta, shards)
    assert (found.slots, found.problems) == (2, [])
    assert meta["closed"] == 51
    late = {**meta, "second": {**meta["second"], "closed": 50}}
    assert "slots that are closed" in str(fed.stage.look(late, shards).problems)


class OneClosing(CollectDevicePhases):
    """Closes both phases together."""

    def _close(self, state, through, output):
        super()._close(state, through, output)
        self._second.close(state.second, through, output)


class ForgetsSecond(CollectDevicePhases):
    """Loses how far the second phase is closed."""

    def meta(self, state):
        found = super().meta(state)
        return {**found, "second": {**found["second"], "closed": None}}


class AnyCost(CollectDevicePhases):
    """Counts an id under each cost."""

    def _known(self, state, mine, name):
        part = state.parts.get(mine)
        return None if part is None else part.ids.get(name)


def script(seed, text, n=60):
    """A log: devices report slot after slot, are asked, some late, some twice, some for another
    cost; ticks.
    """
    rng, fed, log = np.random.default_rng(seed), Fed(text), []
    divided = text == LPA
    for at in range(n):
        slot = 50 + at // 6 + int(rng.integers(-3, 3))
        number, kind = int(rng.integers(5)), rng.integers(12)
        mine = np.random.default_rng([number, slot])
        if kind == 0:
            value = encode(Tick(slot * SLOT))
        elif kind == 1:
            value = b"{"
        elif kind < 6:
            value = fed.report(number, slot, int(mine.integers(0, 2)))
        else:
            cost = BUDGET if divided else int(rng.choice([BUDGET // 2, BUDGET // 2, 700_000]))
            value = fed.answer(number, slot, cost, int(mine.integers(0, 2)))
        log.append(Message(at, (50 + at // 6) * SLOT, value))
    return log


def crashing(kind, text, log, cuts, ahead, **more):
    """What comes out of the log of partition 1, over crashes."""
    stage = replace(make_collect_device_phases(loads(text), 1), source=3)
    return over_crashes(of_kind(kind, stage), log, cuts, ahead, **more)


@given(
    st.integers(0, 2**32),
    st.sampled_from([LBA, LPA, OUE]),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(0, 20),
)
@settings(max_examples=40)
def test_a_crash_changes_nothing(seed, text, cuts, ahead):
    """Parts of a snapshot without its meta are ahead of the rest; what comes out is what a calm
    owner gives.
    """
    log, cuts = script(seed, text), sorted(cuts)
    calm = crashing(CollectDevicePhases, text, log, [], [])
    assert crashing(CollectDevicePhases, text, log, cuts, [ahead] * len(cuts)) == calm


def test_a_crash_at_the_bound_of_costs(monkeypatch):
    """What was refused stays refused, and what counted counts, though parts of later reports are
    there when it is folded again.
    """
    monkeypatch.setattr(collect_device_phases, "COSTS", 3)
    for seed in range(6):
        rng, fed = np.random.default_rng(seed), Fed()
        log = [
            Message(at, -1, fed.answer(at, 50, 500_000 + int(rng.integers(5)))) for at in range(20)
        ] + [Message(20, -1, encode(Tick(60 * SLOT)))]
        calm = crashing(CollectDevicePhases, LBA, log, [], [])
        for cut in range(1, 12):
            half = np.random.default_rng([seed, cut])
            found = crashing(
                CollectDevicePhases,
                LBA,
                log,
                [cut],
                [9],
                written=lambda _, half=half: half.random() < 0.5,
            )
            assert found == calm


def test_a_broken_stage_is_found():
    """By what its partials say."""
    log = script(3, LBA)
    calm = crashing(CollectDevicePhases, LBA, log, [], [])
    assert crashing(OneClosing, LBA, log, [], []) != calm
    assert crashing(AnyCost, LBA, log, [], []) != calm
    with pytest.raises(AssertionError, match="other records after a crash"):
        for cut in range(10, 50):
            crashing(ForgetsSecond, LBA, log, [cut], [9])


def test_parts_of_both_phases_have_names_of_their_own():
    assert PartOf(5, 0, 3).shard == "5.0.3"
    assert PartOf.named(PartOf(5, 700_000, 3).shard) == PartOf(5, 700_000, 3)
