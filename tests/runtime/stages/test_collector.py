"""The collect stage: every report counts once, and what is no report of this topology
counts never.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_kafka as lk
from ldp_kafka.records import Partial, Reports, hexadecimal
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.sample import KEPT
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.parsing import LATEST, parse_json
from ldp_kafka.runtime.wire.records import decode_json, header
from ldp_kafka.runtime.wire.reports import write_reports
from ldp_kafka.statistics.per_user import power_sums
from ldp_kafka.topology import loader
from tests.cases import cases
from tests.runtime.stages.reload import again, whole

loads = cache(loader.loads)
NUMERIC = """
topology: t
input: {slot: 1s, lateness: 1, partitions: 3}
privacy: {method: sw_direct, epsilon: 2.0, window: 4, domain: [0, 100]}
output: {statistics: [mean%s]}
"""
CATEGORIES = """
topology: t
input: {slot: 1s, lateness: 1, partitions: 1}
privacy: {method: lpu, mechanism: grr, epsilon: 2.0, window: 2, categories: 3}
output: {statistics: [frequencies]}
"""


class Fed:
    """A collector, its state and a log that grows."""

    def __init__(self, text=NUMERIC % "", source=2):
        self.topology = loads(text)
        self.source = source
        self.collect = roles.make(self.topology, "collect", source)
        self.state, self.offset, self.counts = self.collect.fresh(), 0, {}
        self.scale = self.topology.method.mechanism.scale

    def batch(self, offset, *rows, closed=None, chunk=0, **changes):
        """A report batch of rows (slot, index)."""
        slots, index = ([row[i] for row in rows] for i in (0, 1))
        ids = changes.pop(
            "ids",
            np.random.default_rng(len(rows) + 1000 * offset + chunk)
            .integers(0, 2**63, (len(rows), 2))
            .astype(np.uint64),
        )
        given = {
            "scale": self.scale,
            "fingerprint": self.topology.fingerprint,
            "series": ids if self.topology.per_user else None,
        } | changes
        return Reports(
            ids,
            np.array(slots, np.int64),
            np.array(index, np.int64),
            bound=offset,
            closed=closed,
            chunk=chunk,
            **given,
        )

    def put(self, *values):
        """Messages, folded together: what they gave, by topic."""
        folded = self.collect.fold(
            self.state, [Message(self.offset + i, -1, value) for i, value in enumerate(values)]
        )
        self.offset += len(values)
        self.counts, self.gauges = folded.counts, folded.gauges
        return folded.records

    def send(self, *rows, **options):
        """One batch; its partials."""
        records = self.put(
            write_reports(self.batch(options.pop("offset", self.offset), *rows, **options))
        )
        assert all(
            (r.topic, r.partition, r.key)
            == (self.topology.partials_topic, 0, str(self.source).encode())
            for r in records
        )
        return [replace(partial(record), sample=()) for record in records]

    def refused(self, value):
        """The reason of the one dead letter of a message that changes nothing else."""
        before, offset = whole(self.collect, self.state), self.offset
        [record] = self.put(value)
        assert whole(self.collect, self.state) == before
        assert record.topic == self.topology.collector_dead_letters_topic
        body = json.loads(record.value)
        assert (body["topic"], body["partition"], body["offset"], body["row"]) == (
            self.topology.reports_topic,
            self.source,
            offset,
            0,
        )
        assert dict(record.headers)["ldp.reason"] == body["reason"].encode()
        assert self.counts[f"dead_letters:{body['reason']}"] == 1
        assert self.counts["reports"] == 0
        return body["reason"]

    def support(self, *index):
        """Of reports with these output indices."""
        return tuple(self.topology.method.mechanism.support(np.array(index) * self.scale).tolist())


def partial(record):
    """The partial in a record."""
    return decode_json(parse_json(record.value))


def test_a_slot_is_summed_until_it_closes():
    """Whatever the order of batches; then its sums go to the merger, once."""
    fed = Fed()
    assert fed.send((5, 100), (6, 7), (5, -3)) == []
    assert fed.send((5, 100)) == []
    assert fed.counts["reports"] == 1
    assert fed.send(closed=5) == [
        Partial(2, 4, 5, None),
        Partial(2, 5, 5, fed.support(100, -3, 100)),
    ]
    assert fed.counts["partials"] == 2
    assert fed.send(closed=6) == [Partial(2, 6, 5, fed.support(7))]
    assert fed.state.phases[0].sums.open == {}


def test_a_batch_that_closes_its_own_slot_counts_in_it():
    """Its rows first, then `closed`."""
    fed = Fed()
    assert fed.send((5, 1), (5, 2), (6, 3), closed=5) == [
        Partial(2, 4, 5, None),
        Partial(2, 5, 5, fed.support(1, 2)),
    ]


def test_a_batch_counts_once():
    """By (bound, chunk) of its source: not again, and none that comes before the last."""
    fed = Fed()
    for offset, chunk in [(7, 0), (7, 1), (7, 3), (9, 0)]:
        fed.send((5, 1), offset=offset, chunk=chunk)
        assert (fed.counts["reports"], fed.counts["repeated"]) == (1, 0)
    for offset, chunk in [(9, 0), (7, 2), (7, 0), (3, 99), (8, 5)]:
        assert fed.send((5, 1), offset=offset, chunk=chunk) == []
        assert (fed.counts["reports"], fed.counts["repeated"]) == (0, 1)
    assert fed.send(offset=9, chunk=1, closed=5)[-1] == Partial(2, 5, 5, fed.support(1, 1, 1, 1))


def test_a_log_begun_anew_is_no_replay():
    """A number that was counted, closing what was not closed: silence would lose everything that
    comes after it.
    """
    fed = Fed()
    fed.send((5, 1), offset=7, closed=3)
    assert fed.refused(write_reports(fed.batch(4, (9, 1), closed=8))) == "restarted"
    assert fed.send((5, 1), offset=4, closed=3) == []


def test_a_refused_batch_does_not_count_as_the_last():
    """Its number stays free: nothing of it was taken."""
    fed = Fed()
    fed.send((5, 1), offset=3)
    assert fed.refused(write_reports(fed.batch(9, (5, 1), (5, 10**6)))) == "range"
    fed.send((5, 1), offset=4)
    assert (fed.counts["reports"], fed.counts["repeated"]) == (1, 0)


def test_reports_of_another_topology_are_refused():
    """One, many or none."""
    fed = Fed()
    for rows in ([(5, 1)], [(5, 1), (6, 1)], []):
        assert (
            fed.refused(write_reports(fed.batch(0, *rows, closed=9, fingerprint="f" * 32)))
            == "fingerprint"
        )


def test_reports_outside_the_mechanism_are_refused():
    """Just beyond either end; the ends themselves count."""
    fed = Fed()
    low, high = fed.topology.method.mechanism.index_range
    for index in (low - 1, high + 1, 2**31 - 1, -(2**31)):
        assert fed.refused(write_reports(fed.batch(0, (5, index)))) == "range"
        assert fed.refused(write_reports(fed.batch(0, (5, 0), (5, index)))) == "range"
    fed.send((5, low), (5, high))
    assert fed.counts["reports"] == 2
    fed = Fed(CATEGORIES)
    for index in (-1, 3):
        assert fed.refused(write_reports(fed.batch(0, (5, index)))) == "range"
    fed.send((5, 0), (5, 2))
    assert fed.counts["reports"] == 2


def test_reports_for_a_closed_slot_are_refused():
    """The edge had closed it: there is no such report."""
    fed = Fed()
    fed.send((5, 1), closed=5)
    assert fed.refused(write_reports(fed.batch(9, (5, 1)))) == "closed"
    assert fed.refused(write_reports(fed.batch(9, (6, 1), (4, 1)))) == "closed"
    fed.send((6, 1))
    assert fed.counts["reports"] == 1


def test_reports_on_another_scale_are_refused():
    """They are sums of something else."""
    fed = Fed()
    assert fed.refused(write_reports(fed.batch(0, (5, 1), scale=2**-9))) == "wrong_fields"
    assert fed.refused(write_reports(fed.batch(0, (5, 1), (5, 1), scale=1))) == "wrong_fields"


@cases(
    ("value", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"x" * (MAX_BYTES + 1), "too_large"),
        (b"garbage", "not_json"),
        (b"\xff\xff\xff\xffgarbage", "not_arrow"),
        (b"[]", "not_a_record"),
        (b'{"ldp_kafka":3,"type":"report"}', "version"),
        (b'{"ldp_kafka":1,"type":"report"}', "wrong_fields"),
        (b'{"ldp_kafka":1,"type":"tick","time":1}', "not_a_report"),
        (b'{"ldp_kafka":1,"type":"tick","time":NaN}', "not_finite"),
        (
            b'{"ldp_kafka":1,"type":"partial","source":0,"slot":0,"first":null,"support":7}',
            "wrong_fields",
        ),
        (lk.encode([lk.Event("u", 1, 1.0)] * 2), "not_a_report"),
    ],
)
def test_what_is_no_report_is_a_dead_letter(value, reason):
    """And the batches around it count."""
    fed = Fed()
    fed.send((5, 1))
    assert fed.refused(value) == reason
    assert fed.send((5, 2), closed=5)[-1].support == fed.support(1, 2)


def test_a_header_is_skipped():
    """Offset 0 of a topic of ours."""
    fed = Fed()
    assert fed.put(header("t", fed.topology.fingerprint, fed.topology.layout)) == []
    assert fed.counts == {"reports": 0, "repeated": 0, "partials": 0, "second_reports": 0}


def test_empty_slots_go_as_one_range():
    """Before the first report, between two slots with reports, and after the last: one partial
    each, however many slots.
    """
    fed = Fed()
    assert fed.send(closed=10**6) == [Partial(2, 10**6, None, None)]
    fed.send((2 * 10**6, 1), (3 * 10**6, 2), (3 * 10**6 + 1, 3))
    first = 2 * 10**6
    assert fed.send(closed=4 * 10**6) == [
        Partial(2, first - 1, first, None),
        Partial(2, first, first, fed.support(1)),
        Partial(2, 3 * 10**6 - 1, first, None),
        Partial(2, 3 * 10**6, first, fed.support(2)),
        Partial(2, 3 * 10**6 + 1, first, fed.support(3)),
        Partial(2, 4 * 10**6, first, None),
    ]


def test_closed_never_goes_back():
    """An older `closed` closes nothing anew."""
    fed = Fed()
    fed.send((5, 1), closed=5)
    assert fed.send((7, 1), closed=3) == []
    assert fed.send(closed=5) == []
    assert fed.gauges["closed"] == 5
    assert fed.send(closed=7) == [Partial(2, 6, 5, None), Partial(2, 7, 5, fed.support(1))]


def test_the_edges_first_closed_may_be_below_zero():
    """Slots start at the epoch, `closed` a lateness before."""
    fed = Fed()
    assert fed.send((0, 1), closed=-2) == [Partial(2, -2, 0, None)]
    assert fed.send(closed=0) == [Partial(2, -1, 0, None), Partial(2, 0, 0, fed.support(1))]


def test_the_first_slot_is_the_least_with_a_report():
    """Also where reports came out of order."""
    fed = Fed()
    fed.send((9, 1))
    fed.send((7, 1), closed=6)
    assert {found.first for found in fed.send(closed=9)} == {7}


def test_per_user_releases_each_report():
    """At once, keyed by slot and pseudonym, on the values' scale; the crowd's sums are the same."""
    fed = Fed((NUMERIC % ", per_user").replace("per_user]", "per_user], shrinkage: false"))
    batch = fed.batch(0, (5, 100), (6, 512))
    made = fed.put(write_reports(batch))
    assert [record.topic for record in made] == [fed.topology.releases_topic] * 2
    released = [json.loads(record.value) for record in made]
    assert [r["value"] for r in released] == [100 / 1024 * 100, 50.0]
    assert [r["slot"] for r in released] == [5, 6]
    assert [r["user"] for r in released] == [row.tobytes().hex() for row in batch.series]
    assert [record.key.decode() for record in made] == [
        f"per_user/{r['slot']}/{r['user']}" for r in released
    ]
    assert fed.counts["releases"] == 2
    assert fed.put(write_reports(batch)) == []
    assert fed.counts["repeated"] == 1
    assert replace(
        partial(fed.put(write_reports(fed.batch(1, closed=5)))[-1]), sample=()
    ) == Partial(2, 5, 5, fed.support(100))


def test_the_crowd_of_a_source_is_state():
    """All its reports so far, those of the batch among them, whatever was written down and loaded
    in between.
    """
    fed, twin = (Fed(NUMERIC % ", per_user") for _ in range(2))
    for offset, values in enumerate([(100, 300), (700, -5), (900, 20)]):
        batch = write_reports(fed.batch(offset, *((5 + offset, value) for value in values)))
        assert fed.put(batch) == twin.put(batch)
        twin.state = again(twin.collect, twin.state, offset)
    every = [100, 300, 700, -5, 900, 20]
    assert twin.state.phases[0].crowd == (6, sum(every), sum(value * value for value in every))


def test_sums_of_squares_beyond_64_bits():
    """Of methods whose reports have many steps."""
    values = np.array([2**40, -(2**41), 7])
    assert power_sums(values) == (3, 2**40 - 2**41 + 7, 2**80 + 2**82 + 49)


def test_per_user_needs_a_series():
    """A report without its pseudonym could not be released."""
    fed = Fed(NUMERIC % ", per_user")
    assert fed.refused(write_reports(fed.batch(0, (5, 1), series=None))) == "wrong_fields"
    assert fed.refused(write_reports(fed.batch(0, (5, 1), (5, 2), series=None))) == "wrong_fields"
    assert fed.put(write_reports(fed.batch(0, closed=3))) != []


@pytest.mark.parametrize("slot", [LATEST - 1, 253_402_300_800, 0])
def test_no_slot_stops_the_collector(slot):
    """A report for the end of all calendars, signed by nobody, is counted, and the next one too."""
    fed = Fed(NUMERIC % ", per_user")
    [release] = fed.put(write_reports(fed.batch(0, (slot, 1))))
    assert json.loads(release.value)["slot"] == slot
    fed.put(write_reports(fed.batch(1, (5, 1))))
    assert fed.counts["reports"] == 1


rows = st.lists(st.tuples(st.integers(0, 8), st.integers(-100, 1000)), max_size=5)


@given(st.lists(st.tuples(rows, st.none() | st.integers(-1, 9)), max_size=8))
@settings(max_examples=80)
def test_sums_by_a_slow_twin(log):
    """Any log of batches, each written once more behind itself: support by slot, ranges in between,
    in plain Python.
    """
    fed, held, closed, first, expected, found = Fed(), {}, None, None, [], []
    for offset, (batch, closing) in enumerate(log):
        kept = [(slot, index) for slot, index in batch if closed is None or slot > closed]
        for slot, index in kept:
            held.setdefault(slot, []).append(index)
            first = slot if first is None else min(first, slot)
        if closing is not None and (closed is None or closing > closed):
            for slot in sorted(s for s in held if s <= closing):
                if closed is None or closed < slot - 1:
                    expected.append(Partial(2, slot - 1, first, None))
                expected.append(Partial(2, slot, first, fed.support(*held.pop(slot))))
                closed = slot
            if closed is None or closed < closing:
                expected.append(Partial(2, closing, first, None))
            closed = closing
        message = write_reports(fed.batch(offset, *kept, closed=closing))
        found += [replace(partial(record), sample=()) for record in fed.put(message, message)]
        assert fed.counts["repeated"] == 1
    assert found == expected
    loaded = again(fed.collect, fed.state, fed.offset - 1)
    assert whole(fed.collect, loaded) == whole(fed.collect, fed.state)
    last = fed.batch(len(log), (20, 1), closed=20)
    assert fed.collect.fold(
        loaded, [Message(fed.offset, -1, write_reports(last))]
    ).records == fed.put(write_reports(last))


def test_a_second_report_is_noticed():
    """The same id again in a slot, at another offset: not a replay, which is counted once. The
    first ids go to the merger, which sees them across sources.
    """
    fed = Fed()
    ids = np.arange(100, dtype=np.uint64).byteswap().repeat(2).reshape(-1, 2)
    first = write_reports(fed.batch(0, *[(5, 1)] * 100, ids=ids))
    fed.put(first)
    assert fed.counts["second_reports"] == 0
    fed.put(first)
    assert (fed.counts["repeated"], fed.counts["second_reports"]) == (1, 0)
    fed.put(
        write_reports(fed.batch(2, (5, 2), ids=ids[7:8])),
        write_reports(fed.batch(3, (6, 2), ids=ids[7:8])),
    )
    assert fed.counts["second_reports"] == 1, "in slot 5; another slot's ids are others"
    closing = partial(fed.put(write_reports(fed.batch(4, closed=5)))[-1])
    assert closing.sample == tuple(hexadecimal(ids[:KEPT]))
    assert whole(fed.collect, again(fed.collect, fed.state, fed.offset - 1)) == whole(
        fed.collect, fed.state
    )
