"""The contract that every mechanism and method must pass; shipped, so that third parties can run it on theirs.

>>> import ldp_kafka as lk
>>> from ldp_kafka.checks import check_mechanism, check_method
>>> check_mechanism(lambda epsilon: lk.mechanism("grr", epsilon=epsilon, categories=3))
>>> check_method(lambda mechanism: lk.method("sw_direct", epsilon=1.0, window=2, domain=(0.0, 1.0), mechanism=mechanism), window=2)
"""

from __future__ import annotations

from ldp_kafka.checks.enumeration import worst_loss
from ldp_kafka.checks.failure import CheckFailure
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS, check_mechanism
from ldp_kafka.checks.method import METHOD_CHECKS, check_method

__all__ = ["MECHANISM_CHECKS", "METHOD_CHECKS", "CheckFailure", "check_mechanism", "check_method", "worst_loss"]
