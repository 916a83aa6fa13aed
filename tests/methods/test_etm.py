"""ETM: the exact loss of values that change places, and twins that must be found."""

from __future__ import annotations

from itertools import permutations
from math import inf

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure
from ldp_kafka.methods import Threshold
from ldp_kafka.methods.base import Step
from tests.cases import cases
from tests.methods.timed import CHECKS, exact_law, loss, tiny, trial_of, within

WINDOWS = (1, 2, 3, 4)
BASE = np.array([0.1, 0.4, 0.9, 0.2, 0.6, 0.8])  # two blocks of three slots


def neighbours(window):
    """Streams with the same values in each block, in another order that differs from `BASE` in one
    run of ``window`` slots.
    """
    for first in permutations(range(3)):
        for second in permutations(range(3, 6)):
            order = np.array(first + second)
            where = np.flatnonzero(order != np.arange(6))
            if len(where) and where[-1] - where[0] < window:
                yield BASE[order]


def worst(kind, window, **parameters):
    """Largest exact loss between `BASE` and its neighbours."""
    base = exact_law(tiny(kind, window, delay=2, **parameters), BASE, 6)
    return max(
        (
            loss(base, exact_law(tiny(kind, window, delay=2, **parameters), other, 6))
            for other in neighbours(window)
        ),
        default=0.0,
    )


@cases("window", WINDOWS)
def test_sound_loss_is_within_epsilon(window):
    """Whatever changes places in its block within one run of slots. Ranks tell less than the places
    behind them: at k = 3 a half to two thirds of epsilon is reached.
    """
    most = worst("etm", window)
    assert most <= 1 + 1e-9
    assert most >= {1: 0, 2: 0.49, 3: 0.66, 4: 0.49}[window]  # one value alone cannot change places


def test_published_has_no_guarantee_and_says_so():
    """A value that goes out before the other comes cannot have been the other."""
    one, other = (
        exact_law(tiny("etm", 2, delay=2, threshold=2, calibration="published"), stream, 2)
        for stream in ([0.1, 0.4], [0.4, 0.1])
    )
    assert loss(one, other) == inf
    guarantee = tiny("etm", 2, delay=2, calibration="published").guarantee
    assert guarantee.epsilon == inf
    assert "NONE" in guarantee.describe()


def test_nothing_is_promised_across_blocks():
    """As documented: a value moved into the next block is told apart; no bounded delay can hide
    that.
    """
    moved = BASE[[0, 1, 3, 2, 4, 5]]
    assert (
        loss(
            exact_law(tiny("etm", 2, delay=2), BASE, 6),
            exact_law(tiny("etm", 2, delay=2), moved, 6),
        )
        == inf
    )
    guarantee = tiny("etm", 2, delay=2).guarantee
    assert (
        "among the 3 slots of its block (slot // 3), not across blocks" in guarantee.describe()
    ), "nor is anything printed that promises it"
    assert guarantee.as_json()["within"] == guarantee.within


@pytest.mark.parametrize("window", [2, 5])
def test_sound_publishes_every_value_of_a_block_once(window):
    """Nothing missing, repeated or empty: the costs that the paper counts are delays only."""
    streams = np.random.default_rng(1).integers(0, 2**20, (50, 12)) / 2**20
    got = lk.method("etm", epsilon=1.0, window=window, delay=3, domain=(0.0, 1.0)).release(
        streams, lk.randomness.seeded(2)
    )
    assert np.array_equal(
        np.sort(got.reshape(50, 3, 4), axis=2), np.sort(streams.reshape(50, 3, 4), axis=2)
    )
    assert not np.array_equal(got, streams)


def test_a_large_epsilon_keeps_the_order():
    """And with it the stream."""
    stream = np.arange(12) / 16
    assert (
        lk.method("etm", epsilon=60.0, window=2, delay=3, domain=(0.0, 1.0))
        .release(stream, lk.randomness.seeded(2))
        .tolist()
        == stream.tolist()
    )


def test_published_fills_the_present_slot_where_few_are_empty():
    """A slot is left empty only where more than ``threshold`` are: the higher it is, the fewer."""
    streams = np.random.default_rng(1).random((400, 40))
    share = {}
    for threshold in (2, 3):
        got = lk.method(
            "etm",
            epsilon=1.0,
            window=4,
            delay=3,
            threshold=threshold,
            domain=(0.0, 1.0),
            calibration="published",
        ).release(streams, lk.randomness.seeded(2))
        share[threshold] = np.isnan(got[:, 4:]).mean()
    assert share[3] < share[2]


