"""PeGaSus on one's own stream: the groups, and what `published` truly loses."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.methods import METHOD_CHECKS
from ldp_kafka.mechanisms.base import Law
from ldp_kafka.methods import PegasusLocal
from tests.cases import cases

WINDOWS = (1, 2, 3)


def maker(kind, window, **parameters):
    """mechanism factory -> method."""
    shape = {"epsilon": 1.0, "domain": (0.0, 1.0), "block": 2, "theta": 0.4} | parameters
    return lambda mechanism: kind(mechanism=mechanism, window=window, **shape)


class _Exact:
    """A mechanism that says its input."""

    scale, width, index_range = 2.0**-32, 0, (0, 2**32)

    def __init__(self, epsilon, domain):
        self.epsilon, self.domain = epsilon, domain

    def perturb(self, values, randomness):
        return np.asarray(values, float)

    def law(self, value):
        return Law(np.array([0.5]), [1], 1)  # or no method would take it

    def tables(self):
        return ()


def textbook(stream, theta, block, window=1):
    """Perturb, group, smooth, without noise, one value at a time."""
    group, opened, out = [], False, []
    for t, x in enumerate(stream):
        if t % block == 0:
            group, opened = [], False
        if group and opened and np.abs(np.array([*group, x]) - np.mean([*group, x])).sum() < theta:
            group = [*group, x]
        else:
            opened = not (group and opened)  # a failed test closes both groups
            group = [x]
        out.append(np.mean(group))
    return np.array(out)


@cases("block", [1, 2, 5, 12])
@cases("theta", [0.1, 0.3, 1.0])
@cases("calibration", ["sound", "published"])
def test_groups_are_the_paper_s(calibration, theta, block):
    """Without noise, against a plain reading of the paper."""
    rng = np.random.default_rng(block)
    streams = np.repeat(rng.random((40, 6)), 4, axis=1) + 0.02 * rng.random((40, 24))
    method = maker(PegasusLocal, 3, theta=theta, block=block, calibration=calibration)(_Exact)
    got = method.release(np.clip(streams, 0, 1), lk.randomness.seeded(1))
    want = np.array([textbook(np.clip(row, 0, 1), method.theta, block) for row in streams])
    assert np.abs(got - want).max() < 1e-5
    # some groups are larger than one
    assert block == 1 or np.abs(got - np.clip(streams, 0, 1)).max() > 0.005


def test_a_calm_stream_is_smoothed():
    """On a constant the mean of a group is nearer than its last value; with a hair's threshold
    there are no groups.
    """
    stream = 0.5 + 0.01 * np.tile([-1.0, 1.0], (300, 12))
    error = {}
    for theta in (2**-16, 4.0):
        method = lk.method(
            "pegasus_local", epsilon=200.0, window=2, block=8, theta=theta, domain=(0.0, 1.0)
        )
        error[theta] = float(((method.release(stream, lk.randomness.seeded(1)) - 0.5) ** 2).mean())
    assert error[4.0] < 0.6 * error[2**-16]


@pytest.mark.parametrize("window", WINDOWS)
def test_published_loses_what_it_states(window):
    """Its guarantee is of the draws that it makes: never exceeded, and another one than the paper's
    epsilon.
    """
    trial = MethodTrial(
        maker(PegasusLocal, window, calibration="published", theta=8.0, epsilon=5.0),
        window,
        length=3,
        draws=6,
    )
    stated = trial.small.guarantee
    assert trial.worst <= stated.epsilon + 1e-9
    assert stated.epsilon == pytest.approx(4 + trial.small._tests * 8 / 4 / window, abs=1e-4)
    for check in ("guarantee_is_true", "influence_is_true", "one_context_one_input"):
        METHOD_CHECKS[check](trial)


@pytest.mark.parametrize("window", WINDOWS)
def test_the_guarantee_of_a_window_and_its_block(window):
    """The budget is spent on what a window reaches: four fifths on its values, one on the tests, of
    which none is in the first slot of a block.
    """
    method = maker(PegasusLocal, window, block=3)(lk.MECHANISMS["laplace"])
    # slots 0; 2 and 3; 1, 2 and 3, or 0, 1 and 2 of blocks 0-2, 3-5
    tests = {1: 2, 2: 3, 3: 4}[window]
    assert method.guarantee.influence == window + tests
    assert 1 - 1e-4 <= window * method.mechanism.epsilon + tests * method.test.epsilon <= 1
    assert window * method.mechanism.epsilon == pytest.approx(0.8, abs=1e-4)


@cases("block", range(1, 9))
@cases("window", range(1, 9))
def test_the_tests_that_a_window_reaches_are_counted(window, block):
    """By listing them."""
    listed = 0
    for first in range(block, 2 * block):
        last = (first + window - 1) // block * block + block - 1
        listed = max(listed, sum(slot % block != 0 for slot in range(first, last + 1)))
    assert maker(PegasusLocal, window, block=block)(lk.MECHANISMS["laplace"])._tests == listed


@cases(("parameters", "error"), [
    ({"block": 0}, lk.ConfigurationError),
    ({"block": 257}, lk.ConfigurationError),
    ({"theta": 0.0}, lk.ConfigurationError),
    ({"theta": float("nan")}, lk.ConfigurationError),
    ({"theta": True}, TypeError),
    ({"epsilon": -1.0}, lk.ConfigurationError),
    ({"window": 0}, lk.ConfigurationError),
])  # fmt: skip
def test_parameters_are_guarded(parameters, error):
    """Out of range, or of another type."""
    with pytest.raises(error):
        lk.method(
            "pegasus_local", **{"epsilon": 1.0, "window": 4, "domain": (0.0, 1.0)} | parameters
        )


@cases(("window", "block"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (1, 3)])
def test_the_budget_is_spent_to_the_last_micro(window, block):
    """The guarantee is not only kept but tight, with as many slots as a window and its
    block have.
    """
    assert (
        1 - 1e-5
        <= MethodTrial(maker(PegasusLocal, window, block=block), window, length=4, draws=7).worst
        <= 1 + 1e-9
    )
