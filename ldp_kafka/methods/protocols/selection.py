"""Whom a request selects: a function of users' digests and of public requests, never of a value or
of whether there is one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State
from ldp_kafka.methods.protocols.history import History
from ldp_kafka.methods.protocols.request import MEETING, SELECTION, Request
from ldp_kafka.methods.protocols.terms import Terms
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.randomness import Randomness, use_of

__all__ = ["Selection"]

WORD = 2**32


class Selection:
    """Who of half B is selected, each at most once in any run of ``window`` slots; kept in the
    field ``selected``, the last slot that a user was selected in.

    Parameters
    ----------
    terms : the protocol's, which divides users

    Notes
    -----
    Of users who have been met, a request selects those who were selected in no run that contains
    its slot, each by a keyed word of (user, slot) below share / of.

    A user is met at its first value, in slot m, and has no record of the slots before. Free in any
    case, it would be selected more often than those who were always there: biased towards who comes
    and goes. So its record is drawn as theirs is distributed. Of the ``window`` - 1 slots before m
    such a user was selected in one at most, in slot j with the probability amount(j) / WHOLE
    (`History`). The amounts are laid one after the other in the order of slots, and one keyed word
    u of (user, m) in 0..WHOLE - 1 counts as selected in the slot in whose interval it falls. All of
    them fit: the amount of a slot is at most what the ``window`` - 1 slots before it leave.

    The record is a function of (user, m, requests) alone, whatever comes first, the request of a
    slot j < m or the meeting in m. The interval of j begins at the sum of the amounts of the slots
    from m - ``window`` + 1 to j - 1, and is as long as its own amount, a function of requests of
    earlier slots. Requests come in the order of their slots, so all of these are known when j is,
    and later requests move nothing. `meet` looks u up in the intervals of all requests so far,
    `select` in that of each later request of a slot before m: every request is looked up once, by
    one of the two, with the same u and the same interval.
    """

    def __init__(self, terms: Terms) -> None:
        self.window = terms.window
        self._use = use_of("protocol", terms.name, "selection", terms.budget, terms.window)

    def meet(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        history: History,
        randomness: Randomness,
    ) -> None:
        """Note what the requests so far have selected users for who are met in ``slot``."""
        asked = history.within(slot)
        if not asked:
            return
        rows = rows[in_second_half(state.digests(rows))]
        ends = np.cumsum(np.array([each.amount for each in asked], np.uint64))
        at = np.searchsorted(ends, self._word(state, rows, slot, randomness), side="right")
        hit = at < len(asked)
        slots = np.array([each.slot for each in asked], np.int64)
        state.columns["selected"][rows[hit]] = slots[at[hit]]

    def select(
        self,
        state: State,
        rows: NDArray[np.intp],
        request: Request,
        history: History,
        randomness: Randomness,
    ) -> NDArray[np.bool_]:
        """Which users (n,), all of them met, a valid request selects; notes it. Of those who are
        met after its slot none has a value there, so that they are not told of, but noted.
        """
        digests, slot = state.digests(rows), request.slot
        second, last = in_second_half(digests), state.columns["selected"]
        later = state.columns["met"][rows] > slot
        if later.any():
            self._select_later(state, rows[later & second], request, history, randomness)
            second &= ~later
        who = np.flatnonzero(second & (last[rows] <= slot - self.window))
        source = randomness.within(self._use).at(digests[who], slot, SELECTION, nothing(len(who)))
        words = source.words(len(who))[:, 0].astype(np.uint64)
        who = who[words < np.uint64(request.share * WORD // request.of)]
        last[rows[who]] = slot
        found = np.zeros(len(rows), np.bool_)
        found[who] = True
        return found

    def _select_later(
        self,
        state: State,
        rows: NDArray[np.intp],
        request: Request,
        history: History,
        randomness: Randomness,
    ) -> None:
        """Note which users of half B, all met after the request's slot, count as selected."""
        met, amount = state.columns["met"][rows], history.amount(request)
        for each in np.unique(met).tolist():
            if each - request.slot >= self.window:
                continue
            who = rows[met == each]
            start = history.start(request.slot, each)
            word = self._word(state, who, each, randomness)
            hit = (word >= np.uint64(start)) & (word < np.uint64(start + amount))
            state.columns["selected"][who[hit]] = request.slot

    def _word(
        self, state: State, rows: NDArray[np.intp], met: int, randomness: Randomness
    ) -> NDArray[np.uint64]:
        """The keyed word (n,) below `WHOLE` of users who are met in this slot."""
        source = randomness.within(self._use).at(
            state.digests(rows), met, MEETING, nothing(len(rows))
        )
        words = source.words(len(rows), 2).astype(np.uint64)
        return np.asarray((words[:, 0] << np.uint64(30)) | (words[:, 1] >> np.uint64(2)))


def nothing(n: int) -> NDArray[np.int64]:
    """No integers that the words of a selection are bound to."""
    return np.empty((n, 0), np.int64)
