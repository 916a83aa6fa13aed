"""The users' side of a protocol: who answers which phase, and what it costs in whose ledger."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Account, Field, Guarantee, Ledger, State
from ldp_kafka.mechanisms.base import Estimate, check_told_apart, kind_of, report_width
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.estimates import Estimates
from ldp_kafka.methods.protocols.decider import Decider
from ldp_kafka.methods.protocols.history import History
from ldp_kafka.methods.protocols.ledgers import Ledgers
from ldp_kafka.methods.protocols.oracle import ORACLES, Oracle, scalar
from ldp_kafka.methods.protocols.request import FIRST, SECOND, Request
from ldp_kafka.methods.protocols.selection import Selection
from ldp_kafka.methods.step import REFUSED, SENT, SILENT, Step
from ldp_kafka.randomness import Digests, Randomness, use_of

__all__ = ["Responder", "statistics_of"]

KEPT = 1024  # forms that are kept, one a budget
EVERY = slice(None)  # of the rows: no copy of them
LAST = 2**61  # slots lie before it: their differences fit into 64 bits


class Responder(Method):
    """What the edge of many users does for a protocol, whatever its coordinator asks. `step` is the
    first phase of a slot, which needs no request.

    Parameters
    ----------
    protocol : whose terms it keeps

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

    Whether a user is selected is a function of its digest, the slot in which it was met and the
    fractions asked before, never of a value or of whether there is one later: who is often silent
    would be selected more often among those whose ledgers are free. Being selected uses up the
    user's turn, with or without a value, and is kept beside the ledger, in ``selected``
    (`Selection`).

    A user is met, ``met``, at its first value, or in the slot after the last request where that is
    later: a request closes its slot. What was asked before is looked up in a `History`.
    """

    calibration = "sound"
    pauses = True

    def __init__(self, protocol: Decider) -> None:
        self.protocol, self.terms = protocol, protocol.terms
        terms, oracle = self.terms, self.terms.oracle
        self.name, self.epsilon, self.window = protocol.name, protocol.epsilon, protocol.window
        self.values, self.spend, self.mechanism = oracle.values, terms.first, oracle.at(terms.first)
        self.kind = "numeric" if oracle.numeric else "categorical"
        self.default_mechanism = ORACLES[self.kind]
        self.statistics = statistics_of(self.kind, binned=protocol.distributions)
        self.phases = 2 if protocol.adaptive else 1
        self.ledger: Account = self
        self._forms: dict[int, Estimates] = {}
        if terms.second and not terms.population:
            reserved = Ledger(terms.window, terms.window * terms.first)
            self.ledgers = Ledgers(reserved, Ledger(terms.window, terms.second))
        else:
            shared = Ledger(terms.window, terms.budget)
            self.ledgers = Ledgers(shared, shared)
        self._uses: dict[tuple[int, int], bytes] = {}
        self.selection = Selection(terms) if terms.population and terms.second else None

    @property
    def influence(self) -> float:
        return self.protocol.influence

    @property
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee

    @property
    def fields(self) -> dict[str, Field]:
        """The arrays of its state: the slot of a user's last event, the first slot whose request it
        can answer, the last slot that it was asked for and that it was selected in, and the
        ledgers' entries.
        """
        names = ("last", "met", "asked", *(("selected",) if self.selection is not None else ()))
        slots = {name: Field("i8", initial=NEVER) for name in names}
        return {**slots, **self.ledgers.fields}

    def step(self, state: State, batch: Batch) -> Step:
        """`first` of users who were asked for nothing before."""
        return self.first(state, batch, self.history())

    def first(self, state: State, batch: Batch, history: History) -> Step:
        """Reports of the first phase of a slot, which needs no request. Users are met at their
        first value; of a user who has had none, nothing is noted and nothing is asked.

        Parameters
        ----------
        history : the requests so far; it is only read

        Raises
        ------
        ValueError : the slot is not later than the last one of each user; nothing was drawn
        """
        rows, slot, present = batch.rows, batch.slot, everybody(batch)
        last, met = state.columns["last"], state.columns["met"]
        if not (last[rows] < slot).all():
            raise ValueError("a user's slots must increase")
        strange = met[rows] == NEVER
        if strange.any():
            self.meet(state, rows[strange & present], slot, history, batch.randomness)
            last[rows[present | ~strange]] = slot
        else:
            last[rows] = slot
        users = state.digests(rows)
        asked = self.terms.turn(users, slot, self.terms.window) & present
        return self._answer(state, batch, asked, self.terms.first, FIRST, users)

    def second(self, state: State, batch: Batch, request: Request, history: History) -> Step:
        """Reports that a request of the batch's slot asks for. The batch must have all users of the
        state, with a value or without. An invalid request is refused by everybody, and one
        of a slot that is not later than those before by whom it comes too late for. Users who have
        not been met have nothing to answer, and nothing is noted of them.

        A valid request is added to the history once, after all users of that history have been
        asked; an invalid one never.
        """
        rows, randomness = batch.rows, batch.randomness
        if not self.valid(request):
            return self._nothing(rows, request.cost, REFUSED)
        if request.slot != batch.slot:
            raise ValueError("a batch must be of the slot that is asked for")
        known = state.columns["met"][rows] != NEVER
        fresh = known.copy()
        fresh[known] = self.fresh(state, rows[known], request.slot)
        selected = np.zeros(len(rows), np.bool_)
        selected[fresh] = self.select(state, rows[fresh], request, history, randomness)
        asked = selected & everybody(batch)
        step = self._answer(state, batch, asked, request.cost, SECOND)
        step.status[known & ~fresh] = REFUSED
        return step

    def fresh(self, state: State, rows: NDArray[np.intp], slot: int) -> NDArray[np.bool_]:
        """Whose first request of this slot it is, and of no slot before the last one; notes it."""
        asked = state.columns["asked"]
        found: NDArray[np.bool_] = asked[rows] < slot
        asked[rows[found]] = slot
        return found

    def valid(self, request: Request) -> bool:
        """Whether a request is one of this protocol: of a slot that there can be, of a cost that
        its users pay, and of a fraction that is not below the public least one.
        """
        terms = self.terms
        slot, cost, share, of = request
        if not (-LAST < slot < LAST and 0 < share <= of and self.askable(cost)):
            return False
        if not terms.population:
            return share == of
        return share * terms.least[1] >= of * terms.least[0]

    def askable(self, cost: int) -> bool:
        """Whether a valid request can ask for a report of so many micro-epsilon."""
        terms = self.terms
        within = cost == terms.budget if terms.population else cost <= terms.second
        return bool(terms.second) and within and self.payable(cost)

    def payable(self, cost: int) -> bool:
        """Whether there is a mechanism of so many micro-epsilon, within the budget."""
        return 0 < cost <= self.terms.budget and self.terms.oracle.has(cost)

    def select(
        self,
        state: State,
        rows: NDArray[np.intp],
        request: Request,
        history: History,
        randomness: Randomness,
    ) -> NDArray[np.bool_]:
        """Which of these users (n,), all met, a valid request selects; notes it. All who have been
        met by its slot where the budget is divided; else see `Selection`.
        """
        if self.selection is None:
            return np.asarray(state.columns["met"][rows] <= request.slot)
        return self.selection.select(state, rows, request, history, randomness)

    def meet(
        self,
        state: State,
        rows: NDArray[np.intp],
        slot: int,
        history: History,
        randomness: Randomness,
    ) -> None:
        """Note users whose first value is of ``slot``, and what the requests so far ask of them."""
        slot = max(slot, history.last + 1)
        state.columns["met"][rows] = slot
        state.columns["asked"][rows] = history.last
        if self.selection is not None:
            self.selection.meet(state, rows, slot, history, randomness)

    def _answer(
        self,
        state: State,
        batch: Batch,
        asked: NDArray[np.bool_],
        cost: int,
        phase: int,
        users: Digests | None = None,
    ) -> Step:
        """Charge and draw for those who are asked; ``users`` are their digests, if known."""
        rows, slot, codes, randomness, _ = batch
        step = self._nothing(rows, cost, SILENT, phase)
        who = EVERY if asked.all() else np.flatnonzero(asked)
        if asked.any():
            check_told_apart(self.terms.oracle.at(cost), randomness)
        allowed = self.charge(state, rows[who], slot, cost, phase)
        if allowed.all():
            step.status[who], sent = SENT, who
        else:
            step.status[who] = np.where(allowed, SENT, REFUSED)
            sent = np.flatnonzero(step.status == SENT)
        use, oracle, inputs = self.terms.use, self.terms.oracle, codes[sent]
        bound = np.full((len(inputs), 2 if use is None else 1), cost, np.int64)
        bound[:, 0] = inputs
        source = randomness.within(self._use(phase, cost) if use is None else use).at(
            state.digests(rows[sent]) if users is None else users[sent], slot, phase, bound
        )
        drawn = oracle.at(cost).perturb(oracle.inputs(inputs), source)
        if drawn.dtype != step.answers.dtype:
            step = step._replace(answers=step.answers.astype(drawn.dtype))
        step.answers[sent] = drawn
        return step

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int, phase: int
    ) -> NDArray[np.bool_]:
        """What the phase's ledger says, True (n,) where it allows the cost."""
        return self.ledgers.charge(state, rows, slot, cost, phase)

    @property
    def budget(self) -> int:
        """Micro-epsilon that no user exceeds in any run of ``window`` slots."""
        return self.terms.budget

    def largest(self, state: State) -> int:
        """The most that any user has spent in its current run: see `Ledgers.largest`."""
        return self.ledgers.largest(state)

    def audit(self, state: State) -> tuple[int, int]:
        """Users over the budget, and users whose entries contradict: see `Ledgers.audit`."""
        return self.ledgers.audit(state)

    def tables(self) -> list[int]:
        terms = self.terms
        return [terms.first, self.window, self.window, terms.budget, *self.mechanism.tables()]

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        del phase  # reports say what they cost: these are of the first phase's cost
        return self.terms.oracle.support(self.spend, reports)

    def in_phase(self, slots: NDArray[np.int64], phase: int) -> NDArray[np.bool_]:
        return np.full(len(slots), FIRST <= phase < self.phases)

    def form(self, phase: int, cost: int) -> Estimates | None:
        if phase == FIRST:
            return super().form(phase, cost)
        if not (phase == SECOND < self.phases and self.payable(cost)):
            return None
        found = self._forms.get(cost)
        if found is None:
            if len(self._forms) >= KEPT:
                self._forms.clear()
            found = self._forms[cost] = _Form(self.terms.oracle, cost)
        return found

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        terms = self.terms
        found = terms.oracle.told(terms.first, support, population=terms.population).stated
        return found if self.kind == "categorical" else scalar(found)

    def history(self) -> History:
        """A fresh one, without requests."""
        return History(self.terms.window)

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
                [kind_of(mechanism), float(mechanism.epsilon)],
                [int(number) for number in mechanism.tables()]
                if hasattr(mechanism, "tables")
                else [],
            )
        return found


class _Form(Estimates):
    """What reads reports of the second phase, of one cost."""

    def __init__(self, oracle: Oracle, cost: int) -> None:
        self._oracle, self._cost = oracle, cost
        self.mechanism, self.values = oracle.at(cost), oracle.values

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        del phase  # its reports say what they cost: this reads those of one cost
        return self._oracle.support(self._cost, reports)


def statistics_of(kind: str, *, binned: bool) -> tuple[str, ...]:
    """What the reports of a protocol tell, of values of this kind."""
    if kind == "categorical":
        return ("frequencies",)
    return ("mean", "distribution") if binned else ("mean",)


def everybody(batch: Batch) -> NDArray[np.bool_]:
    """Who has a value (n,)."""
    return np.ones(len(batch.rows), np.bool_) if batch.present is None else batch.present
