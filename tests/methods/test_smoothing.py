"""Moving averages are what their definition says, at the ends and around gaps too."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.smoothing import smooth
from tests.cases import cases


def slow(row, length, centred):
    """The definition, slot by slot."""
    after = length // 2 if centred else 0
    out = []
    for t in range(len(row)):
        near = [
            row[i]
            for i in range(t + after - length + 1, t + after + 1)
            if 0 <= i < len(row) and not np.isnan(row[i])
        ]
        out.append(sum(near) / len(near) if near else np.nan)
    return out


@cases("centred", [False, True])
@cases("length", [1, 3, 5, 41])
def test_the_definition(length, centred):
    """For whole and for broken streams, also where they are shorter than the average."""
    values = np.random.default_rng(length).normal(size=(4, 20))
    values[1, ::3] = values[2, 4:15] = values[3] = np.nan
    assert np.allclose(
        smooth(values, length, centred=centred),
        [slow(row, length, centred) for row in values],
        rtol=1e-13,
        atol=1e-13,
        equal_nan=True,
    )


def test_the_default_waits_for_nothing():
    """Later releases do not change earlier averages; they do where it is centred."""
    one, other = np.arange(10.0), np.append(np.arange(9.0), 99.0)
    assert (smooth(one)[:-1] == smooth(other)[:-1]).all()
    assert (smooth(one, centred=True)[:-1] != smooth(other, centred=True)[:-1]).any()


def test_one_slot_is_no_smoothing():
    """Bit for bit."""
    values = np.random.default_rng(1).normal(size=(3, 7))
    assert (smooth(values, 1) == values).all()


def test_an_empty_stream():
    """Stays one."""
    assert smooth(np.empty((2, 0))).shape == (2, 0)


@cases(
    ("length", "centred", "error"),
    [
        (0, False, ConfigurationError),
        (2, True, ConfigurationError),
        (True, False, TypeError),
        (1.5, False, TypeError),
    ],
)
def test_wrong_lengths(length, centred, error):
    """Are refused."""
    with pytest.raises(error):
        smooth([1.0, 2.0], length, centred=centred)


def test_infinities_are_refused():
    """One would spoil its neighbours."""
    with pytest.raises(ValueError, match="finite"):
        smooth([1.0, np.inf])
