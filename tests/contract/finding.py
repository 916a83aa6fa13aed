"""That a fault is found by the check that is meant for it."""

from __future__ import annotations

import pytest

from ldp_kafka.checks import MECHANISM_CHECKS, CheckFailure
from ldp_kafka.checks.failure import run_all
from ldp_kafka.checks.mechanism import MechanismTrial
from ldp_kafka.checks.trial import SAMPLES
from tests.depth import depth


def find(check, checks, trial):
    """The check refuses the trial's specimen; in the long run the whole contract looks at it."""
    with pytest.raises(CheckFailure) as caught:
        run_all(depth({check: checks[check]}, checks), trial)
    assert check in caught.value.checks


def find_mechanism(check, kind, checks=MECHANISM_CHECKS):
    """The same for a mechanism, at epsilon 1; few reports do for what is algebra on its law."""
    samples = SAMPLES if check == "sampler_follows_law" else 2**14
    find(check, checks, MechanismTrial(kind, 1.0, samples))
