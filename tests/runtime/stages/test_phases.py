"""A phase is what a step says: the edge takes it from there, and the sums of two phases of one slot
are kept apart until the slot is released.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from ldp_kafka.errors import StateError
from ldp_kafka.records import Partial
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.log import Message, Record
from ldp_kafka.runtime.stages.collect_devices import make_collect_devices
from ldp_kafka.runtime.stages.destinations import Releases
from ldp_kafka.runtime.stages.merge import Merge
from ldp_kafka.runtime.stages.slot_sums import At, SlotSums
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json, encode_json
from ldp_kafka.runtime.wire.reports import write_reports
from tests.runtime.stages.reload import again, whole
from tests.runtime.stages.test_collector import Fed as Collector
from tests.runtime.stages.test_edge import Fed as Edge
from tests.runtime.stages.told import Told


class Phased:
    """A method that has two phases, of which a slot can have both; which one a step is of has
    nothing to do with the remainder of its slot.
    """

    def __init__(self, method, phase_of=lambda _: 0):
        self._method, self._phase_of = method, phase_of

    def __getattr__(self, name):
        return getattr(self._method, name)

    def step(self, state, batch):
        return self._method.step(state, batch)._replace(phase=self._phase_of(batch.slot))

    def in_phase(self, slots, phase):
        return np.full(len(slots), 0 <= phase < 2)


def test_the_edge_takes_the_phase_from_the_step():
    """In ids and on the wire; each phase of a message is a batch of its own, sorted, and the last
    alone closes.
    """
    fed = Edge(lateness=0)
    fed.edge = replace(fed.edge, method=Phased(fed.topology.method, lambda slot: int(slot == 5)))
    users = [f"u{number}" for number in range(20)]
    batches = fed.send(*((user, slot, 7) for user in users for slot in (4, 5, 6)))
    assert [(batch.phase, batch.chunk, sorted(set(batch.slots.tolist()))) for batch in batches] == [
        (0, 0, [4, 6]),
        (1, 1, [5]),
    ]
    assert [batch.closed for batch in batches] == [None, 5]
    digests = fed.randomness.digests(users)
    for batch in batches:
        expected = np.concatenate(
            [
                fed.randomness.report_ids(digests, slot, batch.phase)
                for slot in sorted(set(batch.slots.tolist()))
            ]
        )
        found = [row.tobytes() for row in batch.ids]
        assert sorted(row.tobytes() for row in expected) == found == sorted(found)


def collector():
    fed = Collector()
    fed.collect = replace(fed.collect, method=Phased(fed.topology.method))
    fed.state = fed.collect.fresh()
    return fed


def test_the_collector_sums_each_phase_by_itself():
    """And says which partial is the last of its slot; a phase that the slot cannot have is
    refused.
    """
    fed = collector()
    fed.put(
        write_reports(fed.batch(0, (5, 100), (5, 7), phase=1)),
        write_reports(fed.batch(1, (5, 30), phase=0)),
        write_reports(fed.batch(2, (6, 9), phase=1)),
    )
    for offset in (1, 2):
        assert whole(fed.collect, again(fed.collect, fed.state, offset)) == whole(
            fed.collect, fed.state
        )
    fed.state = again(fed.collect, fed.state, fed.offset - 1)
    records = fed.put(write_reports(fed.batch(3, (9, 1), phase=0, closed=7)))
    found = [decode_json(parse_json(record.value)) for record in records]
    assert [(one.slot, one.phase, one.last, one.support) for one in found] == [
        (4, 0, True, None),
        (5, 0, False, fed.support(30)),
        (5, 1, True, fed.support(100, 7)),
        (6, 1, True, fed.support(9)),
        (7, 0, True, None),
    ]
    assert fed.refused(write_reports(fed.batch(4, (9, 1), phase=2))) == "wrong_fields"


def test_a_collector_without_phases_refuses_any_but_the_first():
    fed = Collector()
    assert fed.refused(write_reports(fed.batch(0, (5, 1), phase=1))) == "wrong_fields"


class Merger:
    """A merger of two sources whose releases are (slot, sums by phase)."""

    def __init__(self, destination=None):
        self.merge = Merge(
            2,
            destination
            or Told(lambda *slot: [Record("r", 0, None, json.dumps(slot[:2]).encode())]),
            "partials",
            "dead",
            "f" * 32,
            "0" * 32,
        )
        self.state, self.offset = self.merge.fresh(), 0

    def send(self, *partials):
        """What is released of partials, the state written down and read again before each."""
        made = []
        for one in partials:
            self.state = again(self.merge, self.state, self.offset - 1)
            folded = self.merge.fold(
                self.state, [Message(self.offset, -1, encode_json(Partial(*one)))]
            )
            self.offset += 1
            self.counts = folded.counts
            made += [json.loads(record.value) for record in folded.records]
        return made


FIRST = [(0, 5, 5, (1, 10), ("1" * 32,), 0, False), (0, 5, 5, (2, 20), ("2" * 32,), 1, True)]
SECOND = [(1, 5, 5, (4, 40), ("3" * 32,), 1, True), (1, 6, 5, None)]


def test_two_phases_of_a_slot_are_kept_apart():
    """Whatever the order in which sources are heard."""
    for order in set(itertools.permutations("aabb")):
        left = {"a": list(FIRST), "b": list(SECOND)}
        merger, made = Merger(), []
        for which in order:
            made += merger.send(left[which].pop(0))
        assert made == [[5, {"0": [1, 10], "1": [6, 60]}]]
        assert merger.state.phases[0].released == 5


def test_a_slot_waits_for_the_last_phase_of_a_source():
    """Which comes once, as each of its phases does."""
    merger = Merger()
    assert merger.send(SECOND[0], FIRST[0]) == []
    assert merger.send(FIRST[0]) == []
    assert merger.counts["repeated"] == 1
    assert merger.send(FIRST[1]) == [[5, {"0": [1, 10], "1": [6, 60]}]]
    for late in FIRST:
        assert merger.send(late) == []
        assert merger.counts["repeated"] == 1


def test_one_id_in_two_phases_is_no_second_report():
    """The ids of a slot's phases are different ones; a sample is of one phase."""
    merger = Merger()
    merger.send(FIRST[0])
    merger.send((1, 5, 5, (4, 40), ("1" * 32,), 1, True))
    assert merger.counts["second_reports"] == 0
    merger = Merger()
    merger.send(FIRST[0])
    merger.send((1, 5, 5, (4, 40), ("1" * 32,), 0, True))
    assert merger.counts["second_reports"] == 1


