"""The merge stage: one release a slot, when all sources have closed it, whatever the order they are
heard in.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.records import Partial
from ldp_kafka.runtime import local
from ldp_kafka.runtime.log import Message, Record
from ldp_kafka.runtime.stages import complete, slot_sums
from ldp_kafka.runtime.stages.complete import SAMPLED
from ldp_kafka.runtime.stages.destinations import added
from ldp_kafka.runtime.stages.merge import Merge
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.records import encode_json, header
from tests.cases import cases
from tests.depth import depth
from tests.fold import cases as fold_cases
from tests.fold.cases import SLOT, START
from tests.runtime.stages.reload import again, whole
from tests.runtime.stages.told import Told


@pytest.fixture(autouse=True, scope="module")
def _small_slot_shards():
    """So that a few slots make several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slot_sums, "MOST", 3)
        yield


PLAIN = "{method: %s, mechanism: %s, epsilon: 2.0, window: 3, domain: [0, 10]}"


class Fed:
    """A merger of some sources whose releases are (slot, sums)."""

    def __init__(self, sources=2, width=2):
        self.merge = Merge(
            sources,
            Told(
                lambda slot, sums, earlier: [
                    Record("releases", 0, None, json.dumps([slot, added(sums) or None]).encode())
                ],
                width,
            ),
            "partials",
            "dead",
            "f" * 32,
            "0" * 32,
        )
        self.state, self.offset, self.counts = self.merge.fresh(), 0, {}

    def put(self, *values):
        """Messages, folded together."""
        folded = self.merge.fold(
            self.state, [Message(self.offset + i, -1, value) for i, value in enumerate(values)]
        )
        self.offset += len(values)
        self.counts, self.gauges = folded.counts, folded.gauges
        return folded.records

    def send(self, *partials):
        """What is released of partials (source, slot, first, support)."""
        records = self.put(*(encode_json(Partial(*each)) for each in partials))
        assert all(record.topic == "releases" for record in records)
        return [tuple(json.loads(record.value)) for record in records]


def test_a_slot_waits_for_all_sources():
    """And is released with the sums of all of them, once."""
    fed = Fed(sources=3)
    assert fed.send((0, 5, 5, (1, 10))) == []
    assert fed.send((2, 5, 5, (2, 20)), (2, 6, 5, (7, 7))) == []
    assert fed.send((1, 4, None, None)) == []
    assert fed.send((1, 5, 5, (4, 40))) == [(5, [7, 70])]
    assert fed.send((1, 6, 5, None)) == []
    assert fed.send((0, 6, 5, (1, 1))) == [(6, [8, 8])]
    assert fed.state.phases[0].sums.open == {}


def test_slots_before_the_first_report_are_not_released():
    """Not before any source has one, and never those before it."""
    fed = Fed()
    assert fed.send((0, 10**9, None, None), (1, 10**9, None, None)) == []
    assert fed.gauges["released"] == 10**9, "passed over"
    assert fed.send((0, 10**9 + 1, None, None), (1, 10**9 + 1, None, None)) == []
    assert fed.gauges["released"] == 10**9 + 1
    at = 10**9 + 5
    assert fed.send((0, at - 1, at, None), (0, at, at, (1, 1)), (0, at + 2, at, None)) == []
    assert fed.send((1, at + 1, None, None)) == [(at, [1, 1]), (at + 1, None)]


def test_a_source_that_starts_later_does_not_start_earlier():
    """Its first report is in a slot that it had not closed; the least of all firsts counts."""
    fed = Fed()
    assert fed.send((0, 8, 8, (1, 1)), (0, 12, 8, None)) == []
    assert fed.send((1, 6, 7, None)) == []
    assert fed.send((1, 7, 7, (2, 2))) == [(7, [2, 2])]
    assert fed.send((1, 9, 7, None)) == [(8, [1, 1]), (9, None)]


def test_a_source_that_is_heard_later_takes_no_slot_away():
    """Its first report is later than the others'."""
    fed = Fed()
    assert fed.send((0, 3, 3, (1, 1))) == []
    assert fed.send((1, 10, 5, None)) == [(3, [1, 1])]


def test_empty_slots_are_released_as_null():
    """Between slots with reports, and after them."""
    fed = Fed(sources=1)
    assert fed.send((0, 5, 5, (1, 1))) == [(5, [1, 1])]
    assert fed.send((0, 7, 5, None)) == [(6, None), (7, None)]
    assert fed.send((0, 8, 5, (2, 2))) == [(8, [2, 2])]


