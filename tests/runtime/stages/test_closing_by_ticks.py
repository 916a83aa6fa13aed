"""A curator whose slots close by ticks alone: an event is late by its own record, and changes
nothing of what others have.
"""

from __future__ import annotations

from random import Random

import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.wire.records import encode_json
from tests.fold.cases import SLOT, START, batch, log
from tests.runtime.stages.pane_cases import (
    FIRST,
    curated,
    curator,
    released,
    with_ticks,
)


def topology_of(method="naive", setting="sliding", more="partitions: 1", **others):
    return curated(method, setting, "sum", more, domain="[0, 1000], contribution: 1", **others)


def stage_of(*args, **more):
    return curator(topology_of(*args, **more))


def tick(slots):
    """The start of a slot, so many after the first one."""
    return encode_json(Tick(START + slots * SLOT))


def values_of(stage, messages):
    """{(stream, slot after the first one): value}, and what was counted."""
    output = stage.fold(stage.fresh(), messages)
    found = released(stage, output.records)
    return {
        (name, slot - FIRST): value for (name, slot), (value, _) in found.items()
    }, output.counts


def one_ahead(stage):
    """What is released of 500 events of one slot, without one event a slot ahead among them, and
    with it: at a noise of a standard error of 0.03.
    """
    found = []
    for ahead in ([], [batch([("s", START + SLOT, 1.0)])]):
        values = [batch([("s", START + at, 1.0)]) for at in range(500)]
        values = [*values[:100], *ahead, *values[100:], tick(1), tick(20)]
        found.append(values_of(stage, log(values)))
    return found


def test_one_event_ahead_makes_no_other_late():
    """With lateness 0, 400 of 500 were: the release fell from 500 to 100."""
    stage = stage_of(lateness=0, delay=1, epsilon=50.0)
    (without, counted), (beside, counts) = one_ahead(stage)
    assert counted["late"] == counts["late"] == 0
    assert without["s", 0] == pytest.approx(500, abs=1)
    assert beside["s", 0] == without["s", 0]
    assert beside["s", 1] == pytest.approx(1, abs=1)


def test_with_events_that_close_slots_it_does():
    """Which the guarantee says."""
    stage = stage_of(lateness=0, delay=1, epsilon=50.0, more="partitions: 1, closing: events")
    (_, counted), (beside, counts) = one_ahead(stage)
    assert (counted["late"], counts["late"]) == (0, 400)
    assert beside["s", 0] == pytest.approx(100, abs=1)
    events = "the same events close slots"
    assert events in topology_of(more="partitions: 1, closing: events").guarantee.within
    assert events not in topology_of().guarantee.within


@pytest.mark.parametrize("lateness", [0, 1, 3])
def test_an_event_is_late_by_its_own_record(lateness):
    """At the end of its slot and ``lateness`` slots more, to the millisecond."""
    stage = stage_of(lateness=lateness)
    end = START + (1 + lateness) * SLOT
    for stamp, late in ((end - 1, 0), (end, 1), (-1, 0), (START, 0)):
        message = Message(1, stamp, batch([("s", START + SLOT - 1, 1.0)]))
        assert stage.fold(stage.fresh(), [message]).counts["late"] == late


@pytest.mark.parametrize("lateness", [0, 1, 3])
def test_an_event_is_late_behind_the_tick_that_closes_its_slot(lateness):
    stage = stage_of(lateness=lateness)
    event = batch([("s", START, 1.0)])
    for slots, late in ((lateness, 0), (lateness + 1, 1)):
        _, counts = values_of(stage, log([tick(slots), event]))
        assert counts["late"] == late


def test_events_close_nothing():
    stage, state = stage_of(), None
    state = stage.fresh()
    values = [batch([(f"s{at % 3}", START + at * SLOT, 1.0)]) for at in range(30)]
    assert stage.fold(state, log(values)).records == []
    assert state.watermark == -1 and stage.latest(log(values)) == -1
    found, _ = values_of(stage, log([*values, tick(31)]))
    assert {slot for _, slot in found} == set(range(26))


def test_no_event_of_one_stream_changes_what_is_released_of_another():
    """Whatever is added for one stream, ahead, late and bad: others keep all their releases."""
    stage = stage_of("segment_mean")
    for seed in range(20):
        random = Random(seed)
        mine = [message.value for message in with_ticks(seed)]
        more = list(mine)
        for _ in range(20):
            rows = [("mallory", START + random.randint(-9, 60) * SLOT, random.uniform(0, 9))]
            more.insert(random.randrange(len(more)), batch(rows))
        found, others = (values_of(stage, log(values))[0] for values in (mine, more))
        assert others.items() >= found.items() and len(found) > 50
        assert {stream for stream, _ in others.keys() - found.keys()} == {"mallory"}
