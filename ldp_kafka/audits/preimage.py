"""Which float64 reports a textbook formula can produce at all (Mironov, CCS 2012; Haney et al.,
"Precision-based attacks and interval refining", 2022; Casacuberta et al., CCS 2022).

A sampler turns a uniform u = k / 2**53 into a report by rounded float operations. Its possible
reports are 2**53 floats at most, and others for another input: one report that the other input
cannot produce shows the input, whatever epsilon was meant to be. Each operation is monotone, so a
report is looked up by bisection over k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.result import AuditResult, Hits

__all__ = ["UNIFORMS", "Part", "Reach", "preimage_attack", "reach_of"]

UNIFORMS = 2**53  # what numpy's generators and Python's random() draw from, in units of its inverse
_AROUND = 8  # k on either side: a logarithm need not be monotone in its last bit

Reach = Callable[[NDArray[np.float64], float], NDArray[np.bool_]]
"""Whether each report can come from a value."""


class Part(NamedTuple):
    """One branch of a formula: a monotone function of u = k / 2**53 for k in low..high."""

    report: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    low: int = 0
    high: int = UNIFORMS - 1


def reach_of(parts: Callable[[float], Sequence[Part]]) -> Reach:
    """Whether some u gives a report: for the parts that a formula has at a value.

    Examples
    --------
    >>> reach = reach_of(lambda x: [Part(lambda u: x + 3 * u)])  # steps of 3 / 2**53
    >>> reach(np.array([0.0, 3 / 2**53, 1 / 2**53, 4.0]), 0.0).tolist()
    [True, True, False, False]
    """

    def reach(reports: NDArray[np.float64], value: float) -> NDArray[np.bool_]:
        found = np.asarray(reports, np.float64)
        hit = np.zeros(found.shape, bool)
        for part in parts(value):
            if part.low <= part.high:
                hit |= _hits(part, found)
        return hit

    return reach


def _hits(part: Part, reports: NDArray[np.float64]) -> NDArray[np.bool_]:
    def at(k: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(part.report(k / UNIFORMS))  # exact: k has 53 bits

    low, high = (
        np.full(reports.shape, part.low, np.int64),
        np.full(reports.shape, part.high, np.int64),
    )
    rising = at(high[:1])[0] >= at(low[:1])[0] if len(reports) else True
    # the first k whose report is at least (or, falling, at most) the one looked for
    for _ in range(UNIFORMS.bit_length()):
        middle = (low + high) // 2
        there = at(middle)
        enough = there >= reports if rising else there <= reports
        low, high = (
            np.where(enough, low, np.minimum(middle + 1, part.high)),
            np.where(enough, middle, high),
        )
    hit = np.zeros(reports.shape, bool)
    for step in range(-_AROUND, _AROUND + 1):
        hit |= at(np.clip(low + step, part.low, part.high)) == reports
    return hit


def preimage_attack(
    first: Any, second: Any, x0: float, x1: float, reach: Reach, *, claimed: float | None = None
) -> AuditResult:
    """Look for reports of one input that the other cannot produce: one is enough for an infinite
    epsilon, without any statistics.

    Parameters
    ----------
    first, second : float64 reports (n,) of the inputs ``x0`` and ``x1``; a few hundred do
    reach : the formula, such as `ldp_kafka.audits.FORMULAS` has
    claimed : the epsilon that is promised, for the verdict

    Raises
    ------
    ValueError : the formula does not produce the reports of their own inputs: it is another
        sampler's

    Notes
    -----
    The finding is exact for a sampler that computes this very formula in IEEE 754 double precision;
    that every report can be traced to its own input is checked first.

    Examples
    --------
    >>> from ldp_kafka.audits import FORMULAS
    >>> noise = np.random.default_rng(7).laplace(0, 1, (2, 500))
    >>> formula = FORMULAS["additive"](1.0, (0.0, 1.0))
    >>> preimage_attack(noise[0], 1.0 + noise[1], 0.0, 1.0, formula, claimed=1.0).verdict
    'epsilon is infinite, for certain (claimed 1): VIOLATED'
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not (a.ndim == b.ndim == 1 and len(a) and len(b)):
        raise ValueError("a preimage attack needs one number a report, and reports of both inputs")
    if not (reach(a, x0).all() and reach(b, x1).all()):
        raise ValueError(
            "the formula is not this sampler's: it cannot produce these reports from their own"
            " inputs"
        )
    strange_a, strange_b = int((~reach(a, x1)).sum()), int((~reach(b, x0)).sum())
    swapped = strange_b * len(a) > strange_a * len(b)
    strange, seen = (strange_b, len(b)) if swapped else (strange_a, len(a))
    method = "preimages: the reports that the formula can produce in float64"
    if not strange:
        return AuditResult(
            0.0,
            0.0,
            claimed,
            0.0,
            method,
            "every report can come from either input",
            Hits(0, len(a), 0.0),
            Hits(0, len(b), 1.0),
        )
    event = (
        f"reports that the other input cannot produce: {strange:,} of {seen:,}"
        f" ({strange / seen:.0%})"
    )
    return AuditResult(
        inf,
        0.0,
        claimed,
        0.0,
        method,
        event,
        Hits(strange, seen, 0.0),
        Hits(0, 0, 0.0),
        "second" if swapped else "first",
    )
