"""The contract of mechanisms: what looks at which epsilon, and at which mechanism."""

from __future__ import annotations

import numpy as np

from ldp_kafka.checks import CheckFailure
from ldp_kafka.checks.laws import variance
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS
from tests.depth import depth

EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
# what epsilon decides, number by number; it is exact. The others, and the draws, whose words have
# exact tests of their own, look at the ends and the middle; at all of them in the long run
OF_EPSILON = {
    "law_is_exact",
    "certificate_is_true",
    "estimator_is_unbiased",
    "error_is_stated",
    "error_is_never_too_small",
}
BETWEEN = depth(frozenset({0.05, 0.1, 0.5, 2.0, 4.0}), frozenset())


def checks_at(epsilon, checks=MECHANISM_CHECKS):
    """Those of the contract that look at this epsilon."""
    return {
        name: check
        for name, check in checks.items()
        if epsilon not in BETWEEN or name in OF_EPSILON
    }


def error_is_never_too_small(trial):
    """What holds where reports do not tell how far values lie apart, or the grid is coarse: exact
    or above, and a population's exact.
    """
    m = trial.mechanism
    n = trial.precise
    for i in range(len(trial.inputs)):
        for j in dict.fromkeys((i, 0)):
            mixed = np.array(
                [
                    round((a + b) / 2 * n)
                    for a, b in zip(trial.mean_supports[i], trial.mean_supports[j], strict=True)
                ],
                np.int64,
            )
            noise = (
                variance(trial.laws[i].probabilities(), trial.singles)
                + variance(trial.laws[j].probabilities(), trial.singles)
            ) / 2
            total = variance(
                (trial.laws[i].probabilities() + trial.laws[j].probabilities()) / 2, trial.singles
            )
            found = [m.estimate_support(mixed, population=p) for p in (False, True)]
            stated, of_all = (each.square * n for each in found)
            step = (m.domain[1] - m.domain[0]) / getattr(m, "steps", 2**20)
            if not (
                noise[0] * 0.998 <= stated <= max(total[0], noise[0] + step**2 / 2) * 1.002
                and abs(of_all - total[0]) <= 2e-3 * total[0]
            ):
                raise CheckFailure(
                    "the standard error must not be below the one that follows from the law"
                )


def checks_of(mechanism, *, coarse=False):
    """The contract, as it can hold for this mechanism."""
    if coarse:
        return {**MECHANISM_CHECKS, "error_is_stated": error_is_never_too_small}
    if getattr(mechanism, "hides_spread", False):
        return {**MECHANISM_CHECKS, "error_is_never_too_small": error_is_never_too_small}
    return MECHANISM_CHECKS
