"""Reports that are compared in arrays, against sets of what they say."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
import pytest

from ldp_kafka.records import Reports
from ldp_kafka.runtime.tools import report_index
from ldp_kafka.runtime.tools.report_index import Compared, ReportIndex, compare
from tests.cases import cases

PRINT = "ab" * 16


def batch(rows, *, series=False, **shared):
    """Of (id, slot, value)."""
    ids, slots, values = zip(*rows, strict=True)
    pairs = np.array([[number % 5, number] for number in ids], np.uint64)
    return Reports(
        pairs,
        np.array(slots),
        np.array(values),
        **{
            "scale": 1.0,
            "fingerprint": PRINT,
            "bound": 1,
            "closed": None,
            "series": pairs if series else None,
            **shared,
        },
    )


def twin(held, expected, due):
    """The same with sets."""
    by_held, by_expected = defaultdict(set), defaultdict(set)
    for row in held:
        by_held[row[0]].add(row)
    for row in expected:
        by_expected[row[0]].add(row)
    return Compared(
        len(by_held),
        sum(len(rows) > 1 for rows in by_held.values()),
        sum(name not in by_held for name in by_expected if name in due),
        sum(not by_held[name] <= by_expected[name] for name in by_held.keys() & by_expected.keys()),
        len(by_held.keys() - by_expected.keys()),
    )


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_as_sets_would(seed, disk, monkeypatch, tmp_path):
    """With repeats, second reports, what is missing and what nobody expected; however often what
    waits is flushed, in memory or on disk.
    """
    monkeypatch.setattr(report_index, "FLUSH", 4)
    random = Random(seed)
    truth = [(number, random.randrange(3), random.randrange(4)) for number in range(30)]
    due = {number for number in range(30) if random.random() < 0.7}
    rows = [row for row in truth if random.random() < 0.9]
    rows += random.sample(rows, 8)
    rows += [
        (number, slot, random.randrange(4))
        for number, slot, _ in random.sample(truth, 3 * (seed % 3))
    ]
    rows += [(100 + number, 0, 1) for number in range(seed % 4)]
    random.shuffle(rows)
    held = ReportIndex(folder=tmp_path if disk else None)
    expected = ReportIndex(held.seed, held.folder)
    for at in range(0, len(rows), 7):
        held.add(batch(rows[at : at + 7]))
    for row in truth:
        expected.add(batch([row]), due=row[0] in due)
    assert compare(held, expected) == twin(rows, truth, due)
    assert (held.reports, held.repeats) == (len(rows), len(rows) - len(set(rows)))
    assert compare(held) == Compared(
        len({row[0] for row in rows}), compare(held, expected).second, 0, 0, 0
    )


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_ids_in_several_partitions(seed, disk, monkeypatch, tmp_path):
    """With one content or several, whatever was made once more lies elsewhere, and however often
    what waits is flushed.
    """
    monkeypatch.setattr(report_index, "FLUSH", 4)
    random = Random(seed)
    rows = [(number, 1, random.randrange(2), random.choice((3, 3, 9_999))) for number in range(30)]
    rows += [(*row[:3], random.choice((3, 7))) for row in random.choices(rows, k=15)]
    rows += [(*row[:2], 5, row[3]) for row in random.choices(rows, k=9)]
    random.shuffle(rows)
    held = ReportIndex(folder=tmp_path if disk else None)
    expected = ReportIndex(held.seed, held.folder)
    for row in rows:
        held.add(batch([row[:3]]), partition=row[3])
        expected.add(batch([row[:3]]), partition=random.randrange(3))
    places = defaultdict(set)
    for row in rows:
        places[row[0]].add(row[3])
    several = sum(len(found) > 1 for found in places.values())
    assert 0 < several < 30
    assert compare(held).scattered == compare(held, expected).scattered == several


CHANGED = {
    "value": ([(1, 5, 8)], {}),
    "slot": ([(1, 6, 7)], {}),
    "scale": ([(1, 5, 7)], {"scale": 0.5}),
    "fingerprint": ([(1, 5, 7)], {"fingerprint": "ac" * 16}),
    "phase": ([(1, 5, 7)], {"phase": 1}),
    "series": ([(1, 5, 7)], {"series": True}),
    "bits": ([(1, 5, [7, 0, 0])], {}),
}


@cases("what", CHANGED)
def test_whatever_a_report_says_makes_it_another(what):
    """Where it lies, and what it answers, does not."""
    held = ReportIndex()
    held.add(batch([(1, 5, 7)]))
    held.add(batch([(1, 5, 7)], bound=9, chunk=2, closed=3))
    assert compare(held) == Compared(1, 0, 0, 0, 0)
    rows, more = CHANGED[what]
    held.add(batch([(*row[:2], row[2]) for row in rows], **more) if what != "bits" else bits(rows))
    assert compare(held).second == 1


def bits(rows):
    made = batch([(*row[:2], 0) for row in rows])
    return Reports(
        made.ids, made.slots, np.array([row[2] for row in rows], np.uint8), 1.0, PRINT, 1, None
    )


def test_bits_are_compared_whole():
    """One bit of many is another report."""
    held = ReportIndex()
    held.add(bits([(1, 5, [1] * 40), (2, 5, [1] * 40)]))
    held.add(bits([(1, 5, [1] * 40), (2, 5, [*[1] * 39, 3])]))
    assert compare(held).second == 1
    assert held.repeats == 1


def test_no_reports_at_all():
    assert (
        compare(ReportIndex()) == compare(ReportIndex(1), ReportIndex(1)) == Compared(0, 0, 0, 0, 0)
    )


def test_a_report_takes_few_bytes():
    """24 of them, two of the partition and a flag, in memory and on disk; each where its id says,
    and nothing stays in memory that was written.
    """
    held = ReportIndex()
    for at in range(20):
        held.add(batch([(1000 * at + number, 1, number) for number in range(1000)]))
    assert held.rows().nbytes == 27 * 20_000


def test_a_report_on_disk_takes_as_few(monkeypatch, tmp_path):
    """And what waits in memory is bounded, whatever comes; either side may be the one that is too
    large.
    """
    monkeypatch.setattr(report_index, "FLUSH", 2000)
    held, small = ReportIndex(folder=tmp_path), ReportIndex(7, tmp_path)
    held.seed = small.seed
    most = 0
    for at in range(20):
        held.add(batch([(1000 * at + number, 1, number) for number in range(1000)]))
        most = max(most, sum(rows.nbytes for rows in held._rows))
    small.add(batch([(5, 1, 5), (6, 1, 7), (10**6, 1, 1)]))
    assert not small.spilled
    assert most <= 27 * 3000
    held.spill()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == 27 * 20_000
    assert compare(small, held) == Compared(3, 0, 20_000 - 2, 1, 1)
    assert compare(held, small) == Compared(20_000, 0, 1, 1, 20_000 - 2)
