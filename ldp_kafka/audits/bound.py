"""A lower bound on epsilon from reports alone (Ding et al., CCS 2018; Jagielski et al., NeurIPS
2020; Gilani et al. 2020), as a game of guesses (Steinke, Nasr and Jagielski, NeurIPS 2023).

A fair coin picks an input; the auditor sees a report of it, and guesses the input or abstains. Of
an epsilon-private mechanism each guess is right with probability at most e^epsilon / (e^epsilon +
1), by Bayes' rule. So Clopper and Pearson's lower bound of that probability bounds epsilon, for
every mechanism and every number of reports. An (epsilon, delta)-private mechanism may show its
input with probability delta, and is epsilon-private else (Kairouz, Oh and Viswanath, ICML 2015): as
many right guesses as delta allows are taken off first.

The coin deals each pair of reports, one of each input, to two halves. Each half chooses two events
to guess by (`events`), and the other half counts them: alpha is shared among the four counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import exp, inf, isqrt, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.events import Event, Pair, choose
from ldp_kafka.audits.result import AuditResult, Bin, Hits, Power
from ldp_kafka.audits.rows import views_of
from ldp_kafka.audits.views import VIEWS, Codes, View, as_reports
from ldp_kafka.mechanisms import binomial

__all__ = ["ALPHA", "audit_reports", "check_settings", "halves_of"]

ALPHA = 0.01
DRAWN = 41  # bins of the plot
FEWEST = 16  # reports of each input
MISSED = 0.05  # of the losses that the power states
POWER_AT = (0.01, 0.001)  # shares of the reports, beside the event's own
_COIN = 0xB5AD4ECEDA1CE2A9  # seed of the coin, on which no report depends


def audit_reports(
    first: Any,
    second: Any,
    *,
    claimed: float | None = None,
    delta: float = 0.0,
    alpha: float = ALPHA,
    views: tuple[str, ...] = VIEWS,
    more: tuple[View, ...] = (),
    never: bool = False,
) -> AuditResult:
    """A lower bound on epsilon from the reports of two inputs.

    Parameters
    ----------
    first, second : reports of each input, drawn independently: numbers or labels (n,), rows of
        numbers (n, k), or packed bits (uint8, (n, bytes)); of the longer, the first as many as the
        shorter has
    claimed : the epsilon that is promised, for the verdict
    delta : the promised delta
    alpha : the probability with which the bound may be above the true loss
    views : what to look at, names of `ldp_kafka.audits.VIEWS`
    more : views of one's own, which must not depend on these reports
    never : choose only among events that one input has never shown yet: is the set of possible
        reports the same?

    Raises
    ------
    ValueError : fewer than 16 reports of an input, reports of two kinds, or an alpha, delta or
        claim out of range

    Examples
    --------
    >>> import numpy as np
    >>> first, second = np.random.default_rng(7).random((2, 100_000))
    >>> audit_reports(first, second < 0.25, claimed=1.0)
    Traceback (most recent call last):
        ...
    ValueError: the reports of the two inputs must be of one kind
    >>> audit_reports(first < 0.5, second < 0.1, claimed=1.0).verdict
    'epsilon is at least 1.583 with confidence 99 % (claimed 1): VIOLATED'
    """
    check_settings(claimed, delta, alpha)
    a, b = as_reports(first), as_reports(second)
    if (
        (a.dtype.kind in "US") != (b.dtype.kind in "US")
        or a.shape[1:] != b.shape[1:]
        or _boolean(first) != _boolean(second)
    ):
        raise ValueError("the reports of the two inputs must be of one kind")
    if a.ndim == 2 and _bits(a) and _bits(b):
        a, b = np.packbits(a.astype(bool), axis=1), np.packbits(b.astype(bool), axis=1)
    if a.dtype != b.dtype:
        a, b = a.astype(common := np.promote_types(a.dtype, b.dtype)), b.astype(common)
    if min(len(a), len(b)) < FEWEST:
        raise ValueError(f"an audit needs at least {FEWEST} reports of each input")
    found: list[tuple[float, Callable[[], AuditResult]]] = []
    for learnt, counted in (halves := halves_of(a, b)):
        looked = (*views_of(*learnt, views), *more)
        if not looked:
            raise ValueError("nothing to look at: these reports have none of these views")
        chosen = choose(looked, learnt, claimed, delta, alpha / len(halves), never=never)
        found += [_bound(event, counted, claimed, delta, part) for event, part in chosen]
    best = max(found, key=lambda each: each[0])[1]()
    return replace(best, alpha=alpha, power=_powers(best, best.alpha / (2 if delta else 1)))


def check_settings(claimed: float | None, delta: float, alpha: float) -> None:
    """ValueError unless they are in range."""
    if claimed is not None and not claimed >= 0:
        raise ValueError("the claimed epsilon must be a number of at least 0")
    if not 0 <= delta < 1:
        raise ValueError("delta must lie in [0, 1)")
    if not 0 < alpha < 1:
        raise ValueError("alpha must lie between 0 and 1")


def halves_of(first: NDArray[Any], second: NDArray[Any]) -> list[tuple[Pair, Pair]]:
    """Both ways to learn from one half of the reports and to count the other.

    A coin deals each pair of reports, so that each report of a half is of either input with
    probability 1 / 2, and slow drifts reach both halves. To learn from, each half gives equally
    many reports of both inputs: how many fell to it would tell how the coin fell for the other
    half. A coin that leaves fewer than that is thrown again: alpha grows by 1 in 10,000.
    """
    n = min(len(first), len(second))
    few, throws = max(n // 2 - 2 * isqrt(n), n // 4), np.random.default_rng(_COIN)
    coin = np.zeros(n, bool)
    while not few <= coin.sum() <= n - few:
        coin = throws.random(n) < 0.5
    halves = [(first[:n][side], second[:n][~side]) for side in (coin, ~coin)]
    learnt = [(a[:few], b[:few]) for a, b in halves]
    return [(learnt[0], halves[1]), (learnt[1], halves[0])]


def _boolean(reports: Any) -> bool:
    return bool(np.asarray(reports).dtype.kind == "b")


def _bits(rows: NDArray[Any]) -> bool:
    return all(bool(((part == 0) | (part == 1)).all()) for part in (rows[:1000], rows))


def _bound(
    event: Event, reports: Pair, claimed: float | None, delta: float, alpha: float
) -> tuple[float, Callable[[], AuditResult]]:
    """The bound from reports that the event was not chosen by, and what makes its result."""
    way = event.direction
    # (input, place of the order)
    counts = np.array(
        [np.bincount(event.view.code(each), minlength=event.view.size) for each in reports]
    )[:, event.order]
    for_first, for_second = counts[:, : event.first].sum(1), counts[:, event.second :].sum(1)
    right, wrong = int(for_first[0] + for_second[1]), int(for_first[1] + for_second[0])
    asked = [sum(map(len, reports))] * 2 if way == "both" else list(map(len, reports))
    if way == "second":
        asked.reverse()
    free, sure = 0, alpha
    if delta:
        sure = alpha / 2
        free = _least(
            lambda k: float(binomial.tails(k + 1, asked[0], delta)[1]) <= sure, asked[0] - 1
        )
    earned, total = max(right - free, 0), max(right - free, 0) + wrong
    bound = max(_odds(binomial.lower(earned, total, sure)), 0.0) if total else 0.0
    return bound, lambda: AuditResult(
        bound,
        alpha,
        claimed,
        delta,
        "black box: the best events of half of the reports, counted in the other half, both ways;"
        f" Clopper-Pearson; {event.view.name}",
        event.say(),
        Hits(right, asked[0], float(binomial.lower(right, asked[0], alpha / 2))),
        Hits(wrong, asked[1], float(binomial.upper(wrong, asked[1], alpha / 2))),
        way,
        _bins(event, counts),
    )


def _odds(p: NDArray[np.float64]) -> float:
    return -inf if p <= 0 else inf if p >= 1 else log(p / (1 - p))


def _least(holds: Callable[[int], bool], most: int) -> int:
    """The least number of 0..most at which it holds, as it does of all above; most + 1: of none."""
    low, high = 0, most + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _powers(result: AuditResult, alpha: float) -> tuple[Power, ...]:
    """Of as many guesses as the result has, and of few."""
    hits = result.likelier, result.other
    reports = hits[0].trials + (hits[1].trials if result.direction != "both" else 0)
    shares = sum(each.hits for each in hits) / reports, *POWER_AT
    claimed = result.claimed or 0.0
    return tuple(Power(share, _power(round(share * reports), claimed, alpha)) for share in shares)


def _power(guesses: int, claimed: float, alpha: float) -> float:
    """The loss that so many guesses would show to be above the claim in 95 of 100 audits; inf where
    they show none.
    """
    if not guesses or (most := 1 / (1 + exp(-claimed))) == 1:
        return inf
    needed = _least(lambda k: float(binomial.tails(k, guesses, most)[1]) < alpha, guesses)
    return inf if needed > guesses else _odds(binomial.upper(needed - 1, guesses, MISSED))


def _bins(event: Event, counts: Codes) -> tuple[Bin, ...]:
    """Neighbours in the event's order, pooled to a few bins of about equal mass: of each, the
    counts of the input that is guessed from it and of the other.
    """
    total = np.cumsum(counts.sum(0))
    size = len(total)
    cut = np.clip(np.searchsorted(total, np.linspace(0, total[-1], DRAWN)[1:-1]) + 1, 1, size)
    edges = np.unique(np.concatenate([[0, event.first, event.second, size], cut]))
    made = []
    for low, high in pairwise(edges.tolist()):
        seen = counts[:, low:high].sum(1).tolist()
        if low >= event.second:
            seen.reverse()
        if any(seen):
            chosen = high <= event.first or low >= event.second
            made.append(Bin(seen[0], seen[1], chosen))
    return tuple(made)
