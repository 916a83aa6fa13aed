"""The checks of a mechanism's reports: they follow its law, and are its outputs to the last bit."""

from __future__ import annotations

from math import frexp

import numpy as np

from ldp_kafka.checks.chisquare import FALSE_ALARM, by_place, by_weight, limit, statistic
from ldp_kafka.checks.failure import require
from ldp_kafka.checks.laws import counts
from ldp_kafka.checks.trial import SAMPLES, MechanismTrial
from ldp_kafka.mechanisms.base import CHUNK
from ldp_kafka.randomness import system

__all__ = ["reports_are_float_safe", "sampler_follows_law"]

# times that the rarest output of any probe is expected in a batch: one that only half of the inputs
# get wrong is missed once in ten million runs
OFTEN = 32


def sampler_follows_law(trial: MechanismTrial) -> None:
    """Chi-square of reports against the law, by place and by weight, for every probe; one false
    alarm in a million runs.
    """
    tests = 2 * len(trial.inputs)
    for value, law in zip(trial.inputs, trial.laws, strict=True):
        observed = trial.tally(value, law)
        expected = law.probabilities() * observed.sum()
        for bins in (by_place(expected), by_weight(expected, law.weights)):
            found, freedom = statistic(observed, expected, bins)
            require(
                found <= limit(freedom, FALSE_ALARM / tests),
                "reports must follow the law (chi-square, false-alarm rate 1e-6)",
            )


def reports_are_float_safe(trial: MechanismTrial) -> None:
    """Reports are whole multiples of a power of two, of the support's kind and shape, outputs of
    the law to the last bit and within the range that is stated; packed bits are bytes.
    """
    m = trial.mechanism
    require(frexp(float(m.scale))[0] == 0.5, "scale must be a power of two")
    outputs, width = np.asarray(trial.laws[0].support), getattr(m, "width", 0)
    (low, high), indices = m.index_range, outputs / m.scale
    require(
        low <= indices.min() and indices.max() <= high,
        "index_range must hold every output of the law, in units of scale",
    )
    if width:
        require(
            outputs.dtype == np.uint8 and outputs.shape[1:] == (width,),
            "packed bits must be uint8 (n, width)",
        )
    # an impossible one is for `law_is_exact`
    rarest = max(
        OFTEN / SAMPLES, min(float(law.probabilities().min(initial=1)) for law in trial.laws)
    )
    for n in (0, 1, CHUNK + 1, int(OFTEN / rarest)):
        reports = np.asarray(m.perturb(trial.spread(n), system()))
        require(len(reports) == n, "there must be one report for each value")
        require(
            reports.dtype.kind == outputs.dtype.kind,
            "reports must have the kind of number that the support has",
        )
        require(
            reports.shape[1:] == outputs.shape[1:],
            "reports must have the shape of the support's rows",
        )
        whole = reports / m.scale
        require(
            np.array_equal(whole, np.rint(whole)),
            "reports must be whole multiples of scale: low bits can tell inputs apart",
        )
        counts(reports, trial.laws[0])
