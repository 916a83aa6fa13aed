"""A lower bound on epsilon from reports alone (Ding et al., CCS 2018; Jagielski et al., NeurIPS
2020; Gilani et al. 2020).

For a mechanism that is (epsilon, delta)-private P[S | x] <= e^epsilon P[S | x'] + delta for any set
S of reports, so that epsilon >= ln((P[S | x] - delta) / P[S | x']). A quarter of the reports ranks
sets, another quarter chooses one of them and a direction, and the other half counts it: the choice
costs no confidence. Both probabilities are bounded by Clopper and Pearson's intervals with alpha /
2 each, so that both hold together with probability 1 - alpha, whatever the mechanism and however
small the number of reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits import binomial
from ldp_kafka.audits.result import AuditResult, Bin, Hits
from ldp_kafka.audits.views import VIEWS, Codes, View, as_reports, views_of

__all__ = ["ALPHA", "audit_reports", "check_settings", "parts_of"]

ALPHA = 1e-6
CUTS = 256  # sets of one family that are tried
DRAWN = 41  # bins of the plot
FEWEST = 16  # reports of each input


@dataclass(frozen=True)
class _Event:
    """A set of a view's numbers, chosen among its family: the first ``cut`` in an order, or the
    others.
    """

    view: View
    order: NDArray[np.intp]
    cut: int
    complement: bool
    swapped: bool
    """Whether the second input makes it likelier."""
    score: float = field(compare=False)
    ranked: bool
    """Whether the order is by likelihood ratio."""

    @property
    def mask(self) -> NDArray[np.bool_]:
        inside = np.zeros(self.view.size, bool)
        inside[self.order[: self.cut]] = True
        return ~inside if self.complement else inside

    def say(self) -> str:
        if not self.ranked:
            return self.view.say(self.cut, others=self.complement)
        inside = np.flatnonzero(self.mask)
        if (
            len(inside) == 1
            and self.view.exact
            and self.view.edges is not None
            and 1 <= inside[0] <= len(self.view.edges)
        ):
            return f"{self.view.name} equal to {self.view.edges[inside[0] - 1]:.4g}"
        return (
            f"{self.view.name}: a union of classes, those of the"
            f" {'largest' if self.complement != self.swapped else 'smallest'} likelihood ratios"
        )


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
        numbers (n, k), or packed bits (uint8, (n, bytes))
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
    'epsilon is at least 1.549 with confidence 99.9999 % (claimed 1): VIOLATED'
    """
    check_settings(claimed, delta, alpha)
    a, b = as_reports(first), as_reports(second)
    if (
        (a.dtype.kind in "US") != (b.dtype.kind in "US")
        or a.shape[1:] != b.shape[1:]
        or _boolean(first) != _boolean(second)
    ):
        raise ValueError("the reports of the two inputs must be of one kind")
    if a.dtype != b.dtype and a.ndim == 1:
        a, b = a.astype(common := np.promote_types(a.dtype, b.dtype)), b.astype(common)
    if min(len(a), len(b)) < FEWEST:
        raise ValueError(f"an audit needs at least {FEWEST} reports of each input")
    (rank_a, choose_a, test_a), (rank_b, choose_b, test_b) = parts_of(a), parts_of(b)
    best: _Event | None = None
    for view in (*views_of(rank_a, rank_b, views), *more):
        event = _choose(view, (rank_a, rank_b), (choose_a, choose_b), delta, alpha, never=never)
        if best is None or event.score > best.score:
            best = event
    if best is None:
        raise ValueError("nothing to look at: these reports have none of these views")
    return _result(best, test_a, test_b, claimed, delta, alpha)


def check_settings(claimed: float | None, delta: float, alpha: float) -> None:
    """ValueError unless they are in range."""
    if claimed is not None and not claimed >= 0:
        raise ValueError("the claimed epsilon must be a number of at least 0")
    if not 0 <= delta < 1:
        raise ValueError("delta must lie in [0, 1)")
    if not 0 < alpha < 1:
        raise ValueError("alpha must lie between 0 and 1")


