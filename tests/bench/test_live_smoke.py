"""The benchmark's plumbing for single events, latency and soak: without a broker, and without a
word on how fast anything is.
"""

from __future__ import annotations

import json
from array import array

import numpy as np
import pytest

from ldp_kafka.methods.delay.windows import setting_of
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire.records import header
from ldp_kafka.runtime.wire.reports import write_reports
from tests.bench import (
    curator_latency,
    generator,
    inputs,
    latency,
    live,
    quix,
    soak,
    subject,
    weigh,
    worker,
)


def reports(rows, offset=0):
    ids = np.arange(2 * rows, dtype=np.uint64).reshape(rows, 2)
    slots, values = np.full(rows, 7), np.arange(rows)
    return write_reports(Reports(ids, slots, values, 1.0, "0" * 32, offset, None))


def test_a_record_is_weighed_by_what_it_holds():
    assert [weigh.reports(reports(rows)) for rows in (1, 2, 500)] == [1, 2, 500]
    assert weigh.reports(header("meters", "0" * 32, "0" * 32)) == 0
    batches = list(inputs.batches(5000, 1))
    assert [weigh.rows(value) for value, _ in batches] == [rows for _, rows in batches]
    assert weigh.rows(b'{"user":"a"}') == 1


def test_events_count_between_the_warm_up_and_the_last_wanted_one():
    found = subject.Found()
    values = (b"x" * size for size in (0, 30, 30, 40, 5))  # a header, batches, one after the last
    found.add(zip([0.0, 1.0, 2.0, 5.0, 9.0], values, strict=True), len)
    assert found.events == 105
    seen = [(0, 0.0), (1, 0.5), (2, 1.0), (4, 2.0), (5, 7.0)]
    made = subject.outcome(seen, found, 100)
    assert made.events == 70 / 4  # from the record with event 10 to that with event 100
    assert made.cpu == pytest.approx(1e9 * 1.0 / 70)
    assert made.whole == 105


def test_what_was_not_run_has_no_ratio_and_costs_are_ours_over_theirs():
    quick, slow = subject.Outcome(100.0, 2.0, 1), subject.Outcome(10.0, 8.0, 1)
    every = {name: [slow] for name in worker.NOTES} | {worker.LOOSE: [quick]}
    made = {figure.name: figure for figure in worker.figures(every)}
    assert len(made) == 2 * len(worker.NOTES) + len(worker.RATES) + len(worker.COSTS)
    assert made["single: ours / quixstreams, stateful"].rounds == (10.0,)
    assert made["single: ours / raw, by CPU"].rounds == (0.25,)
    some = {name: runs for name, runs in every.items() if "quix" not in name}
    assert not any("quix" in figure.name for figure in worker.figures(some))
    assert worker.left_out().keys() <= every.keys()


def test_topologies_say_how_many_reports_a_message_where_they_can(monkeypatch):
    assert inputs.runtime(1) is not None
    monkeypatch.setattr(inputs, "OPTION", "shards")
    assert inputs.runtime(16) == 'runtime: {"shards": 16}\n'
    monkeypatch.setattr(inputs, "OPTION", "nothing_of_the_kind")
    assert inputs.runtime(16) is None
    assert inputs.runtime(1, shards=4) == 'runtime: {"shards": 4}\n'


def test_the_peer_clips_perturbs_and_keeps_a_state():
    class State(dict):
        set = dict.__setitem__

    state, event = State(), {"user": "a", "time": 3 * quix.SLOT, "value": 500.0}
    for made in (quix.perturb(event), quix.correct(event, state)):
        assert made["slot"] == 3
        assert -0.2 <= made["value"] <= 1.2
    assert state["off"] == pytest.approx(1.0 - made["value"])


def test_events_are_sent_when_they_are_due_and_late_ones_at_once():
    now, slept, late = [100.0], [], array("d")

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds if len(slept) != 2 else 1.0  # it oversleeps once

    numbers = [(at, now[0]) for at in generator.due(10, 20, late, lambda: now[0], sleep)]
    assert [at for at, _ in numbers] == list(range(20))
    assert all(when >= 100 + at / 10 - 1e-9 for at, when in numbers)
    assert 899 < generator.lateness(late)["most"] < 1001
    users = [json.loads(generator.message(at, 3, 5.0)[1]) for at in range(6)]
    assert [each["user"] for each in users[:3]] == [each["user"] for each in users[3:]]
    assert users[0]["time"] == 5000


