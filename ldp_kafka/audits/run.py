"""The audit of a mechanism, or of any function that randomizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.bound import ALPHA, FEWEST, audit_reports, check_settings
from ldp_kafka.audits.preimage import Reach, preimage_attack
from ldp_kafka.audits.result import AuditResult
from ldp_kafka.audits.support import compare_laws, view_of_laws
from ldp_kafka.audits.views import VIEWS
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.randomness import Randomness, system

__all__ = ["audit", "audit_pairs", "each", "low_bits", "pairs_of", "sample"]

REPORTS = 10**6
LOOKED_UP = 2000  # reports of each input in a preimage attack


def audit(
    target: Any,
    x0: Any,
    x1: Any,
    *,
    claimed: float | None = None,
    reports: int = REPORTS,
    delta: float | None = None,
    alpha: float = ALPHA,
    randomness: Randomness | None = None,
    formula: Reach | None = None,
) -> AuditResult:
    """A lower bound on the epsilon of anything that randomizes: the largest that its law, a formula
    and its reports show.

    Parameters
    ----------
    target : a mechanism, or a function (n inputs) -> n reports, each drawn by itself: numbers,
        labels, rows of numbers, or packed bits
    x0, x1 : two inputs: numbers, or rows of numbers (a stream, a vector)
    claimed : the epsilon that is promised; default: the mechanism's own
    reports : of each input
    delta : the delta that is promised; default: that of the mechanism's certificate, or 0
    alpha : the probability with which the bound may be above the true loss
    randomness : for a mechanism; default: `ldp_kafka.randomness.system`
    formula : how the reports are computed from floats, for a preimage attack: one of `FORMULAS`, or
        `reach_of` a third party's

    Raises
    ------
    ValueError, TypeError : parameters out of range; a function that does not return one report a
        value; a formula that is not the sampler's

    Examples
    --------
    >>> import numpy as np
    >>> from ldp_kafka.audits import FORMULAS, audit
    >>> textbook = lambda values: values + np.random.default_rng(7).laplace(0, 1, len(values))
    >>> formula = FORMULAS["additive"](1.0, (0.0, 1.0))
    >>> audit(textbook, 0.0, 1.0, claimed=1.0, formula=formula).verdict
    'epsilon is infinite, for certain (claimed 1): VIOLATED'
    >>> found = audit(textbook, 0.0, 1.0, claimed=1.0, reports=100_000)  # its last bits alone
    >>> found.verdict
    'epsilon is at least 7.488 with confidence 99 % (claimed 1): VIOLATED'
    >>> found.event
    'power of two that divides the report (its exponent) below -53'
    """
    claimed = getattr(target, "epsilon", None) if claimed is None else claimed
    delta = _delta_of(target) if delta is None else delta
    check_settings(claimed, delta, alpha)
    if not reports >= FEWEST:
        raise ValueError(f"an audit needs at least {FEWEST} reports of each input")
    if formula is not None and delta:
        raise ValueError(
            "a preimage attack needs a delta of 0: it does not say how likely its reports are"
        )
    laws = [_law(target, x) for x in (x0, x1)]
    stated = None
    if laws[0] is not None and laws[1] is not None:
        exact = compare_laws(laws[0], laws[1], claimed=claimed, delta=delta)
        if exact.epsilon_lower:
            return exact
        stated = view_of_laws(laws[0], laws[1])
    first, second = (sample(target, x, reports, randomness) for x in _alike(target, x0, x1))
    if formula is not None:
        found = preimage_attack(
            first[:LOOKED_UP], second[:LOOKED_UP], float(x0), float(x1), formula, claimed=claimed
        )
        if found.epsilon_lower:
            return found
    return audit_reports(
        first,
        second,
        claimed=claimed,
        delta=delta,
        alpha=alpha,
        more=() if stated is None else (stated,),
    )


def audit_pairs(
    target: Any,
    pairs: Sequence[tuple[Any, Any]] | None = None,
    *,
    alpha: float = ALPHA,
    **settings: Any,
) -> AuditResult:
    """The largest bound over several pairs of inputs; all of them hold together with probability 1
    - alpha. Default: `pairs_of` the mechanism.
    """
    chosen = pairs_of(target) if pairs is None else list(pairs)
    if not chosen:
        raise ValueError("an audit needs at least one pair of inputs")
    found = [audit(target, *pair, alpha=alpha / len(chosen), **settings) for pair in chosen]
    worst = max(found, key=lambda each: each.epsilon_lower)
    return (
        worst
        if not worst.alpha or len(chosen) == 1
        else replace(
            worst, alpha=alpha, method=f"{worst.method}; the worst of {len(chosen)} pairs of inputs"
        )
    )


def low_bits(
    target: Any,
    x0: Any,
    x1: Any,
    *,
    claimed: float | None = None,
    reports: int = REPORTS,
    alpha: float = ALPHA,
) -> AuditResult:
    """The black-box bound from the last bits of float64 reports alone (Mironov 2012); see `audit`
    for the parameters.
    """
    claimed = getattr(target, "epsilon", None) if claimed is None else claimed
    first, second = (
        np.asarray(sample(target, x, reports), np.float64) for x in _alike(target, x0, x1)
    )
    return audit_reports(
        first,
        second,
        claimed=claimed,
        alpha=alpha,
        views=tuple(name for name in VIEWS if name == "low bits"),
    )


def each(function: Callable[[Any], Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A function of single values as one of arrays, called once a value.

    Examples
    --------
    >>> import random
    >>> flip = each(lambda x: x if random.random() < 0.9 else 1 - x)
    >>> audit(flip, 0, 1, claimed=1.0, reports=10_000).violated
    True
    """
    return lambda values: np.asarray([function(value) for value in values.tolist()])