def parts_of(reports: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The reports that rank, those that choose, and those that are counted: a quarter, a quarter
    and half, dealt in turn, so that slow drifts reach all.
    """
    return reports[0::4], reports[1::4], np.concatenate([reports[2::4], reports[3::4]])


def _boolean(reports: Any) -> bool:
    return bool(np.asarray(reports).dtype.kind == "b")


def _counts(view: View, reports: NDArray[Any]) -> Codes:
    counts: Codes = np.bincount(view.code(reports), minlength=view.size)
    return counts


def _choose(
    view: View,
    rank: tuple[NDArray[Any], NDArray[Any]],
    choose: tuple[NDArray[Any], NDArray[Any]],
    delta: float,
    alpha: float,
    *,
    never: bool,
) -> _Event:
    """The set of this view that promises the largest bound."""
    a, b = (_counts(view, reports) for reports in choose)
    n_a, n_b = len(choose[0]), len(choose[1])
    best: _Event | None = None
    for order, ranked in _orders(view, *(_counts(view, reports) for reports in rank)):
        below_a, below_b = np.cumsum(a[order]), np.cumsum(b[order])
        cuts = _cuts(below_a + below_b)
        below_a, below_b = below_a[cuts], below_b[cuts]
        hits = ((below_a, n_a - below_a), (below_b, n_b - below_b))
        lows = _lows(hits, (n_a, n_b), alpha)
        for complement in (0, 1):
            for swapped in (0, 1):
                others = 1 - swapped
                # the misses of a set are the hits of its complement
                top, bottom = lows[swapped, complement] - delta, 1 - lows[others, 1 - complement]
                scores = np.where(
                    top > 0, np.log(np.maximum(top, 1e-300)) - np.log(bottom), -np.inf
                )
                if never:
                    scores = np.where(hits[others][complement] == 0, scores, -np.inf)
                at = int(scores.argmax())
                if best is None or scores[at] > best.score:
                    best = _Event(
                        view,
                        order,
                        int(cuts[at]) + 1,
                        bool(complement),
                        bool(swapped),
                        float(scores[at]),
                        ranked,
                    )
    assert best is not None
    return best


def _orders(view: View, a: Codes, b: Codes) -> Iterator[tuple[NDArray[np.intp], bool]]:
    """Families of nested sets: intervals, and unions in the order of the likelihood ratio."""
    if view.ordered:
        yield np.arange(view.size), False
    ratio = np.log((a + 0.5) / (a.sum() + 1)) - np.log((b + 0.5) / (b.sum() + 1))
    yield np.argsort(ratio, kind="stable"), True


def _cuts(below: Codes) -> NDArray[np.intp]:
    """Where to cut a family: at steps of equal mass, and at the first and last few, where rare
    events are.
    """
    steps = np.flatnonzero(np.diff(below, prepend=0))  # where something was seen
    if not len(steps):
        return np.zeros(1, np.intp)
    if len(steps) <= CUTS:
        return steps
    even = np.searchsorted(below[steps], np.linspace(0, below[-1], CUTS // 2))
    near = np.unique(np.geomspace(1, len(steps), CUTS // 4).astype(int))
    chosen: NDArray[np.intp] = steps[
        np.unique(np.clip(np.concatenate([even, near - 1, len(steps) - near]), 0, len(steps) - 1))
    ]
    return chosen


def _lows(
    hits: tuple[tuple[Codes, Codes], tuple[Codes, Codes]], trials: tuple[int, int], alpha: float
) -> NDArray[np.float64]:
    """(input, complement, cut): what the lower bounds would be, nearly, of twice as many reports if
    they looked like these: good enough to choose by.
    """
    counts = np.array(hits)
    of = np.broadcast_to(np.array(trials)[:, None, None], counts.shape)
    return binomial.rough_lower(2 * counts, 2 * of, alpha / 2)


def _result(
    event: _Event,
    a: NDArray[Any],
    b: NDArray[Any],
    claimed: float | None,
    delta: float,
    alpha: float,
) -> AuditResult:
    if event.swapped:
        a, b = b, a
    counted, mask = [_counts(event.view, reports) for reports in (a, b)], event.mask
    hits = [int(counts[mask].sum()) for counts in counted]
    low = float(binomial.lower(hits[0], len(a), alpha / 2))
    high = float(binomial.upper(hits[1], len(b), alpha / 2))
    bound = log((low - delta) / high) if low > delta else 0.0
    return AuditResult(
        max(bound, 0.0),
        alpha,
        claimed,
        delta,
        "black box: the best event of half of the reports, counted in the other half;"
        f" Clopper-Pearson; {event.view.name}",
        event.say(),
        Hits(hits[0], len(a), low),
        Hits(hits[1], len(b), high),
        "second" if event.swapped else "first",
        _bins(event, counted),
    )


def _bins(event: _Event, counted: list[Codes]) -> tuple[Bin, ...]:
    """Neighbours in the event's order, pooled to a few bins of about equal mass; the event is a run
    of them.
    """
    a, b = (counts[event.order] for counts in counted)
    total = np.cumsum(a + b)
    cut = np.clip(np.searchsorted(total, np.linspace(0, total[-1], DRAWN)[1:-1]) + 1, 1, len(total))
    edges = np.unique(np.concatenate([[0], cut, [event.cut], [len(total)]]))
    made = []
    for low, high in pairwise(edges.tolist()):
        seen = int(a[low:high].sum()), int(b[low:high].sum())
        if any(seen):
            made.append(Bin(*seen, bool((high <= event.cut) != event.complement)))
    return tuple(made)
