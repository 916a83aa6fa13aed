"""Utility metrics: distances between releases and the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FLOOR",
    "Curve",
    "absolute_error",
    "auc",
    "cosine_distance",
    "jensen_shannon",
    "mean_error",
    "relative_error",
    "roc",
    "wasserstein",
]


FLOOR = 0.01
"""A true frequency below it counts as this one in relative errors; LDP-IDS names no floor, and its
LNS touches 0.
"""


def absolute_error(released: ArrayLike, truth: ArrayLike) -> float:
    """MAE: the mean of ``|released - truth|`` over everything (delay-allowed, section V).

    Examples
    --------
    >>> absolute_error([1.0, 5.0], [2.0, 3.0])
    1.5
    """
    a, b = _pair(released, truth)
    return float(np.abs(a - b).mean())


def relative_error(released: ArrayLike, truth: ArrayLike, floor: float = FLOOR) -> float:
    """MRE: the mean of ``|released - truth| / max(truth, floor)``.

    Examples
    --------
    >>> relative_error([0.5, 0.02], [0.25, 0.0], floor=0.01)
    1.5
    """
    a, b = _pair(released, truth)
    return float((np.abs(a - b) / np.maximum(b, floor)).mean())


def mean_error(released: ArrayLike, truth: ArrayLike) -> float:
    """Mean squared error of the means of subsequences (CAPP, section VI-A2).

    Parameters
    ----------
    released, truth : (subsequences, slots), of one shape

    Examples
    --------
    >>> mean_error([[0.0, 1.0], [1.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]])
    0.125
    """
    a, b = _pair(released, truth)
    return float(((a.mean(axis=-1) - b.mean(axis=-1)) ** 2).mean())


def cosine_distance(released: ArrayLike, truth: ArrayLike) -> float:
    """1 - u.v / (|u| |v|), averaged over subsequences (CAPP, section VI-A2): 0 for the same
    direction, whatever the lengths.

    Parameters
    ----------
    released, truth : (slots,) or (subsequences, slots), of one shape; pairs of which one is all
        zeros have no direction and are left out, NaN if that leaves none

    Examples
    --------
    >>> cosine_distance([1.0, 0.0], [0.0, 2.0]), cosine_distance([1.0, 1.0], [3.0, 3.0])
    (1.0, 0.0)
    """
    a, b = (np.atleast_2d(x) for x in _pair(released, truth))
    lengths = np.sqrt((a * a).sum(axis=-1)) * np.sqrt((b * b).sum(axis=-1))
    seen = lengths > 0
    if not seen.any():
        return float("nan")
    return float(1 - ((a * b).sum(axis=-1)[seen] / lengths[seen]).mean()) + 0.0


def wasserstein(a: ArrayLike, b: ArrayLike) -> float:
    """Wasserstein-1 distance of two samples: the area between their distribution functions
    (Vallender 1974), in the samples' unit.

    Parameters
    ----------
    a, b : (n,) and (m,), at least one value each

    Raises
    ------
    ValueError : an empty sample, or a value that is not finite

    Notes
    -----
    CAPP, section VI-A2 sums |F - G| over points without their distance; this is the distance
    itself.

    Examples
    --------
    >>> wasserstein([0.0, 1.0], [0.5]), wasserstein([3.0, 1.0], [1.0, 3.0])
    (0.5, 0.0)
    """
    x, y = (np.sort(np.asarray(sample, np.float64).ravel()) for sample in (a, b))
    if not (len(x) and len(y) and np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("samples must have values, all finite")
    points = np.sort(np.concatenate([x, y]))
    f, g = (np.searchsorted(sample, points[:-1], side="right") / len(sample) for sample in (x, y))
    return float(np.abs(f - g) @ np.diff(points))


def jensen_shannon(p: ArrayLike, q: ArrayLike) -> float:
    """Jensen-Shannon divergence of two distributions over the same categories, in bits, 0..1 (Lin,
    IEEE TIT 1991): the mean divergence from their mixture.

    Parameters
    ----------
    p, q : (categories,), at least 0 and not all 0; taken as shares of their sum

    Raises
    ------
    ValueError : shapes differ, or what is no distribution

    Examples
    --------
    >>> jensen_shannon([1, 0], [0, 1]), jensen_shannon([2, 2], [1, 1])
    (1.0, 0.0)
    """
    shares = []
    for weights in _pair(p, q):
        if weights.ndim != 1 or not (weights >= 0).all() or not weights.sum() > 0:
            raise ValueError("distributions must be weights of at least 0, not all of them 0")
        shares.append(weights / weights.sum())
    mixture = (shares[0] + shares[1]) / 2
    total = 0.0
    for share in shares:
        seen = share > 0
        total += float(share[seen] @ np.log2(share[seen] / mixture[seen])) / 2
    return min(max(total, 0.0), 1.0)


class Curve(NamedTuple):
    """Receiver operating characteristic: what is found and what is wrongly taken, threshold by
    threshold, from (0, 0) to (1, 1).
    """

    false_positive: NDArray[np.float64]
    true_positive: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    """Scores from which on a case is taken; the first is infinite."""


def roc(scores: ArrayLike, positive: ArrayLike) -> Curve:
    """The ROC curve of scores (n,) for cases that are ``positive`` (n,) or not (Fawcett, Pattern
    Recognition Letters 2006, algorithm 1): equal scores are one step.

    Raises
    ------
    ValueError : shapes differ, a score is NaN, or there is no case of one kind

    Examples
    --------
    >>> found = roc([0.9, 0.8, 0.8, 0.1], [True, True, False, False])
    >>> found.true_positive.tolist(), found.false_positive.tolist()
    ([0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.5, 1.0])
    """
    values, cases = np.asarray(scores, np.float64), np.asarray(positive, bool)
    if values.ndim != 1 or values.shape != cases.shape or np.isnan(values).any():
        raise ValueError("scores and cases must be of one length, no score NaN")
    if not 0 < cases.sum() < len(cases):
        raise ValueError("cases must be of both kinds")
    order = np.argsort(-values, kind="stable")
    values, cases = values[order], cases[order]
    last = np.flatnonzero(np.append(values[1:] != values[:-1], True))
    found = np.cumsum(cases)[last]
    wrong = last + 1 - found
    return Curve(
        np.append(0.0, wrong / wrong[-1]),
        np.append(0.0, found / found[-1]),
        np.append(np.inf, values[last]),
    )


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Area under `roc`: the chance that a positive case scores above a negative one, ties counted
    half (Hanley and McNeil, Radiology 1982).

    Examples
    --------
    >>> auc([0.9, 0.8, 0.8, 0.1], [True, True, False, False])
    0.875
    """
    curve = roc(scores, positive)
    return float(
        np.diff(curve.false_positive) @ (curve.true_positive[1:] + curve.true_positive[:-1]) / 2
    )


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x.shape != y.shape or not x.size:
        raise ValueError("both must be of one shape, and not empty")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("both must be finite")
    return x, y
