"""The index of users: the rows that a dict would have given, however digests collide."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.runtime.stages.users import Index, Probing

# of a digest's first half: how many of its bits say where it lies
WIDE, NARROW, NONE = 2**64 - 1, 2**5 - 1, 0


@pytest.mark.parametrize("table", [Index, Probing])
@pytest.mark.parametrize("bits", [WIDE, NARROW, NONE])
def test_what_is_entered_is_found_at_its_row(table, bits):
    """And nothing else is, among many that want the same places; while the tables grow."""
    rng = np.random.default_rng(3)
    known = rng.integers(0, 2**64, (3000 if bits == WIDE else 400, 2), np.uint64)
    known[:, 0] &= np.uint64(bits)
    strange = rng.integers(0, 2**64, (500, 2), np.uint64)
    strange[:, 0] &= np.uint64(bits)
    index, entered = table(), {}
    assert index.find(known[:0], known).tolist() == []
    for rows in np.array_split(np.arange(len(known)), 9):
        index.add(known[rows], rows, known)
        entered |= {tuple(known[row].tolist()): int(row) for row in rows}
        asked = rng.permutation(np.concatenate([known, strange]))
        expected = [entered.get(tuple(digest), -1) for digest in asked.tolist()]
        assert index.find(asked, known).tolist() == expected


def test_nobody_is_found_where_nobody_lies():
    """An empty place reads the last row, which may be the very digest that is asked for."""
    known = np.array([[1, 2]], np.uint64)
    for index in (Index(), Probing()):
        assert index.find(known, known).tolist() == [-1]


def test_few_are_looked_for_twice():
    """What the first look finds decides what a batch costs."""
    known = np.random.default_rng(4).integers(0, 2**64, (50_000, 2), np.uint64)
    index, looks = Index(), []
    index.add(known, np.arange(len(known)), known)
    later = index._others.find
    index._others.find = lambda digests, users: looks.append(len(digests)) or later(digests, users)
    assert (index.find(known, known) == np.arange(len(known))).all()
    assert looks[0] < 0.13 * len(known)
