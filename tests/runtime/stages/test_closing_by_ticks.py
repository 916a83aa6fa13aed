"""A curator whose slots close by ticks alone: an event is late by its own record, and changes
nothing of what others have.
"""

from __future__ import annotations

import json
from functools import cache
from random import Random

import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.curate import make_curate
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.topology import loads
from tests.fold.cases import HERE, KEY, SLOT, START, batch, log
from tests.runtime.stages.pane_cases import (
    FIRST,
    with_ticks,
)

TEXT = """
topology: ticked
input: {{slot: 1m, lateness: {lateness}, partitions: 1, max_ahead: 1d, per_slot: sum{more}}}
privacy:
  {{trust: curator, level: event, method: {method}, epsilon: {epsilon}, delay: {delay},
   setting: {setting}, domain: [0, 1000], contribution: 1}}
output: {{statistics: [per_stream]}}
runtime: {{shards: 3}}
"""


@cache
def topology_of(method="naive", setting="sliding", lateness=1, delay=4, epsilon=2.0, more=""):
    return loads(
        TEXT.format(
            method=method,
            setting=setting,
            lateness=lateness,
            delay=delay,
            epsilon=epsilon,
            more=more,
        )
    )


def stage_of(*args, **more):
    topology = topology_of(*args, **more)
    return make_curate(topology, 0, edge_randomness(topology, KEY, HERE))


def tick(slots):
    """The start of a slot, so many after the first one."""
    return encode_json(Tick(START + slots * SLOT))


def released(stage, messages):
    """{(stream, slot after the first one): value}, and what was counted."""
    output = stage.fold(stage.fresh(), messages)
    topic = stage.releases.topic
    bodies = [json.loads(each.value) for each in output.records if each.topic == topic]
    return {(one["user"], one["slot"] - FIRST): one["value"] for one in bodies}, output.counts


def one_ahead(stage):
    """What is released of 500 events of one slot, without one event a slot ahead among them, and
    with it: at a noise of a standard error of 0.03.
    """
    found = []
    for ahead in ([], [batch([("s", START + SLOT, 1.0)])]):
        values = [batch([("s", START + at, 1.0)]) for at in range(500)]
        values = [*values[:100], *ahead, *values[100:], tick(1), tick(20)]
        found.append(released(stage, log(values)))
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
    stage = stage_of(lateness=0, delay=1, epsilon=50.0, more=", closing: events")
    (_, counted), (beside, counts) = one_ahead(stage)
    assert (counted["late"], counts["late"]) == (0, 400)
    assert beside["s", 0] == pytest.approx(100, abs=1)
    events = "the same events close slots"
    assert events in topology_of(more=", closing: events").guarantee.within
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
        _, counts = released(stage, log([tick(slots), event]))
        assert counts["late"] == late


def test_events_close_nothing():
    stage, state = stage_of(), None
    state = stage.fresh()
    values = [batch([(f"s{at % 3}", START + at * SLOT, 1.0)]) for at in range(30)]
    assert stage.fold(state, log(values)).records == []
    assert state.watermark == -1 and stage.latest(log(values)) == -1
    found, _ = released(stage, log([*values, tick(31)]))
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
        found, others = (released(stage, log(values))[0] for values in (mine, more))
        assert others.items() >= found.items() and len(found) > 50
        assert {stream for stream, _ in others.keys() - found.keys()} == {"mallory"}
