"""Views of rows: their columns together. For the views of single columns see `views`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.views import (
    VIEWS,
    Codes,
    Rows,
    View,
    cell_views,
    low_bit_views,
    ordered_view,
    value_views,
)

__all__ = ["smooth", "views_of"]

SOME = 2**17  # rows of each input that set the edges of their quantiles
SPLIT = 6.0  # of the log likelihood, which a step must gain
WIDE = 64  # columns, or bytes, of rows that are looked at as a whole
TOGETHER, CELLS = 12, 4096  # columns that are looked at together, and the classes of all of them
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)


def views_of(
    first: NDArray[Any], second: NDArray[Any], names: tuple[str, ...] = VIEWS
) -> list[View]:
    """All views of a kind of report, fitted to reports of two inputs."""
    packed, floats = first.dtype == np.uint8, first.dtype == np.float64
    if first.ndim == 1:
        both = np.concatenate([first, second])
        found = value_views(both) if "values" in names else []
        return found + (low_bit_views() if floats and "low bits" in names else [])
    values = _Coded(
        [View("a byte", lambda column: column, 256)] * first.shape[1]
        if packed
        else [ordered_view(column, "values") for column in _some(first, second).T]
    )
    tables = values.tables(first, second)
    found = []
    if "scores" in names:
        found.append(
            _sum("scores of all columns", values, [t.score for t in tables], first, second)
        )
        if not packed and first.shape[1] <= WIDE:
            found.append(_direction(first, second))
    if "low bits" in names and floats:
        bits = _Coded([low_bit_views()[0]] * first.shape[1])
        scores = [each.score for each in bits.tables(first, second)]
        found.append(_sum("low bits of all columns", bits, scores, first, second))
    if "whole rows" in names:
        found.append(_together(values, tables, packed=packed))
        if first.shape[1] <= WIDE:
            found += cell_views("whole rows", _mixed, np.concatenate([first, second]))
        if packed:
            ones = [_ONES.sum(1).astype(np.float64)] * first.shape[1]
            found.append(_sum("number of bits set", values, ones, first, second))
    return found


class _Coded:
    """The classes of the columns of rows, each looked up once."""

    def __init__(self, views: list[View]) -> None:
        self.views = views
        self._known: dict[int, tuple[NDArray[Any], list[NDArray[Any]]]] = {}

    def __call__(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        if id(rows) not in self._known:
            codes = [
                view.code(column).astype(np.uint16)
                for view, column in zip(self.views, rows.T, strict=True)
            ]
            self._known[id(rows)] = rows, codes  # with the rows, so that no others get their id
        return self._known[id(rows)][1]

    def tables(self, first: NDArray[Any], second: NDArray[Any]) -> list[_Table]:
        """What each column tells."""
        pairs = zip(self.views, self(first), self(second), strict=True)
        packed = first.dtype == np.uint8
        return [
            _table(*(np.bincount(x, minlength=view.size) for x in pair), packed=packed)
            for view, *pair in pairs
        ]


class _Table(NamedTuple):
    """Of a column: the log likelihood ratio of each class, and how far apart the inputs are."""

    score: NDArray[np.float64]
    telling: NDArray[np.float64]
    """The latter: Pearson's chi squared, nearly, of the column, or of each bit of a byte."""


def _table(a: Codes, b: Codes, *, packed: bool) -> _Table:
    if not packed:
        score = smooth(a, b)
        return _Table(score, np.array([((a + b) * np.tanh(score / 2) ** 2).sum()]))
    n_a, n_b = a.sum() + 1, b.sum() + 1
    p, q = (a @ _ONES + 0.5) / n_a, (b @ _ONES + 0.5) / n_b
    score = _ONES @ np.log(p / q) + (1 - _ONES) @ np.log((1 - p) / (1 - q))
    return _Table(score, (p - q) ** 2 / (p + q))