def test_todays_statistics_take_whatever_phase_a_slot_has():
    """Where it has several, their supports are added; None where nobody reported."""

    @dataclass(frozen=True)
    class Publishes:
        told: list
        statistics = SimpleNamespace(width=2, looks_back=1)

        def of_slot(self, *given):
            self.told.append(given)
            return []

    told = []
    merger = Merger(Releases(Publishes(told)))
    merger.send((1, 8, None, None))
    merger.send((0, 5, 5, (3, 4), (), 1, True))
    merger.send((0, 6, 5, (1, 2), (), 0, False), (0, 6, 5, (3, 4), (), 1, True))
    merger.send((0, 7, 5, None))
    assert told == [(5, [3, 4], {}), (6, [4, 6], {5: [3, 4]}), (7, None, {6: [4, 6]})]


def test_a_partial_of_the_old_form_is_a_dead_letter():
    """It says nothing of phases."""
    body = json.loads(encode_json(Partial(0, 5, 5, (1, 2))))
    merger = Merger()
    for lacking in ("phase", "last"):
        old = json.dumps({name: held for name, held in body.items() if name != lacking}).encode()
        folded = merger.merge.fold(merger.state, [Message(0, -1, old)])
        assert [json.loads(record.value)["reason"] for record in folded.records] == ["wrong_fields"]
        assert folded.counts["dead_letters:wrong_fields"] == 1


@pytest.mark.parametrize("role", ["collect", "merge", "devices"])
def test_a_state_of_the_old_form_is_refused(role):
    """With the way out."""
    fed = Collector()
    devices = make_collect_devices(fed.topology, 0)
    stage = {
        "collect": fed.collect,
        "merge": roles.make(fed.topology, "merge", 0),
        "devices": devices,
    }[role]
    meta = stage.meta(stage.fresh())
    stage.load(meta, {})
    old = {name: held for name, held in meta.items() if name not in ("slots", "form")}
    assert len(old) == len(meta) - 1
    with pytest.raises(StateError, match="another version; go on with that one"):
        stage.load({**old, "block": meta.get("slots")}, {})


def test_the_sums_of_a_slot():
    """Added by slot and phase, closed by slot, and kept while the slot shard goes on."""
    sums = SlotSums(4)
    for at, added in ((At(5, 1), [1, 2]), (At(5, 0), [3, 4]), (At(5, 1), [5, 6]), (At(9, 0), [7])):
        assert sums.takes(at.slot, 0)
        sums.add(at, added)
    assert sums.see(At(5, 1), ["b", "a"]) == 0
    assert sums.see(At(5, 0), ["a"]) == 0
    assert sums.see(At(5, 1), ["a"]) == 1
    assert sums.waiting(8) == [5]
    assert sums.dirty() == sums.shards() == {"1", "2"}
    held = sums.dump({"1"})
    assert json.loads(held["1"]) == {"5.1": [[6, 8], ["a", "b"], 1], "5.0": [[3, 4], ["a"]]}
    assert sums.meta() == {}
    found = sums.close(5)
    assert [*found] == [0, 1]
    assert found[1] == ([6, 8], ["a", "b"], 1)
    assert sums.meta() == {"second_reports": [1, 5]}
    assert sums.sample == {}
    assert sums.shards() == {"1", "2"}, "kept: its record can be ahead of meta"
    sums.end(6)
    assert sums.kept
    sums.end(7)
    assert not sums.kept
    assert sums.shards() == {"2"}
    loaded = SlotSums.load(4, None, 4, {"1": (12, held["1"])})
    assert not loaded.takes(5, 12)
    assert loaded.takes(5, 13)
    assert loaded.dump({"1"}) == held
    loaded.close(5)
    assert loaded.meta() == sums.meta(), "from a slot shard that was ahead, once"
    closed = SlotSums.load(4, 5, 4, {"1": (12, held["1"])})
    closed.hear(sums.meta())
    assert closed.meta() == sums.meta()