@cases("gap", [1, 3, 4, 5, 10**9])
def test_a_long_run_of_empty_slots_is_cut(monkeypatch, gap):
    """After the limit the rest is passed over; a slot with reports is never."""
    monkeypatch.setattr(complete, "EMPTY_RUN", 3)
    nulls = [(5 + i, None) for i in range(1, min(gap, 4))]
    for steps in ([gap + 5], [6, gap + 4, gap + 5], range(6, 12 if gap > 9 else gap + 6)):
        fed, found = Fed(sources=1), []
        found += fed.send((0, 5, 5, (1, 1)))
        for through in steps:
            if through < 5 + gap:
                found += fed.send((0, through, 5, None))
        found += fed.send((0, 5 + gap, 5, (2, 2)), (0, 6 + gap, 5, None))
        assert found == [(5, [1, 1]), *nulls, (5 + gap, [2, 2]), (6 + gap, None)]


def test_repeats_change_nothing():
    """A partial that was taken is not added again, nor is an earlier one."""
    fed = Fed(sources=1)
    first = ((0, 5, 5, (1, 1)), (0, 6, 5, (2, 2)))
    assert fed.send(*first) == [(5, [1, 1]), (6, [2, 2])]
    assert fed.send(*first, first[1]) == []
    assert fed.counts["repeated"] == 3
    fed = Fed(sources=2)
    fed.send(first[0], first[0], first[0])
    assert fed.send((1, 5, 5, (1, 1))) == [(5, [2, 2])]


@cases(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b" " * (MAX_BYTES + 1), "too_large"),
        (b"garbage", "not_json"),
        (b"[" * 10**6, "not_json"),
        (b"[1]", "not_a_record"),
        (b'{"ldp_kafka":7,"type":"partial"}', "version"),
        (b'{"ldp_kafka":1,"type":"partial"}', "wrong_fields"),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":5,"first":5,"support":3}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":5,"first":5,"support":true}',
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":5,"first":5,"support":[1e0,2]}',
            "wrong_fields",
        ),
        (
            (
                b'{"ldp_kafka":1,"type":"partial","source":0,"slot":5,"first":5,'
                b'"support":[9223372036854775808,2]}'
            ),
            "wrong_fields",
        ),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":"5","first":5,"support":[1,2]}',
            "wrong_fields",
        ),
        (encode_json(Partial(0, 5, 5, (1, 2, 3))), "wrong_fields"),
        (encode_json(Partial(0, 5, 5, ())), "wrong_fields"),
        (encode_json(Partial(2, 5, 5, (1, 2))), "not_a_record"),
        (encode_json(Partial(-1, 5, 5, (1, 2))), "not_a_record"),
        (lk.encode(lk.Event("u", 1, 1.0)), "not_a_record"),
    ],
)
def test_what_is_no_partial_is_a_dead_letter(value, reason):
    """And changes nothing."""
    fed = Fed()
    fed.send((0, 5, 5, (1, 1)))
    before = whole(fed.merge, fed.state)
    [record] = fed.put(value)
    assert record.topic == "dead"
    body = json.loads(record.value)
    assert (body["topic"], body["partition"], body["offset"], body["row"], body["reason"]) == (
        "partials",
        0,
        1,
        0,
        reason,
    )
    assert whole(fed.merge, fed.state) == before
    assert fed.send((1, 5, 5, (1, 1))) == [(5, [2, 2])]


def test_a_header_is_skipped():
    """Offset 0 of a topic of ours."""
    fed = Fed()
    assert fed.put(header("t", "f" * 32, "0" * 32)) == []
    assert fed.counts == {"releases": 0, "repeated": 0, "second_reports": 0}


@st.composite
def sources(draw):
    """Of each of some sources: its partials in their order, as a collector writes them."""
    made = []
    for source in range(draw(st.integers(1, 3))):
        full = sorted(draw(st.sets(st.integers(0, 30), max_size=5)))
        cuts = sorted(
            {*draw(st.sets(st.integers(-1, 31), max_size=4)), *full, draw(st.integers(31, 33))}
        )
        partials = []
        for slot in cuts:
            # an open slot may have reports already
            known = [s for s in full if s <= slot + draw(st.integers(0, 3))]
            before = [p[2] for p in partials if p[2] is not None]
            first = min([*known, *before], default=None)
            partials.append((source, slot, first, (slot + 1, source) if slot in full else None))
        made.append(partials)
    return made


@given(sources(), st.data())
@settings(max_examples=depth(80, 250))
def test_releases_do_not_depend_on_the_interleaving(made, data):
    """Any merge of the sources' logs, with repeats, folded in any runs, over a snapshot at any
    place: what a slow twin says.
    """
    limit = complete.EMPTY_RUN
    complete.EMPTY_RUN = data.draw(st.integers(1, 6))
    try:
        through = min(partials[-1][1] for partials in made)
        sums = {}
        for slot, support in (
            (p[1], p[3]) for partials in made for p in partials if p[3] is not None
        ):
            sums[slot] = [a + b for a, b in zip(sums.get(slot, [0, 0]), support, strict=True)]
        expected, full = [], None
        for slot in range(through + 1):
            if slot in sums:
                full = slot
            if full is not None and slot - full <= complete.EMPTY_RUN:
                expected.append((slot, sums.get(slot)))
        for _ in range(2):
            fed, queues, found = Fed(sources=len(made)), [list(partials) for partials in made], []
            while any(queues):
                source = data.draw(st.sampled_from([i for i, queue in enumerate(queues) if queue]))
                run = [
                    queues[source].pop(0)
                    for _ in range(data.draw(st.integers(1, len(queues[source]))))
                ]
                found += fed.send(*run, *run[: data.draw(st.integers(0, 1))])
                if data.draw(st.booleans()):
                    fed.state = again(fed.merge, fed.state, fed.offset - 1)
            assert found == expected
            assert (fed.state.phases[0].released or 0) <= through
            assert all(slot > through for slot in fed.state.phases[0].sums.open)
    finally:
        complete.EMPTY_RUN = limit


