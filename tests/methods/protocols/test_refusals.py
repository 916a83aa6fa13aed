"""What the protocols refuse, and what they say: never a value."""

from __future__ import annotations

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks.sources import KEY
from tests.cases import cases
from tests.methods.protocols.streams import made, mean_of, stepping


@cases(
    "parameters",
    [
        {"epsilon": 0.0},
        {"epsilon": np.nan},
        {"epsilon": True},
        {"epsilon": 3000.0},
        {"epsilon": 1e-6, "window": 5},
        {"window": 0},
        {"window": 2.5},
        {"window": 2**17},
        {"categories": 1},
        {"categories": None},
        {"domain": (0.0, 1.0)},
        {"categories": None, "domain": (1.0, 0.0)},
        {"oracle": "nothing"},
        {"oracle": "gaussian"},
        {"oracle": "square_wave"},
        {"oracle": 3},
    ],
)
def test_parameters_that_cannot_be_run_are_refused(parameters):
    with pytest.raises((lk.errors.ConfigurationError, TypeError)):
        made("lba", **parameters)


def test_unknown_names_are_told_with_the_known_ones():
    with pytest.raises(lk.errors.ConfigurationError, match="unknown protocol 'lpz'; known: lba"):
        made("lpz")
    with pytest.raises(lk.errors.ConfigurationError, match="unknown oracle 'gr'"):
        made("lpa", oracle="gr")


def test_an_oracle_of_somebody_elses_is_enough_where_nothing_is_weighed():
    """A protocol that adapts needs its variance."""

    class Bare:
        def __init__(self, epsilon, of):
            self._made = lk.mechanism("grr", epsilon=epsilon, categories=of)
            self.epsilon, self.scale, self.width = epsilon, 1, 0

        def __getattr__(self, name):
            if name in ("variance", "certificate"):
                raise AttributeError(name)
            return getattr(self._made, name)

    assert made("lpu", oracle=Bare).run(stepping(), lk.randomness.seeded(1)).values.shape[1] == 3
    with pytest.raises(lk.errors.ConfigurationError, match="variance"):
        made("lpa", oracle=Bare)


@cases(
    ("streams", "error"),
    [
        (np.full((3, 3), 7), ValueError),
        (np.full((3, 3), -2), ValueError),
        (np.zeros((3, 3)), TypeError),
        (np.zeros(3, int), ValueError),
        (np.zeros((3, 3, 1), int), ValueError),
        ([["a"]], TypeError),
    ],
)
def test_streams_that_are_none_are_refused(streams, error):
    with pytest.raises(error) as caught:
        made("lpa").run(streams, lk.randomness.seeded(1))
    assert "7" not in str(caught.value)


def test_an_oracle_must_be_purely_private():
    """Composition over a window is of epsilons alone."""

    def gaussian(epsilon, domain):
        return lk.mechanism("gaussian", epsilon=epsilon, delta=1e-5, domain=domain)

    with pytest.raises(lk.errors.ConfigurationError, match="delta above 0"):
        mean_of("lpu", oracle=gaussian)


def test_numbers_must_be_finite_or_missing():
    with pytest.raises(ValueError, match="finite"):
        mean_of("lpa").run(np.array([[np.inf]]), lk.randomness.seeded(1))
    with pytest.raises(TypeError):
        mean_of("lpa").run(np.array([["x"]]), lk.randomness.seeded(1))


def test_keyed_noise_needs_its_contexts():
    protocol, source = made("lpa"), lk.randomness.keyed(KEY)
    x = stepping(3, 4)
    for given in ({}, {"users": ["a", "b", "c"]}, {"first_slot": 0}):
        with pytest.raises(ValueError, match="users= and first_slot="):
            protocol.run(x, source, **given)
    with pytest.raises(ValueError, match="distinct"):
        protocol.run(x, source, users=["a", "a", "b"], first_slot=0)
    with pytest.raises(ValueError, match="distinct"):
        protocol.run(x, source, users=["a", "b"], first_slot=0)
