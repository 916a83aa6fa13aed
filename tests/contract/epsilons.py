"""The contract of mechanisms at many epsilons."""

from __future__ import annotations

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
}
BETWEEN = depth(frozenset({0.05, 0.1, 0.5, 2.0, 4.0}), frozenset())


def checks_at(epsilon, checks=MECHANISM_CHECKS):
    """Those of the contract that look at this epsilon."""
    return {
        name: check
        for name, check in checks.items()
        if epsilon not in BETWEEN or name in OF_EPSILON
    }
