"""What the contract does not say of BA-SW: its reports have several prices."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods.base import REFUSED, SENT
from ldp_kafka.methods.batch import Batch
from tests.cases import cases

UNIT = (0.0, 1.0)


@pytest.fixture(params=[1, 2, 3, 7])
def method(request):
    return lk.method("ba_sw", epsilon=1.0, window=request.param, domain=UNIT)


def stepped(method, streams, present):
    """Status (users, slots), and the units of each report, 0 elsewhere."""
    users, slots = streams.shape
    source = lk.randomness.seeded(5)
    state = method.state(source.digests([str(i) for i in range(users)]))
    status, units = np.full((users, slots), -1), np.zeros((users, slots), int)
    for t in range(slots):
        rows = np.flatnonzero(present[:, t])
        step = method.step(state, Batch(rows, t, method.bound(streams[rows, t]), source))
        status[rows, t] = step.status
        sent = rows[step.status == SENT]
        units[sent, t] = state.columns["units"][sent]
        assert (method.ledger.largest(state)) <= method.ledger.budget
    return status, units


def test_absorbed_units_of_a_window_never_exceed_it(method):
    """The lemma of the proof, in the method as it runs; absent slots only leave more."""
    generator = np.random.default_rng(2)
    streams = np.repeat(generator.random((300, 20)) > 0.5, 4, axis=1) * 1.0
    for share in (1.0, 0.7, 0.2):
        status, units = stepped(method, streams, generator.random(streams.shape) < share)
        held = np.cumsum(np.pad(units, ((0, 0), (method.window, 0))), axis=1)
        assert (held[:, method.window :] - held[:, : -method.window] <= method.window).all()
        assert not (status == REFUSED).any(), "its own plan fits its budget"
        assert (status == SENT).any()
        assert method.window == 1 or units.max() > 1, "budget is absorbed at all"


def test_what_does_not_change_is_reported_less_often():
    """At a budget where the test means something."""
    method = lk.method("ba_sw", epsilon=200.0, window=5, domain=UNIT)
    still, moving = np.full((200, 60), 0.8), np.tile([0.0, 1.0], (200, 30))
    whole = np.ones((200, 60), bool)
    sent = [np.mean(stepped(method, streams, whole)[0] == SENT) for streams in (still, moving)]
    assert sent[0] < 0.75 * sent[1]


def test_a_report_stands_until_the_next():
    """And the domain's midpoint before the first one."""
    method = lk.method("ba_sw", epsilon=5.0, window=4, domain=(-2.0, 6.0))
    streams = np.random.default_rng(3).uniform(-2, 6, (50, 40))
    released = method.release(streams, lk.randomness.seeded(5))
    state = method.state(lk.randomness.seeded(5).digests([str(i) for i in range(50)]))
    expected, source = np.full(50, 2.0), lk.randomness.seeded(5)
    for t in range(40):
        step = method.step(state, Batch(np.arange(50), t, method.bound(streams[:, t]), source))
        expected = np.where(step.status == SENT, method.released(step.answers), expected)
        assert np.array_equal(released[:, t], expected)


def test_one_context_has_one_mechanism():
    """A word that serves reports of one value with several budgets, in runs whose pasts differ,
    would tell more than either.
    """
    contexts, noted = [], {}

    class Noting:
        repeats = True

        def within(self, context):
            return self

        def at(self, users, slot, phase, bound):
            contexts[:] = [
                (tuple(user), slot, phase, tuple(row))
                for user, row in zip(users.tolist(), bound.tolist(), strict=True)
            ]
            return source.at(users, slot, phase, bound)

    def make(epsilon, domain):
        noting, plain = (
            lk.mechanism("square_wave", epsilon=epsilon, domain=domain) for _ in range(2)
        )

        def note(values, randomness):
            for context in contexts:
                noted.setdefault(context, set()).add(epsilon)
            return plain.perturb(values, randomness)

        noting.perturb = note
        return noting

    method, source = (
        lk.method("ba_sw", epsilon=40.0, window=5, domain=UNIT, mechanism=make),
        lk.randomness.seeded(5),
    )
    for past in (0.1, 0.9):
        state, values = (
            method.state(source.digests([str(i) for i in range(200)])),
            method.bound(np.full(200, 0.9)),
        )
        for slot in range(12):
            method.step(
                state,
                Batch(
                    np.arange(200),
                    slot,
                    method.bound(np.full(200, past)) if slot < 6 else values,
                    Noting(),
                ),
            )
    assert all(len(budgets) == 1 for budgets in noted.values())
    reported = [(user, slot, bound[0]) for user, slot, phase, bound in noted if phase == 1]
    assert len(reported) > len(set(reported)), "the same value was reported with several budgets"


@cases("name", ["laplace", "duchi", "piecewise", "hybrid"])
def test_reports_of_any_units_are_on_one_grid(name):
    """So that one integer carries each of them."""
    method = lk.method("ba_sw", epsilon=2.0, window=6, domain=UNIT, mechanism=name)
    source = lk.randomness.seeded(6)
    state = method.state(source.digests([str(i) for i in range(400)]))
    low, high = method.index_range
    for t in range(12):
        step = method.step(
            state,
            Batch(np.arange(400), t, method.bound(np.random.default_rng(t).random(400)), source),
        )
        index = step.answers / method.scale
        assert np.array_equal(index, np.rint(index))
        assert index.min() >= low
        assert index.max() <= high


def test_a_window_longer_than_its_mechanisms_is_refused():
    with pytest.raises(ValueError, match="1024"):
        lk.method("ba_sw", epsilon=1.0, window=1025, domain=UNIT)


@cases("mechanism", ["square_wave", "duchi", "piecewise"])
@cases("unit", [1.5, 4.0, 8.0])
def test_an_interval_holds_whatever_was_absorbed(mechanism, unit):
    """By the exact law of a report of each number of units, which no report says."""
    method = lk.method("ba_sw", epsilon=6 * unit, window=3, domain=UNIT, mechanism=mechanism)
    for each in method._by_units:
        for value in (0.0, 0.013, 0.317, 0.5, 0.999, 1.0):
            law = Law.of(each.law(value))
            low, high = method.single_limits(np.asarray(law.support, np.float64))
            held = (low <= value + 1e-12) & (value - 1e-12 <= high)
            assert law.probabilities()[held].sum() >= 0.9499
