"""A mechanism of somebody else's passes, and the contract says of each broken twin its fault."""

from __future__ import annotations

import re
from math import isfinite

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.checks import CheckFailure, check_mechanism
from ldp_kafka.checks.trial import SAMPLES
from tests.cases import cases
from tests.mechanisms.third_party import UpDownOrUnsure
from tests.mutants.finding import twins


@cases("epsilon", [0.1, 1.0, 4.0])
@cases("domain", [(10.0, 30.0), (-1e6, -1e3)])
def test_it_passes(epsilon, domain):
    """Every check, over any domain."""
    check_mechanism(lambda e: UpDownOrUnsure(e, domain), epsilon=epsilon, samples=SAMPLES)


def test_it_passes_as_it_is_called():
    """With no more than the factory: what a second allows."""
    check_mechanism(UpDownOrUnsure)


@cases("twin", [twin for twin in twins(object) if twin.of is UpDownOrUnsure])
def test_a_broken_twin_is_told_what_is_wrong(twin):
    """The check that finds it says what must hold; one line for each, no traceback of ours."""
    with pytest.raises(CheckFailure) as caught:
        check_mechanism(twin.kind, samples=SAMPLES)
    lines = dict(line.split(": ", 1) for line in str(caught.value).splitlines())
    assert tuple(lines) == caught.value.checks
    assert "must" in lines[twin.check]
    assert not any(re.match(r"\w+Error: ", line) for line in lines.values())


def test_it_runs_in_a_method():
    """On arrays, as any mechanism of ours."""
    method = lk.method(
        "sw_direct", epsilon=2.0, window=2, domain=(0.0, 1.0), mechanism=UpDownOrUnsure
    )
    assert isfinite(
        float(np.nanmean(method.release(np.full((20, 5), 0.5), lk.randomness.system())))
    )
