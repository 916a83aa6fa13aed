"""Runs of the protocols over counts in place of users, decision by decision as over users.

LDP-IDS fixes how many users have each category in a slot and deals the categories out anew in each
(section 7.1.1). So who has reported before tells nothing of a user's value, and these are the exact
laws of a run over users:

- The coordinator is the protocol's own, and its requests are followed as they are.
- Whose turn the first phase is: the protocol's own rule, on random digests.
- Half B of the users is whoever never has a turn. Those who were selected in no run of ``window``
  slots that contains the slot are eligible; each is selected with the request's fraction (users'
  edges compare a word of 32 bits, so theirs is at most 2**-32 lower).
- What the selected ones have: a draw from the slot's counts without replacement. Those of the
  second phase are drawn from what the first has left.
- Sums of their reports: `laws`.

What is not there is what users' edges refuse: an honest coordinator asks nothing that they would.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.evaluation.ldp_ids.laws import Bits, Outputs, law_of
from ldp_kafka.methods.protocols import Protocol, Request, Trace
from ldp_kafka.methods.protocols.coordinator import Released

__all__ = ["Crowd", "simulate"]

LAWS = 4096  # that are kept, one a cost


class Crowd:
    """Who reports in the first phase of each slot, and who is selected for the second, as numbers.

    Parameters
    ----------
    protocol : one of `ldp_kafka.methods.protocols`
    users : how many
    generator : of their digests, and of selections
    """

    def __init__(self, protocol: Protocol, users: int, generator: np.random.Generator) -> None:
        self.terms, self.users, self.generator = protocol.terms, users, generator
        window = self.terms.window
        digests = generator.integers(2**64, size=(users, 2), dtype=np.uint64)
        self.turns = [
            int(np.count_nonzero(self.terms.turn(digests, slot, window))) for slot in range(window)
        ]
        self._half = users - sum(self.turns)  # where users are divided
        self._selected: deque[tuple[int, int]] = deque()

    def turn(self, slot: int) -> int:
        """How many report in the first phase: every rule repeats after ``window`` slots."""
        return self.turns[slot % self.terms.window]

    def eligible(self, slot: int) -> int:
        """How many of half B may be selected."""
        while self._selected and self._selected[0][0] <= slot - self.terms.window:
            self._selected.popleft()
        return self._half - sum(number for _, number in self._selected)

    def select(self, request: Request) -> int:
        """How many a request selects."""
        if not self.terms.population:
            return self.users
        found = int(
            self.generator.binomial(self.eligible(request.slot), request.share / request.of)
        )
        self._selected.append((request.slot, found))
        return found


def simulate(
    protocol: Protocol,
    counts: NDArray[np.integer],
    generator: np.random.Generator,
    users: int | None = None,
) -> Trace:
    """What a protocol releases of users who have so many of each category in each slot.

    Parameters
    ----------
    protocol : for categories, over a mechanism that `laws.law_of` knows
    counts : (T, categories), users of each category
    generator : of everything
    users : all, with and without a value; default: the most that a slot has

    Returns
    -------
    `Trace` without ``spent``

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> lpa = lk.protocol("lpa", epsilon=1.0, window=4, categories=2, oracle="grr")
    >>> counts = np.full((8, 2), [150_000, 50_000])
    >>> trace = simulate(lpa, counts, np.random.default_rng(7))
    >>> trace.values.shape, bool(abs(trace.values[-1, 1] - 0.25) < 0.05)
    ((8, 2), True)
    """
    slots, d = counts.shape
    most = int(counts.sum(axis=1).max())
    everybody = most if users is None else users
    if not everybody >= most:
        raise ValueError("users must be at least as many as have a value in one slot")
    crowd, coordinator = Crowd(protocol, everybody, generator), protocol.coordinator()
    released: list[Released] = []
    looked, reports = np.full((2, slots), np.nan), np.zeros((slots, 2), np.int64)
    sums: NDArray[np.int64] | None
    for slot, there in enumerate(counts):
        whole = np.append(there, everybody - there.sum())
        first = _dealt(whole, crowd.turn(slot), generator)
        reports[slot, 0] = first[:-1].sum()
        verdict = coordinator.decide(slot, _sums(protocol, protocol.terms.first, first, generator))
        looked[:, slot] = verdict.dissimilarity, verdict.error
        sums = None
        if verdict.request is not None:
            rest = whole - first if protocol.terms.population else whole
            second = _dealt(rest, crowd.select(verdict.request), generator)
            reports[slot, 1] = second[:-1].sum()
            sums = _sums(protocol, verdict.request.cost, second, generator)
        released.append(coordinator.release(sums))
    return Trace.of(released, d, looked, reports, None)


def _dealt(
    counts: NDArray[np.int64], number: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """What so many users have, who were chosen among all regardless of it."""
    if number == counts.sum():
        return counts
    found: NDArray[np.int64] = generator.multivariate_hypergeometric(
        counts, number, method="marginals"
    )
    return found


_LAWS: dict[tuple[type, int, float], Outputs | Bits] = {}


def _sums(
    protocol: Protocol, cost: int, dealt: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64] | None:
    """The sums of their reports; the last entry has no value and sends none."""
    if not dealt[:-1].any():
        return None
    mechanism = protocol.terms.oracle.at(cost)
    key = (type(mechanism), mechanism.categories, mechanism.epsilon)
    law = _LAWS.get(key)
    if law is None:
        if len(_LAWS) >= LAWS:
            _LAWS.clear()
        law = _LAWS[key] = law_of(mechanism)
    return law.sums(dealt[:-1], generator)
