"""The matrix mechanism: its contract, what it gains, and that its intervals hold."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.delay.matrix import root
from ldp_kafka.randomness import keyed, seeded
from ldp_kafka.runtime.coverage.told import told as told_of
from tests.cases import cases
from tests.keys import KEY
from tests.methods.matrices import MATRIX_CHECKS, Sums
from tests.specimens import MATRICES

HOW = {"epsilon": 1.0, "delta": 1e-5, "domain": (0.0, 1.0)}
README = Path(lk.__file__).parent / "methods" / "README.md"


def made(**given):
    return lk.method("matrix", **HOW | given)


@cases("check", MATRIX_CHECKS)
@pytest.mark.parametrize("shape", MATRICES, ids=str)
def test_contract(shape, check):
    MATRIX_CHECKS[check](Sums(lambda **others: made(**shape | others)))


@cases("bands", (1, 2, 3, 4))
@cases("window", (1, 2, 3))
def test_no_change_of_a_window_moves_rows_further(bands, window):
    """All changes of -1, 0 and 1 are tried: the largest is the one that the noise is made for."""
    method = made(bands=bands, window=window)
    column = np.array(root(bands), object)
    norms = [
        sum(entry**2 for entry in np.convolve(column, np.array(change, object)))
        for change in product((-1, 0, 1), repeat=window)
    ]
    assert (method.moved - 1) ** 2 < max(norms) <= method.moved**2


def test_a_window_of_seven_needs_far_more_than_one_column():
    """The figures that were known before: 11.1, where one column has 1.8."""
    one, seven = (made(bands=1024, window=window).moved / 2**20 for window in (1, 7))
    assert (round(one, 1), round(seven, 1)) == (1.8, 11.1)


GAINS = [
    ({}, 1000, 8),
    ({"window": 7}, 1000, 3.5),
    ({"moving_mean": 168}, 5000, 3.5),
    ({"moving_mean": 168, "window": 7}, 5000, 1.7),
]


@cases(("given", "values", "least"), GAINS)
def test_it_gains_over_noise_on_each_value(given, values, least):
    """By the exact errors, which `test_errors_are_those_of_the_noise` compares with releases."""
    method, alone = made(**given), made(**given, bands=1)
    assert (alone.variance(values) / method.variance(values)) ** 0.5 > least


def test_it_gains_nothing_where_the_window_is_long():
    """The default is noise on each value then, and a matrix is worse."""
    given = {"window": 168, "moving_mean": 168}
    assert made(**given).bands == 1
    assert made(**given, bands=84).variance(5000) > made(**given).variance(5000)


@cases("given", [{"bands": 8}, {"bands": 16, "moving_mean": 10}, {"bands": 8, "window": 3}])
def test_errors_are_those_of_the_noise(given):
    """Of 20,000 streams in the middle of a wide domain, no release of which is held within its
    ends: standard deviations within 5 %, ten of their own (false alarms: 1e-20), and intervals
    that hold in 95 % of them, plus or minus 0.01 (1e-9).
    """
    method = made(epsilon=4.0, contribution=0.001, **given)
    streams = np.full((20_000, 60), 0.5)
    told, true = method.trace(streams, seeded(1)), told_of(method, streams, 0).T
    inside = (told.low > 0) & (told.high < true * 2)
    at = inside.all(axis=1)
    assert at[5:].all()
    ratio = (told.values - true)[at].std(axis=1) / told.standard_error[at].mean(axis=1)
    assert np.abs(ratio - 1).max() < 0.05
    held = ((told.low <= true) & (true <= told.high))[at].mean(axis=1)
    assert np.abs(held - 0.95).max() < 0.01


def test_a_slot_without_a_value_is_none_of_the_values():
    """Sums and means are of the values that came; the others are not released."""
    there = np.array([True, False, True, True, False, True])
    streams = np.arange(6.0)[None] / 10
    for given, want in (({}, [0, 0.2, 0.5, 1.0]), ({"moving_mean": 2}, [0, 0.1, 0.25, 0.4])):
        method = made(**given)
        gaps = np.where(there, streams, np.nan)
        assert told_of(method, gaps, 0)[0, there] == pytest.approx(want)
        released = method.release(streams, seeded(1), present=there[None])[0]
        assert (np.isnan(released) == ~there).all()


def test_a_keyed_stream_goes_on_where_it_was():
    """In one state, window by window, as in one call."""
    method, source = made(bands=5), keyed(KEY)
    streams = np.random.default_rng(1).random((3, 30))
    whole = method.release(streams, source, users=["a", "b", "c"], first_slot=7)
    assert np.array_equal(whole[:1], method.release(streams[:1], source, users=["a"], first_slot=7))
    assert not np.array_equal(
        whole[:, 10:], method.release(streams[:, 10:], source, users=list("abc"), first_slot=17)
    )


def test_the_table_of_the_readme():
    """Each cell is what the methods say."""
    line = r"^\| (sum of|mean of the last) ([\d,]+).*?\| (.*) \|$"
    rows = re.findall(line, README.read_text(), re.MULTILINE)
    assert len(rows) == 6
    for kind, number, cells in rows:
        values = int(number.replace(",", ""))
        own = {} if kind == "sum of" else {"moving_mean": values}
        for window, cell in zip((1, 7, 168), cells.split(" | "), strict=True):
            methods = made(window=window, **own), made(window=window, **own, bands=1)
            found = [each.variance(max(values, 20_000 * bool(own))) ** 0.5 for each in methods]
            told = [float(each.replace(",", "")) for each in cell.split(" · ")]
            assert told == pytest.approx(found, rel=0.006), (kind, number, window)


@cases(
    ("wrong", "says"),
    [
        ({"bands": 0}, "bands"),
        ({"bands": 1025}, "bands"),
        ({"moving_mean": 1025}, "moving_mean"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1e-18}, "delta"),
        ({"epsilon": 1e-7}, "epsilon"),
        ({"contribution": 2.0}, "contribution"),
        ({"calibration": "none"}, "calibration"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, says):
    with pytest.raises(ConfigurationError, match=says):
        made(**wrong)
