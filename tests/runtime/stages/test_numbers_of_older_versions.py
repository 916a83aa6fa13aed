"""A topology that ran when batches were numbered by raw offsets goes on: behind its last offset."""

from __future__ import annotations

import pytest

from ldp_kafka.errors import StateError
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.stages.perturb import Perturb, make_perturb
from ldp_kafka.runtime.wire.reports import read_reports
from tests.fold import cases
from tests.runtime.stages.crashes import of_kind

FIRST, CUT = 1, 9


class Older(Perturb):
    """Writes its state, and numbers its batches, as that version did."""

    @property
    def fields(self):
        return self.method.fields

    def fresh(self):
        state = super().fresh()
        users = state.users
        users._ledger = tuple(name for name in users._ledger if name in self.fields)
        return state

    def _begin(self, state, messages):
        state.offset = messages[-1].offset

    def _send(self, state, bounds, drawn, output):
        state.bound = bounds.offsets.item(0) - 1
        super()._send(state, bounds, drawn, output)

    def meta(self, state):
        return {name: said for name, said in super().meta(state).items() if name != "bound"}


def stopped(statistics, cover):
    """What that version leaves when it is stopped, with shards at this offset: messages that it has
    sent, its meta, its shards.
    """
    topology = cases.topology(1, statistics=statistics)
    stage = of_kind(Older, make_perturb(topology, 0, cases.randomness(topology)))
    state, log = stage.fresh(), cases.orderly()[0]
    sent = []
    for message in log[:CUT]:
        sent += stage.fold(state, [message]).records
    shards = {
        name: (cover, held) for name, held in stage.dump(state, stage.shards_of(state)).items()
    }
    return topology, [record.value for record in sent], stage.meta(state), shards, log[CUT:]


@pytest.mark.parametrize("statistics", cases.BOTH)
def test_numbers_go_on_behind_the_last_offset(statistics):
    """A collector that goes on too counts each report once."""
    topology, sent, meta, shards, left = stopped(statistics, CUT)
    stage = make_perturb(topology, 0, cases.randomness(topology))
    state = stage.load(meta, shards)
    again = [record.value for record in stage.fold(state, left).records]
    numbers = [read_reports(value).bound for value in again]
    assert numbers[0] == left[0].offset == CUT + 1
    assert numbers == sorted(numbers)
    assert {*numbers} == {*range(CUT + 1, numbers[-1] + 1)}
    collect = roles.make(topology, "collect", 0)
    known = collect.fresh()
    values = [value.replace(b'"bound"', b'"offset"') for value in sent]
    assert values != sent
    log = cases.log([*values, *again])
    assert collect.fold(known, log).counts["repeated"] == 0
    assert known.phases[0].closed == cases.START // cases.SLOT + 6


def test_a_crash_before_is_no_place_to_go_on_from():
    """What that version sent behind its last snapshot is not known."""
    topology, _, meta, shards, left = stopped(cases.CROWDS, CUT + 2)
    stage = make_perturb(topology, 0, cases.randomness(topology))
    state = stage.load(meta, shards)
    with pytest.raises(StateError, match="stop it in order"):
        stage.fold(state, left)
