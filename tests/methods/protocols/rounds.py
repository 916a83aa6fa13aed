"""Coordinators over sums of reports that are drawn as such, without users: many rounds at little
cost, and several coordinators that see the same ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ldp_kafka.methods.protocols import Trace
from tests.methods.protocols.streams import made

__all__ = ["Rounds", "drawn"]


class Rounds(NamedTuple):
    """What was released by each of several coordinators, (T, d), of one truth."""

    truth: np.ndarray
    values: list
    errors: list
    intervals: list
    """(T, d, 2) of each."""
    published: np.ndarray

    def covered(self, at):
        """Whether intervals of one of the coordinators hold the truth (T, d)."""
        low, high = np.moveaxis(self.intervals[at], -1, 0)
        return (low <= self.truth) & (self.truth <= high)


def sums_of(mechanism, counts, rng):
    """The support of reports of values so many of each category."""
    laws = [mechanism.law(value).probabilities() for value in range(len(counts))]
    reports = sum(rng.multinomial(n, law) for n, law in zip(counts, laws, strict=True))
    return np.concatenate([[counts.sum()], reports])


def drawn(name, shares, users, seed, switches, **parameters):
    """Rounds of one protocol over frequencies ``shares`` (T, d) of so many users, who draw their
    values anew in every slot; ``switches`` of each coordinator, whose requests must be the same.
    """
    rng, d = np.random.default_rng(seed), shares.shape[1]
    protocols = [made(name, categories=d, **parameters, **each) for each in switches]
    coordinators = [each.coordinator() for each in protocols]
    terms, known = protocols[0].terms, {}

    def told(cost, sums):
        """The same sums tell all coordinators the same."""
        key = cost, sums.tobytes()
        if key not in known:
            known[key] = terms.oracle.told(cost, sums, population=terms.population)
        return known[key]

    for each in coordinators:
        each._told = told
    truth, released = [], [[] for _ in switches]
    for slot, share in enumerate(shares):
        everybody = rng.multinomial(users, share)

        def reports(fraction, cost, everybody=everybody):
            counts = everybody
            if terms.population:
                counts = rng.multinomial(rng.binomial(users, fraction), everybody / users)
            return sums_of(terms.oracle.at(cost), counts, rng)

        first = None
        if name != "lsp" or slot % terms.window == 0:
            first = reports(1 / terms.turns, terms.first)
        verdicts = [each.decide(slot, first) for each in coordinators]
        request, second = verdicts[0].request, None
        assert all(each.request == request for each in verdicts)
        if request is not None:
            rule = coordinators[0].rule
            fraction = rule.saved()["used"][-1][1] / rule.total / 2
            second = reports(fraction, request.cost)
        for at, each in enumerate(coordinators):
            released[at].append(each.release(second))
        truth.append(everybody / users)
    traces = [Trace.of(each, d, np.empty((2, 0)), np.empty((0, 2)), None) for each in released]
    return Rounds(
        np.array(truth),
        [each.values for each in traces],
        [each.standard_error for each in traces],
        [each.confidence_interval for each in traces],
        traces[0].strategy == "publish",
    )
