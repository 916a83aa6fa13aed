"""Is the set of possible reports the same for two inputs? Exactly, where a mechanism states its
law; else with a stated confidence.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, log
from typing import Any

import numpy as np

from ldp_kafka.audits.bound import ALPHA, audit_reports
from ldp_kafka.audits.result import AuditResult, Hits
from ldp_kafka.audits.views import View, look_up
from ldp_kafka.mechanisms.base import Law

__all__ = ["compare_laws", "compare_supports", "view_of_laws"]

_CLASSES = 4096


def compare_laws(
    first: Law, second: Law, *, claimed: float | None = None, delta: float = 0.0
) -> AuditResult:
    """Exact: reports that one law has and the other has not make epsilon infinite, if they weigh
    more than delta.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = Law(np.array([0, 1]), [3, 1], 4), Law(np.array([1, 2]), [1, 3], 4)
    >>> compare_laws(a, b, claimed=1.0).event
    'reports that only one of the inputs can give: together of probability 0.75'
    """
    strange = [_only(a, b) for a, b in ((first, second), (second, first))]
    worst = max(strange)
    swapped = strange[1] == worst > strange[0]
    found = inf if worst > Fraction(delta) else 0.0
    event = (
        f"reports that only one of the inputs can give: together of probability {float(worst):.3g}"
        if worst
        else "the same reports are possible for both inputs"
    )
    none = Hits(0, 0, 0.0)
    return AuditResult(
        found,
        0.0,
        claimed,
        delta,
        "the supports of the two exact laws",
        event,
        none,
        none,
        "second" if swapped else "first",
    )


def compare_supports(
    first: Any,
    second: Any,
    *,
    claimed: float | None = None,
    delta: float = 0.0,
    alpha: float = ALPHA,
) -> AuditResult:
    """Statistical: the event seen most for one input and never for the other, found in half of the
    reports and counted in the other half.

    ``other.hits`` of the result is 0 where it was not seen there either; ``other.bound`` is how
    likely it may still be.
    """
    return audit_reports(first, second, claimed=claimed, delta=delta, alpha=alpha, never=True)


def view_of_laws(first: Law, second: Law) -> View | None:
    """Reports ordered by the likelihood ratio that the laws state: the best events for a sampler
    that follows them. None where reports are rows, or the ratios too many.
    """
    support = np.asarray(first.support)
    if (
        support.ndim > 1
        or len(support) != len(second.weights)
        or not np.array_equal(support, second.support)
    ):
        return None
    ratios = np.round(
        [
            log(a / first.denominator) - log(b / second.denominator)
            for a, b in zip(first.weights, second.weights, strict=True)
        ],
        9,
    )
    levels, level = np.unique(ratios, return_inverse=True)
    if len(levels) > _CLASSES:
        return None
    order = np.argsort(support)
    outputs, level = support[order], level[order]

    of = np.concatenate([[0], level + 1])  # 0: no output of the law
    return View(
        "log likelihood ratio that the law states",
        lambda reports: of[look_up(outputs, reports)],
        len(levels) + 1,
        edges=levels,
    )


def _only(a: Law, b: Law) -> Fraction:
    """The probability of what ``a`` can give and ``b`` cannot."""
    theirs = {
        row.tobytes()
        for row, weight in zip(np.asarray(b.support), b.weights, strict=True)
        if weight > 0
    }
    lonely = sum(
        weight
        for row, weight in zip(np.asarray(a.support), a.weights, strict=True)
        if row.tobytes() not in theirs
    )
    return Fraction(lonely, a.denominator)
