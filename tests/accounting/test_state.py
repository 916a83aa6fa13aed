"""How the state of many users lies in memory, and what it holds while it grows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ldp_kafka
from ldp_kafka.accounting import Field, State
from ldp_kafka.accounting.state import LINE

FIELDS = {
    "small": Field("i4", initial=-7),
    "ring": Field("i2", 3, initial=5),
    "large": Field("i8", initial=2**40),
    "tiny": Field("u1"),
}


@pytest.mark.parametrize("steps", [[1], [64], [65], [3, 100, 1000]])
def test_rows_keep_what_they_hold_while_others_come(steps):
    """New ones begin at the initial values; what is written through a view is in the state."""
    state, users, held = State(FIELDS), np.empty((0, 2), np.uint64), {}
    rng = np.random.default_rng(1)
    for n in steps:
        new = rng.integers(0, 2**64, (n, 2), np.uint64)
        rows = state.append(new)
        users = np.concatenate([users, new])
        assert rows.tolist() == list(range(len(users) - n, len(users)))
        assert (state.digests(np.arange(len(users))) == users).all()
        for name, field in FIELDS.items():
            column = state.columns[name]
            assert column.dtype == np.dtype(field.dtype)
            assert (column[..., rows] == field.initial).all()
            written = rng.integers(0, 100, column[..., rows].shape).astype(field.dtype)
            column[..., rows] = written
            before = held.get(name, np.empty((*column.shape[:-1], 0), field.dtype))
            held[name] = np.concatenate([before, written], axis=-1)
            assert (column[..., : len(users)] == held[name]).all()
            assert (column[..., len(users) :] == field.initial).all()
    lane = state.lane(1, ["ring"])
    lane.columns["ring"][0] = 77
    assert state.columns["ring"][1, 0] == 77
    assert (lane.count, len(lane.users)) == (len(users), len(state.users))


def test_what_a_step_needs_of_a_user_lies_in_one_line():
    """Each aligned, so that nothing of 64 bytes or less lies in two."""
    state = State(FIELDS, np.zeros((100, 2), np.uint64))
    single = [state.users[:, 0], *(state.columns[name] for name in ("small", "large", "tiny"))]
    starts = [column.ctypes.data for column in single]
    assert {column.strides for column in single} == {(LINE,)}
    assert {start // LINE for start in starts} == {state.users.ctypes.data // LINE}
    assert state.users.ctypes.data % LINE == 0
    assert all(column.flags.aligned for column in single)
    assert state.columns["ring"].flags.c_contiguous


def test_no_single_value_is_taken():
    """``take`` copies an array with gaps as a whole, however few rows are asked for."""
    named = re.compile(r"columns\[[^]]*\]\.take\(")
    bad = [
        path.name
        for path in Path(ldp_kafka.__file__).parent.rglob("*.py")
        if named.search(path.read_text())
    ]
    assert not bad
