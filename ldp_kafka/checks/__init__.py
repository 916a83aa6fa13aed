"""The contract that every mechanism, method and device's client must pass; shipped, so that third
parties can run it on theirs.

>>> import ldp_kafka as lk
>>> from ldp_kafka.checks import check_mechanism, check_method
>>> check_mechanism(lambda epsilon: lk.mechanism("grr", epsilon=epsilon, categories=3))
>>> def direct(mechanism):
...     settings = {"epsilon": 1.0, "window": 2, "domain": (0.0, 1.0)}
...     return lk.method("sw_direct", mechanism=mechanism, **settings)
>>> check_method(direct, window=2)

A mechanism of one's own: the answers 0, 1 and 2, the true one with probability p and each other one
with p / e^epsilon, in words of 32 bits. `ldp_kafka.Mechanism` says what each member must do.

>>> from fractions import Fraction
>>> from math import exp, inf, log, nan
>>> import numpy as np
>>> from ldp_kafka.randomness import use_of
>>> class Answer:
...     categories, scale, index_range = 3, 1, (0, 2)
...
...     def __init__(self, epsilon):
...         number = isinstance(epsilon, int | float) and not isinstance(epsilon, bool)
...         if not (number and 0 < epsilon < inf):
...             raise ValueError("epsilon must be a positive finite number")
...         self.epsilon = epsilon
...         # rounded up: the ratio stays below e^epsilon
...         self.lie = int(2**32 / (exp(min(epsilon, 20)) + 2)) + 1
...         self.truth = 2**32 - 2 * self.lie
...
...     def perturb(self, values, randomness):
...         codes = self.codes(values)
...         use = use_of("answer", self.epsilon, self.tables())
...         word = randomness.within(use).words(len(codes), 1)[:, 0]
...         # 0 and 1 lie, 2 tells the truth
...         away = (word >= self.lie).astype(np.int64) + (word >= 2 * self.lie)
...         return (codes + 1 + away) % 3
...
...     def codes(self, values):
...         codes = np.asarray(values)
...         if codes.dtype.kind not in "iu" or not np.isin(codes, (0, 1, 2)).all():
...             raise ValueError("answers must be 0, 1 or 2")
...         return codes.astype(np.int64)
...
...     def law(self, value):
...         (code,) = self.codes([value])
...         weights = [self.truth if answer == code else self.lie for answer in range(3)]
...         return lk.Law(np.arange(3), weights, 2**32)
...
...     def certificate(self):
...         ratio = Fraction(self.truth, self.lie)
...         return lk.Certificate(ratio, log(ratio))
...
...     def support(self, reports):
...         counts = np.bincount(reports, minlength=3)
...         return np.concatenate([[len(reports)], counts]).astype(np.int64)
...
...     def estimate(self, reports, *, population=False):
...         return self.estimate_support(self.support(reports), population=population)
...
...     def estimate_support(self, support, *, population=False):
...         n = int(support[0])
...         if n == 0:
...             return lk.Estimate(np.full(3, nan), np.full(3, inf), 0)
...         p, q, seen = self.truth / 2**32, self.lie / 2**32, support[1:] / n
...         value = (seen - q) / (p - q)
...         noise = value * p * (1 - p) + (1 - value) * q * (1 - q)
...         variance = seen * (1 - seen) if population else noise
...         return lk.Estimate(value, np.sqrt(variance.clip(min=0) / n) / (p - q), n)
...
...     def tables(self):
...         return (self.truth, self.lie)
>>> check_mechanism(Answer)
"""

from __future__ import annotations

from ldp_kafka.checks.client import CLIENT_CHECKS, check_client
from ldp_kafka.checks.enumeration import worst_loss
from ldp_kafka.checks.failure import CheckFailure
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS, check_mechanism
from ldp_kafka.checks.methods import METHOD_CHECKS, check_method

__all__ = [
    "CLIENT_CHECKS",
    "MECHANISM_CHECKS",
    "METHOD_CHECKS",
    "CheckFailure",
    "check_client",
    "check_mechanism",
    "check_method",
    "worst_loss",
]