def pairs_of(mechanism: Any) -> list[tuple[Any, Any]]:
    """Pairs of inputs that try a mechanism: the ends of the domain, one end and a value between
    grid points; or first, middle and last category; or a diameter.

    TypeError for a target that has neither a domain nor categories: it must be told.
    """
    if hasattr(mechanism, "dimension"):
        ends = np.zeros((2, int(mechanism.dimension)))
        ends[:, 0] = mechanism.domain  # opposite ends of a diameter
        return [(ends[0], ends[1])]
    if hasattr(mechanism, "domain") and len(np.shape(mechanism.domain)) == 1:
        lo, hi = mechanism.domain
        return [(lo, hi), (lo, lo + 0.7310585 * (hi - lo)), (lo + 0.3 * (hi - lo), hi)]
    if hasattr(mechanism, "categories"):
        d = int(mechanism.categories)
        return [(0, other) for other in sorted({1, d // 2, d - 1} - {0})]
    raise TypeError("what has neither a domain nor categories must be told its inputs")


def sample(target: Any, x: Any, reports: int, randomness: Randomness | None = None) -> NDArray[Any]:
    """So many reports of one input.

    TypeError for what is neither a mechanism nor callable; ValueError where there is not one report
    a value, or one draw for all of them, as code for single values does.
    """
    one = np.asarray(x)
    values = np.broadcast_to(one, (reports, *one.shape)).copy()
    perturb: Callable[..., Any] | None = getattr(target, "perturb", None)
    if perturb is None and not callable(target):
        raise TypeError(
            "the target of an audit must be a mechanism, or a function of an array of values"
        )
    found = np.asarray(
        target(values)
        if perturb is None
        else perturb(values, system() if randomness is None else randomness)
    )
    if found.shape[:1] != (reports,):
        raise ValueError("the target must return one report for each value")
    if (
        perturb is None
        and (found == found[0]).all()
        and not np.array_equal(found[:1], np.asarray(target(values))[:1])
    ):
        raise ValueError(
            "the target draws once for all values: it takes single values, wrap it in `each`"
        )
    return found


def _alike(target: Any, x0: Any, x1: Any) -> NDArray[Any]:
    """Both inputs as one kind of number: float64 where the target has a domain."""
    return np.asarray([x0, x1], np.float64) if hasattr(target, "domain") else np.asarray([x0, x1])


def _delta_of(target: Any) -> float:
    certificate = getattr(target, "certificate", None)
    return float(getattr(certificate(), "delta", 0)) if callable(certificate) else 0.0


def _law(target: Any, x: Any) -> Any:
    """The exact law, where the target states one of this value."""
    law = getattr(target, "law", None)
    if not callable(law) or np.ndim(x):  # of vectors, a mechanism states the law of a coordinate
        return None
    try:
        return law(x)
    except (
        TypeError,
        NotImplementedError,
        ConfigurationError,
    ):  # a law that needs more than the value, a public hash, say; or is too long to be listed
        return None
