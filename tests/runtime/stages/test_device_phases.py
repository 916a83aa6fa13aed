"""The collector's fold over the reports of devices that are asked: two phases of a slot, which
close at different times; reports of every cost by themselves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ldp_kafka.records import Tick
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages import collect_devices
from ldp_kafka.runtime.stages.parts import PartOf
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from tests.fold.judge import Pure
from tests.runtime.device.lives import SLOT
from tests.runtime.stages.crashes import over_crashes
from tests.runtime.stages.devices import BUDGET, HOLD, LPA, Asked


def test_the_second_phase_is_open_for_so_many_slots_more():
    """And by the broker's clock, as the first is; what comes later is a dead letter."""
    fed = Asked()
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
    fed = Asked()
    one, other = 700_000, BUDGET // 2
    fed.put(fed.answer(1, 50, one), fed.answer(2, 50, other), fed.answer(3, 50, one))
    fed.put(fed.answer(1, 50, one), fed.answer(1, 50, other), fed.answer(2, 50, other, index=1))
    assert (fed.counts["repeated"], fed.counts["second_reports"]) == (1, 2)
    assert fed.told(encode(Tick((52 + HOLD) * SLOT)))[-2:] == [(50, 1, one, 2), (50, 1, other, 1)]


def test_what_nobody_can_be_asked_for_is_refused():
    """Costs that the protocol does not have, and phases."""
    fed = Asked()
    valid = fed.answer(1, 50)
    for changes in (
        {"cost": BUDGET // 2 + 1},
        {"cost": 0},
        {"phase": 2},
        {"phase": 0},
        {"settled": 3, "closed": 4},
        {"fingerprint": "0" * 32},
    ):
        changed = write_reports(replace(read_reports(valid), **changes))
        assert fed.refused(changed) in ("wrong_fields", "fingerprint")
    assert fed.told(valid)[0][0] == 48
    divided = Asked(LPA)
    assert divided.refused(divided.answer(1, 50, BUDGET // 2)) == "wrong_fields"
    assert divided.told(divided.answer(1, 50, BUDGET))


def test_costs_of_a_slot_are_not_without_end():
    """Each takes memory, and whoever makes them up has to stop; those that are there go on."""
    fed, most = Asked(), collect_devices.COSTS
    for cost in range(most):
        fed.put(fed.answer(cost, 50, 500_000 + cost))
        assert fed.counts["reports"] == 1
    assert fed.refused(fed.answer(most, 50, 500_000 + most)) == "wrong_fields"
    fed.put(fed.answer(most, 50, 500_000), fed.answer(most, 51, 500_000 + most))
    assert fed.counts["reports"] == 2


def test_what_is_looked_at():
    """Parts of the second phase may lie there when the first is closed, and no longer."""
    fed = Asked()
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


def test_a_crash_at_the_bound_of_costs(monkeypatch):
    """What was refused stays refused, and what counted counts, though parts of later reports are
    there when it is folded again.
    """
    monkeypatch.setattr(collect_devices, "COSTS", 3)
    for seed in range(6):
        rng, fed = np.random.default_rng(seed), Asked()
        values = [fed.answer(at, 50, 500_000 + int(rng.integers(5))) for at in range(20)]
        log = [Message(at, -1, each) for at, each in enumerate([*values, encode(Tick(60 * SLOT))])]
        runs = [[message] for message in log]
        over_crashes(fed.stage, runs, seed, Pure(fed.stage, runs))


def test_parts_of_both_phases_have_names_of_their_own():
    assert PartOf(5, 0, 3).shard == "5.0.3"
    assert PartOf.named(PartOf(5, 700_000, 3).shard) == PartOf(5, 700_000, 3)