def smooth(a: Codes, b: Codes) -> NDArray[np.float64]:
    """Log likelihood ratios of ordered classes from their counts, as steps: neighbours are pooled
    unless their counts speak against it (a pruned binary tree, as CART's; Breiman et al. 1984).
    """
    depth = max(len(a) - 1, 1).bit_length()
    levels = [np.pad(np.array([a, b]), ((0, 0), (0, 2**depth - len(a))))]
    for _ in range(depth):
        levels.append(levels[-1][:, 0::2] + levels[-1][:, 1::2])
    best, split = _likelihood(levels[0]), []
    for counts in levels[1:]:
        apart, pooled = best[0::2] + best[1::2] - SPLIT, _likelihood(counts)
        split.append(apart > pooled)
        best = np.maximum(apart, pooled)
    n_a, n_b = levels[-1][:, 0] + 1
    found, open_ = np.zeros(1), np.ones(1, bool)
    for counts, below in zip(levels[::-1], [*split[::-1], None], strict=True):
        own = np.log((counts[0] + 0.5) / n_a) - np.log((counts[1] + 0.5) / n_b)
        found = np.where(open_, own, found)
        if below is not None:
            found, open_ = np.repeat(found, 2), np.repeat(open_ & below, 2)
    return found[: len(a)]


def _likelihood(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the inputs of the reports of each class, at their own shares: its logarithm."""
    total = np.maximum(counts.sum(0), 1)
    likelihood: NDArray[np.float64] = (counts * np.log(np.maximum(counts, 1) / total)).sum(0)
    return likelihood


def _sum(name: str, coded: _Coded, scores: list[NDArray[np.float64]], *fitted: Rows) -> View:
    """Sums over the columns of a number for each of their classes. Where the numbers are log
    likelihood ratios and columns are independent, the best events are theirs.
    """

    def total(rows: Rows) -> NDArray[np.float64]:
        found = np.zeros(len(rows))
        for score, codes in zip(scores, coded(rows), strict=True):
            found += score[codes]
        return np.round(found, 9)

    return _projected(name, total, *fitted)


def _direction(first: Rows, second: Rows) -> View:
    """Fisher's linear discriminant: what noise that slots share does not hide."""
    x, y = _tame(first), _tame(second)
    spread = np.cov(x.T) + np.cov(y.T)
    spread += (1e-9 * np.trace(spread) + 1e-300) * np.eye(len(spread))
    weights = np.linalg.solve(spread, x.mean(0) - y.mean(0))
    return _projected("linear discriminant", lambda rows: _tame(rows) @ weights, first, second)


def _tame(rows: Rows) -> NDArray[np.float64]:
    """Rows with finite squares."""
    found: NDArray[np.float64] = np.clip(np.nan_to_num(rows.astype(np.float64)), -1e100, 1e100)
    return found


def _projected(
    name: str, project: Callable[[Rows], NDArray[np.float64]], first: Rows, second: Rows
) -> View:
    inner = ordered_view(_some(project(first), project(second)), name)
    return View(name, lambda rows: inner.code(project(rows)), inner.size, edges=inner.edges)


def _some(first: Rows, second: Rows) -> Rows:
    """As many reports of both inputs as quantiles need."""
    return np.concatenate([each[:: 1 + len(each) // SOME] for each in (first, second)])


def _together(coded: _Coded, tables: list[_Table], *, packed: bool) -> View:
    """The most telling columns, in a few classes each."""
    telling = np.concatenate([each.telling for each in tables])
    chosen = np.sort(np.argsort(-telling, kind="stable")[:TOGETHER]).tolist()
    levels = 2 if packed else int(CELLS ** (1 / len(chosen)) + 1e-9)

    def code(rows: NDArray[Any]) -> Codes:
        total = np.zeros(len(rows), np.int64)
        for column in chosen:
            if packed:
                part = (rows[:, column // 8] >> np.uint8(7 - column % 8)) & np.uint8(1)
            else:
                size = coded.views[column].size
                part = coded(rows)[column].astype(np.int64) * min(levels, size) // size
            total = total * levels + part
        return total

    return View("the most telling columns together", code, levels ** len(chosen), ordered=False)


def _mixed(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each row; two rows share one by chance, once in 2**64 pairs."""
    total = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        word = column.astype(np.float64).view(np.uint64) if column.dtype.kind == "f" else column
        total = (total ^ word.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total
