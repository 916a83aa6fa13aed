"""The users' side of a protocol: who answers which phase, and what it costs in whose ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, BudgetLedger, Field, Ledger, State
from ldp_kafka.mechanisms.base import as_array, report_width
from ldp_kafka.methods.protocols.request import FIRST, SECOND, SELECTION, Request
from ldp_kafka.methods.protocols.terms import Terms
from ldp_kafka.methods.protocols.turns import in_second_half
from ldp_kafka.methods.step import REFUSED, SENT, SILENT, Step
from ldp_kafka.randomness import Randomness, use_of

__all__ = ["Responder"]

WORD = 2**32
LAST = 2**61  # slots lie before it: their differences fit into 64 bits


class Responder:
    """What the edge of many users does for a protocol, whatever its coordinator asks.

    Parameters
    ----------
    terms : the protocol's

    Notes
    -----
    No user spends more than the budget in any run of ``window`` slots (METHODS section 3):

    - Where the budget is divided, the first phase costs at most ``floor(budget / 2 window)`` in
      each slot, and the second has a ledger of its own of ``floor(budget / 2)``: what is reserved
      for the first phase no request can touch, and whether it is answered no request can alter.
    - Where users are divided, both phases are charged to one ledger of the whole budget, and every
      report costs all of it.

    A charge counts in the slot of the value, however late the request comes. A user answers one
    request a slot at most, the first that is valid, and requests in the order of their slots: two
    answers with one noise context and two budgets would tell the value. So whatever is charged to
    one ledger is charged in the order of slots, and no ledger needs a lag: the first phase of later
    slots, which may come before a request, is in another one, or in that of a user of half A, whom
    no request selects.

    Whether a user is selected is a function of its digest, the slot and the fractions asked before,
    never of a value or of whether there is one: who is often silent would be selected more often
    among those whose ledgers are free. Being selected uses up the user's turn, with or without a
    value, and is kept beside the ledger, in ``selected``.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.ledgers: dict[int, BudgetLedger] = (
            {
                FIRST: Ledger(terms.window, terms.window * terms.first),
                SECOND: Ledger(terms.window, terms.second),
            }
            if terms.second and not terms.population
            else dict.fromkeys((FIRST, SECOND), Ledger(terms.window, terms.budget))
        )
        self._uses: dict[tuple[int, int], bytes] = {}
        self._selection = use_of("protocol", terms.name, "selection", terms.budget, terms.window)

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of its state: the last slot of each phase, the last one that the user was
        selected in, and the ledgers' entries.
        """
        slots = {name: Field("i8", initial=NEVER) for name in ("opened", "asked", "selected")}
        entries = {
            self._entry(phase, name): field
            for phase, ledger in self.ledgers.items()
            for name, field in ledger.fields.items()
        }
        return {**slots, **entries}

    def state(self, users: NDArray[np.uint64]) -> State:
        """A fresh state with one row a user digest."""
        return State(self.fields, as_array(users, "u", "users must be digests (n, 2), not ids"))

    def first(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        codes: NDArray[np.int64],
        present: NDArray[np.bool_],
        randomness: Randomness,
    ) -> Step:
        """Reports of the first phase of ``slot``, which needs no request.

        Parameters
        ----------
        rows : (n,) distinct users
        codes : (n,) their `Values.bound` values; any integer where there is none
        present : (n,) whether a user has a value

        Raises
        ------
        ValueError : the slot is not later than the last one of each user; nothing was drawn
        """
        opened = state.columns["opened"]
        if not (opened.take(rows) < slot).all():
            raise ValueError("a user's slots must increase")
        opened[rows] = slot
        turn = self.terms.turn(state.digests(rows), slot, self.terms.window)
        return self._answer(
            state, rows, slot, codes, turn & present, self.terms.first, FIRST, randomness
        )

    def second(
        self,
        state: State,
        rows: NDArray[np.intp],
        request: Request,
        codes: NDArray[np.int64],
        present: NDArray[np.bool_],
        randomness: Randomness,
    ) -> Step:
        """Reports that a request asks for; parameters as of `first`. An invalid request is refused
        by everybody, and one of a slot that is not later than those before by whom it comes too
        late for.
        """
        if not self.valid(request):
            return self._nothing(rows, request.cost, REFUSED)
        fresh = self.fresh(state, rows, request.slot)
        selected = np.zeros(len(rows), np.bool_)
        selected[fresh] = self.select(state, rows[fresh], request, randomness)
        step = self._answer(
            state,
            rows,
            request.slot,
            codes,
            selected & present,
            request.cost,
            SECOND,
            randomness,
        )
        step.status[~fresh] = REFUSED
        return step

    def fresh(self, state: State, rows: NDArray[np.intp], slot: int) -> NDArray[np.bool_]:
        """Whose first request of this slot it is, and of no slot before the last one; notes it."""
        asked = state.columns["asked"]
        found: NDArray[np.bool_] = asked.take(rows) < slot
        asked[rows[found]] = slot
        return found

    def valid(self, request: Request) -> bool:
        """Whether a request is one of this protocol: of a slot that there can be, of a cost that
        its users pay, and of a fraction that is not below the public least one.
        """
        terms = self.terms
        slot, cost, share, of = request
        if not (terms.second and -LAST < slot < LAST and 0 < share <= of and self.payable(cost)):
            return False
        if not terms.population:
            return share == of and cost <= terms.second
        return cost == terms.budget and share * terms.least[1] >= of * terms.least[0]

    def payable(self, cost: int) -> bool:
        """Whether there is a mechanism of so many micro-epsilon, within the budget."""
        return 0 < cost <= self.terms.budget and self.terms.oracle.has(cost)

    def select(
        self, state: State, rows: NDArray[np.intp], request: Request, randomness: Randomness
    ) -> NDArray[np.bool_]:
        """Which of these users (n,) a valid request selects; notes it. All where the budget is
        divided; else those of half B who were selected in no run that contains the slot, each by a
        keyed word of user and slot.
        """
        if not self.terms.population:
            return np.ones(len(rows), np.bool_)
        digests, slot = state.digests(rows), request.slot
        last = state.columns["selected"]
        free = in_second_half(digests) & (last.take(rows) <= slot - self.terms.window)
        who = np.flatnonzero(free)
        source = randomness.within(self._selection).at(
            digests[who], slot, SELECTION, np.empty((len(who), 0), np.int64)
        )
        words = source.words(len(who))[:, 0].astype(np.uint64)
        who = who[words < np.uint64(request.share * WORD // request.of)]
        last[rows[who]] = slot
        found = np.zeros(len(rows), np.bool_)
        found[who] = True
        return found

    def meet(
        self,
        state: State,
        rows: NDArray[np.intp],
        history: Sequence[Request],
        randomness: Randomness,
    ) -> None:
        """Note for users who are met late what past requests, valid and in the order of their
        slots, have selected them for, as if they had been there without a value.
        """
        for request in history:
            self.select(state, rows, request, randomness)
            state.columns["asked"][rows] = request.slot

    def _answer(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        codes: NDArray[np.int64],
        asked: NDArray[np.bool_],
        cost: int,
        phase: int,
        randomness: Randomness,
    ) -> Step:
        """Charge and draw for those who are asked."""
        step = self._nothing(rows, cost, SILENT, phase)
        who = np.flatnonzero(asked)
        allowed = self.charge(state, rows[who], slot, cost, phase)
        step.status[who] = np.where(allowed, SENT, REFUSED)
        sent = who[allowed]
        bound = np.empty((len(sent), 2), np.int64)
        bound[:, 0], bound[:, 1] = codes[sent], cost
        source = randomness.within(self._use(phase, cost)).at(
            state.digests(rows[sent]), slot, phase, bound
        )
        oracle = self.terms.oracle
        drawn = oracle.at(cost).perturb(oracle.inputs(codes[sent]), source)
        if drawn.dtype != step.answers.dtype:
            step = step._replace(answers=step.answers.astype(drawn.dtype))
        step.answers[sent] = drawn
        return step

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int, phase: int
    ) -> NDArray[np.bool_]:
        """What the phase's ledger says, True (n,) where it allows the cost."""
        ledger = self.ledgers[phase]
        part = State({})
        part.users, part.count = state.users, state.count
        part.columns = {name: state.columns[self._entry(phase, name)] for name in ledger.fields}
        return ledger.charge(part, rows, slot, cost)

    def _entry(self, phase: int, name: str) -> str:
        """The state's array of a ledger's field: its own for each ledger."""
        apart = self.ledgers[FIRST] is not self.ledgers[SECOND]
        return f"second_{name}" if apart and phase == SECOND else name

    def _nothing(self, rows: NDArray[np.intp], cost: int, status: int, phase: int = SECOND) -> Step:
        """What nobody has answered."""
        oracle = self.terms.oracle
        width = report_width(oracle.at(cost)) if oracle.has(cost) else 0
        n = len(rows)
        blank = np.zeros((n, width), np.uint8) if width else np.zeros(n, np.int64)
        return Step(blank, np.full(n, status, np.uint8), None, phase)

    def _use(self, phase: int, cost: int) -> bytes:
        """What noise is drawn within: the protocol, its phase, and the budget and the weight table
        of one report, so that reports of two budgets share no words.
        """
        found = self._uses.get((phase, cost))
        if found is None:
            terms, mechanism = self.terms, self.terms.oracle.at(cost)
            values = terms.oracle.values
            found = self._uses[phase, cost] = use_of(
                "protocol",
                terms.name,
                [phase, cost, terms.budget, terms.window],
                [getattr(values, name, None) for name in ("domain", "categories")],
                [type(mechanism).__qualname__, float(mechanism.epsilon)],
                [int(number) for number in mechanism.tables()]
                if hasattr(mechanism, "tables")
                else [],
            )
        return found