def test_latency_is_that_of_the_first_answer():
    sent = np.array([10.0, 10.2, 10.6, 11.1])
    records = [(0.0, header("meters", "0" * 32, "0" * 32)), (10.3, reports(1, live.PROBES))]
    records += [(10.5, reports(1, live.PROBES + 1)), (99.0, reports(1, live.PROBES + 1))]
    taken = latency.to_reports(sent, records)
    assert taken[:2] == pytest.approx([300, 300])
    assert np.isnan(taken[2:]).all()

    released = [(10.65, 20), (11.4, 21), (50.0, 20)]  # of half a second each
    taken = latency.to_releases(
        sent, ((seconds, json.dumps({"slot": slot}).encode()) for seconds, slot in released), 500, 0
    )
    assert taken == pytest.approx([50, 300])  # nothing closes slot 22


def test_a_rate_that_is_not_carried_says_so():
    fine = latency.Outcome(np.array([1.0, 2.0]), 2.0, 0.5)
    assert not fine.troubles
    bad = latency.Outcome(np.array([1.0, np.nan]), 2000.0, 500.0)
    assert len(bad.troubles) == 3
    made = latency.figures({("crowd", 20): [fine, bad]})
    assert [figure.rounds for figure in made] == [(1.5, 1.0), (1.99, 1.0)]
    assert "NOT CARRIED" in made[0].note


@pytest.mark.parametrize("shape", live.SHAPES)
def test_each_shape_is_a_topology(shape, tmp_path):
    path, topology = live.described(tmp_path, "live", "127.0.0.1:1", "live.raw", shape, 500)
    assert path.exists()
    assert topology.input.lateness == 0
    assert (shape in latency.WATCHED) == (topology.setting == "")
    assert topology.setting in ("", shape)
    roles = ["curate"] if topology.setting else ["perturb", "collect"]
    assert [role.name for role in topology.roles] == roles


def release(seconds, slot):
    return seconds, json.dumps({"slot": slot}).encode()


def test_latency_of_a_window_is_that_of_its_first_and_its_last_release():
    """Of slots of half a second; what began before the first event does not count."""
    sent = np.arange(10.6, 13.5, 0.25)  # slots 21 to 26
    made = [release(11.3, 21), release(12.2, 22), release(12.3, 22), release(12.7, 23)]
    taken, number = curator_latency.to_windows(sent, made, setting_of("batch", 2), 500, 0)
    assert number.tolist() == [3, 0]  # of slots 22 and 23, closed at 12.1; 24 and 25
    assert taken[0] == pytest.approx([100, 600])
    assert np.isnan(taken[1]).all()
    made = [release(12.1, 21), release(12.65, 22), release(12.7, 22), release(13.3, 23)]
    taken, number = curator_latency.to_windows(sent, made, setting_of("sliding", 2), 500, 0)
    assert number.tolist() == [2, 1]  # with slots 24 and 25, closed at 12.6 and 13.1
    assert taken == pytest.approx(np.array([[50, 100], [200, 200]]))
    late, _ = curator_latency.to_windows(sent, made, setting_of("sliding", 2), 500, 1)
    assert late == pytest.approx(np.array([[-450, -400]]))  # closed one slot later


def test_a_window_without_a_release_is_told():
    taken = np.array([[100.0, 600.0], [300.0, 700.0], [np.nan, np.nan]])
    made = curator_latency.figures("batch", curator_latency.Outcome(taken, 1000, 500.0))
    assert [figure.median for figure in made] == [200, 300, 650, 700]
    assert "COULD NOT KEEP UP" in made[0].note and "1 windows without" in made[0].note


def test_a_soak_tells_growth_and_stalls():
    watch = soak.Watch()
    for minute in range(61):  # ten MiB in the first minutes, then six an hour
        size = (10 * min(minute, 5) + minute / 10) * 2**20
        watch.sample(60.0 * minute, {"perturb": int(size)})
    for now, end in [(1.0, 1), (2.0, 2), (9.0, 3), (10.0, 3), (3600.0, 3)]:
        watch.look(now, {"t.reports": end})
    assert soak.slope(watch.rss["perturb"], 720.0) == pytest.approx(6, rel=1e-3)
    assert watch.pauses("t.reports", 3600.0).tolist() == [1.0, 1.0, 7.0, 3591.0]
    told = {"events": 1, "p99": 1.0}
    made = {figure.name: figure for figure in soak.figures(watch, 3600.0, told, {"perturb": 0}, 1)}
    assert made["stalls of reports"].rounds == (2.0,)
    assert made["RSS of perturb in the end"].rounds == (56.0,)
