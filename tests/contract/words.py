"""A source that hands out prepared words, and what a sampler makes of all of them."""

from __future__ import annotations

import numpy as np

__all__ = ["Words", "limbs", "tally"]


class Words:
    """Hands out a row of words a value."""

    private = False

    def __init__(self, table):
        self.table = np.asarray(table, np.uint64).astype(np.uint32)

    def within(self, context):
        return self

    def words(self, n, k=1, *, first=0):
        assert self.table.shape[1] == k
        return self.table[first : first + n].copy()


def limbs(number, k):
    """A number as k words, the lowest first."""
    return [number >> 32 * i & 2**32 - 1 for i in range(k)]


def tally(m, value, edges, words_of):
    """Words of each output, when the number that is drawn runs over [edges[0], edges[-1]) and
    ``words_of`` makes the words of it; the law must be constant between edges.
    """
    edges = sorted(set(edges))
    values = np.full(len(edges) - 1, value)
    low, high = (
        m.perturb(values, Words([words_of(number) for number in numbers]))
        for numbers in (edges[:-1], [edge - 1 for edge in edges[1:]])
    )
    assert np.array_equal(low, high)
    weights = dict.fromkeys(m.law(value).support.tolist(), 0)
    for report, start, end in zip(low.tolist(), edges[:-1], edges[1:], strict=True):
        weights[report] += end - start
    return np.array(list(weights.values()), object)
