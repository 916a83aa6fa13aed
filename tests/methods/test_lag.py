"""A method whose reports may be asked for later: its ledger can be charged back."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods import BudgetSplit, Direct
from ldp_kafka.methods.batch import Batch

PARTS = {Direct: {}, BudgetSplit: {"dimension": 2}}


def made(kind, lag=0):
    """The method, with a lag of its own."""

    def factory(epsilon, domain):
        return lk.mechanism("square_wave", epsilon=epsilon, domain=domain)

    lagging = type("Lagging", (kind,), {"lag": lag})
    return lagging(epsilon=1.0, window=3, domain=(0.0, 1.0), mechanism=factory, **PARTS[kind])


@pytest.mark.parametrize("kind", PARTS)
def test_a_lag_is_in_the_fingerprint_and_in_the_state(kind):
    """And where there is none it is in neither."""
    plain, late = made(kind), made(kind, 2)
    assert plain.fields["ring"].length == 3
    assert late.fields["ring"].length == 5
    assert len(late.tables()) == len(plain.tables()) + 1
    assert late.tables() != made(kind, 3).tables()


def test_its_step_leaves_room_for_what_comes_late():
    """A report of a slot that is over, in a budget that the later slots have left."""
    method, source = made(Direct, 2), lk.randomness.seeded(1)
    state = method.state(source.digests(["a"]))
    row = np.zeros(1, np.intp)
    for slot in (4, 6):
        method.step(state, Batch(row, slot, method.bound(np.array([0.5])), source))
    charged = [
        bool(method.ledger.charge(state, row, slot, method.cost)[0]) for slot in (3, 5, 5, 4, 6)
    ]
    assert charged == [False, True, False, False, False]
    assert int(state.columns["last"][0]) == 6, "the last event is another matter"