def test_a_user_in_two_partitions_is_noticed():
    """By an id that two sources sampled in one slot, whatever lies between; a source heard twice is
    no second report.
    """
    fed = Fed(sources=3)
    one, other, third = ("1" * 32,), ("2" * 32, "3" * 32), ("3" * 32, "4" * 32)
    fed.send((0, 5, 5, (1, 1), one), (1, 5, 5, (2, 2), other), (1, 5, 5, (2, 2), other))
    assert fed.counts["second_reports"] == 0
    assert whole(fed.merge, again(fed.merge, fed.state, fed.offset - 1)) == whole(
        fed.merge, fed.state
    )
    assert fed.send((2, 5, 5, (2, 2), third)) == [(5, [5, 5])]
    assert fed.counts["second_reports"] == 1
    assert fed.state.phases[0].sums.sample == {}
    assert fed.merge.meta(fed.state)["second_reports"] == [1, 5]
    assert again(fed.merge, fed.state, fed.offset - 1).phases[0].sums.second_reports == (1, 5)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(
    "how",
    [("sw_direct", "square_wave"), ("lbu", "hybrid"), ("lbd", "hybrid")],
    ids=lambda how: how[0],
)
def test_no_epsilon_is_released_of_users_who_reported_twice(how, both):
    """From the first slot on in which any did, also where none did later; a coordinator is told."""
    of = fold_cases.topology(privacy=PLAIN % how, statistics=fold_cases.CROWDS)
    events = [
        (slot, f"u{user}", number)
        for slot in range(6)
        for user in range(20)
        for number in (0, 1)
        if number == user % 2 or (both and slot == 2)
    ]
    tick = fold_cases.closing(6)
    logs = [
        fold_cases.log(
            [
                *(
                    fold_cases.batch([(user, START + slot * SLOT, 5.0)])
                    for slot, user, at in events
                    if at == number
                ),
                tick,
            ]
        )
        for number in (0, 1)
    ]
    released = local.run(of, fold_cases.randomness(of), logs).releases
    found = [json.loads(each.value) for each in released][:6]
    if of.method.phases < 2:  # others ask some more
        assert [each["reports"] for each in found] == [20, 20, 40 if both else 20, 20, 20, 20]
    bound = [each["guarantee"]["epsilon"] for each in found]
    assert bound == ([2.0] * 2 + [None] * 4 if both else [2.0] * 6)


def test_waiting_slots_keep_few_ids():
    """A partition without events makes slots wait for ever: of the ids only those of the latest are
    kept, and nothing of the sums is lost.
    """
    fed = Fed()
    for slot in range(1000):
        fed.send((0, slot, 0, (1, 1), ("1" * 32,)))
    assert len(fed.state.phases[0].sums.sample) == SAMPLED
    assert whole(fed.merge, again(fed.merge, fed.state, fed.offset - 1)) == whole(
        fed.merge, fed.state
    )
    assert min(fed.state.phases[0].sums.sample).slot == 1000 - SAMPLED
    assert len(fed.send((1, 999, None, None))) == 1000
    assert fed.state.phases[0].sums.sample == {}


def test_a_release_is_given_the_sums_of_the_slots_before_it():
    """As many as it looks back, over slot shards and a state that was written and read again."""
    given = []
    for reread in (False, True):
        fed, told = Fed(sources=1), {}
        fed.merge = replace(
            fed.merge,
            destination=Told(
                lambda slot, sums, earlier, told=told: told.update({slot: earlier}) or [],
                looks_back=4,
            ),
        )
        for slot in range(5, 15):
            if reread:
                fed.state = again(fed.merge, fed.state, fed.offset - 1)
            fed.send((0, slot, 5, (slot, 1) if slot != 7 else None))
        given.append(told)
    assert given[0] == given[1]
    for slot, earlier in given[0].items():
        before = [at for at in range(max(5, slot - 4), slot) if at != 7]
        assert earlier == {at: {0: [at, 1]} for at in before}
    # and no more is kept than that
    assert {slot // 3 for slot in fed.state.phases[0].sums.kept} == {10 // 3, 12 // 3, 14 // 3}