def test_published_publishes_no_value_twice_or_early():
    """Each release is a value of one of the last k slots, and each value is released
    once at most.
    """
    streams = np.arange(1, 801).reshape(20, 40) / 1024
    got = lk.method(
        "etm", epsilon=1.0, window=4, delay=3, domain=(0.0, 1.0), calibration="published"
    ).release(streams, lk.randomness.seeded(2))
    for user, row in enumerate(got):
        slots = np.flatnonzero(~np.isnan(row))
        origin = np.rint(row[slots] * 1024).astype(int) - 1 - 40 * user
        assert ((origin <= slots) & (origin > slots - 4)).all()
        assert len(set(origin)) == len(origin)


@cases(("parameters", "error"), [
    ({"delay": 0}, lk.ConfigurationError),
    ({"delay": 256}, lk.ConfigurationError),
    ({"delay": True}, TypeError),
    ({"delay": 3, "threshold": 4}, lk.ConfigurationError),
    ({"delay": 3, "threshold": 0}, lk.ConfigurationError),
    ({"delay": 3, "threshold": 1}, lk.ConfigurationError),
    ({"delay": 1, "calibration": "published"}, lk.ConfigurationError),
    ({"epsilon": float("nan")}, lk.ConfigurationError),
])  # fmt: skip
def test_parameters_are_guarded(parameters, error):
    """Out of range, or of another type."""
    with pytest.raises(error):
        lk.method("etm", **{"epsilon": 1.0, "window": 4, "domain": (0.0, 1.0)} | parameters)


@pytest.mark.parametrize("check", CHECKS)
@cases("calibration", ["sound", "published"])
@cases("window", WINDOWS)
def test_contract(check, window, calibration):
    """One check on one specimen. The published calibration keeps no budget over a window: its
    ledger is of single slots.
    """
    CHECKS[check](trial_of("etm", window, delay=2, calibration=calibration))


# --- broken twins


class TiesInOrderOfTime(Threshold):
    def _permuted(self, state, rows, block, allowed):
        columns = state.columns
        order = np.argsort(columns["places"][:, rows], axis=0, kind="stable")
        kept = {name: columns[name].copy() for name in ("values", "places")}
        columns["values"][:, rows] = np.take_along_axis(columns["values"][:, rows], order, 0)
        columns["places"][:, rows] = np.arange(len(block))[:, None]
        step = super()._permuted(state, rows, block, allowed)
        columns.update(kept)
        return step


class WholeBudgetAValue(Threshold):
    run = 1

    def _shares(self):
        return 1


class KeepsItsPlaces(Threshold):
    def draw(self, state, batch, inputs, bound, phase=0):
        super().draw(state, batch, inputs, bound, phase)
        return inputs


class TellsThePlaceInLowBits(Threshold):
    def step(self, state, batch):
        values = batch.values // 2**14 * 2**14 + (batch.slot % self.length << 12)
        return super().step(state, batch._replace(values=values))


class SwapsOnlySmallValues(Threshold):
    def draw(self, state, batch, inputs, bound, phase=0):
        drawn = super().draw(state, batch, inputs, bound, phase)
        return np.where(self._seen > 2**31, inputs, drawn)

    def step(self, state, batch):
        self._seen = batch.values
        return super().step(state, batch)


class OneDrawForAllSlots(Threshold):
    def draw(self, state, batch, inputs, bound, phase=0):
        return super().draw(state, batch._replace(slot=0), np.zeros_like(inputs), (), phase)


class DrawsBeforeItAsks(Threshold):
    def step(self, state, batch):
        self.draw(state, batch, np.zeros(len(batch.rows), np.int64), (), 1)
        return super().step(state, batch)


class SortsAcrossUsers(Threshold):
    def _permuted(self, state, rows, block, allowed):
        step = super()._permuted(state, rows, block, allowed)
        return Step(np.sort(step.answers, axis=0), step.status, step.slots)


LOSE = [
    TiesInOrderOfTime,
    WholeBudgetAValue,
    KeepsItsPlaces,
    TellsThePlaceInLowBits,
    SwapsOnlySmallValues,
]
FAIL = {
    OneDrawForAllSlots: "noise_is_keyed",
    DrawsBeforeItAsks: "ledger_holds",
    SortsAcrossUsers: "release_is_step",
}


@cases("kind", LOSE)
def test_twin_that_loses_more_is_found(kind):
    """The exact loss of an exchange says it."""
    with pytest.raises(CheckFailure, match="exact loss"):
        within(worst(kind, 3), 1.0)


@pytest.mark.parametrize("kind", FAIL, ids=lambda kind: kind.__name__)
def test_twin_is_found(kind):
    """By the check that is there for it."""
    with pytest.raises(CheckFailure):
        CHECKS[FAIL[kind]](trial_of(kind, 2, delay=2))
