"""What the seven protocols share: their parameters, and a run of both sides over whole streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State, micro
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import as_array, check_epsilon
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contexts import carried_on, contexts_of
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.made import checked_factory
from ldp_kafka.methods.protocols.coordinator import Coordinator, Released
from ldp_kafka.methods.protocols.decider import Decider
from ldp_kafka.methods.protocols.distributions import Binned, check_bins
from ldp_kafka.methods.protocols.history import History
from ldp_kafka.methods.protocols.oracle import Oracle
from ldp_kafka.methods.protocols.processing import Processing
from ldp_kafka.methods.protocols.responder import Responder
from ldp_kafka.methods.protocols.terms import Terms
from ldp_kafka.methods.protocols.trace import Trace
from ldp_kafka.methods.step import SENT, Step
from ldp_kafka.methods.values import Categories, Numbers
from ldp_kafka.randomness import Randomness

__all__ = ["Protocol"]

BLOCK = 16  # columns that are copied at a time


class BothSides(NamedTuple):
    """The state of a protocol between two slots: of its users' edges, and of its coordinator."""

    users: State
    coordinator: Coordinator
    history: History

    def __repr__(self) -> str:
        return "BothSides()"  # never a value, nor what was asked


class Protocol(Decider):
    """A release of crowd statistics that users and a coordinator agree on slot by slot.

    Parameters
    ----------
    epsilon : float in (0, inf), nats: the budget of one window, of each user
    window : slots in the privacy window, 1..65536
    oracle : factory ``(epsilon, unit domain or categories) -> Mechanism``
    categories : number of categories, whose frequencies are released
    domain : (lo, hi), public range of numbers, whose mean is released; values outside are clamped
        to it; one of the two must be given
    bins : equal bins of the domain, 2..256, public: the distribution of the numbers over them is
        released, not their mean; the oracle is square_wave, or another one that keeps the order of
        values
    norm_sub : project released frequencies on what frequencies can be. The squared error of all of
        them together never grows, but single ones are no longer unbiased: rare ones are too large
    merge : merge the first phase's estimate into a publication, in protocols that have two
    smooth : ``kalman`` releases where the truth is expected, given all estimates so far;
        ``exponential`` the mean of the release and of the smoothed one before; None what was
        published. `Processing` has what each gained: the first did no worse than None but with
        lsp, where it does not look between its slots; the second lags behind jumps

    Raises
    ------
    ConfigurationError, TypeError : a parameter is none of these; epsilon is too small for a report
        of this window

    Notes
    -----
    LDP-IDS; METHODS section 3. The two sides are apart: `responder` is what users' edges do,
    `coordinator` what is decided from merged sums, and `run` is both in a loop.

    What is made of publications (norm_sub, merge, smooth) costs no privacy, and no request depends
    on it. It is off by default, as in the paper: then what is published is unbiased, and has the
    standard error of its own reports. `Coordinator` has the errors of what is not.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        window: int,
        oracle: Callable[..., Any],
        categories: int | None = None,
        domain: tuple[float, float] | None = None,
        bins: int | None = None,
        norm_sub: bool = False,
        merge: bool = False,
        smooth: str | None = None,
    ) -> None:
        self.epsilon, self.window = check_epsilon(epsilon), check_slots(window, "window")
        make = checked_factory(oracle, "oracle")
        if (categories is None) == (domain is None):
            raise ConfigurationError(f"{self.name} needs either categories or a domain (lo, hi)")
        kind = Numbers if categories is None else Categories
        self.values = kind(self.name, domain, categories)
        self.processing, self.bins = Processing(norm_sub, merge, smooth), bins
        for switch, why in self.unfit(self.processing):
            raise ConfigurationError(f"{switch} {why}")
        budget = micro(self.epsilon)
        if not budget < 2**31:
            raise ConfigurationError("epsilon must be less than 2**31 micro-epsilon: 2147 nats")
        self.terms = self._terms(budget, self._oracle(make, bins))
        if not self.terms.first > 0:
            raise ConfigurationError(
                "epsilon must be large enough for one micro-epsilon a report in this window"
            )
        self.terms.oracle.at(self.terms.first)
        if self.adaptive:  # whatever it weighs must be known before anybody has reported
            self.terms.oracle.variance(self.terms.first)

    def _oracle(self, factory: Callable[..., Any], bins: int | None) -> Oracle:
        """What its users report with."""
        if bins is None:
            return Oracle(self.values, factory)
        if not isinstance(self.values, Numbers):
            raise ConfigurationError("bins are of a domain (lo, hi); categories are bins already")
        if not self.distributions:
            raise ConfigurationError(self.no_distributions())
        return Binned(self.values, factory, check_bins(bins))

    @abstractmethod
    def _terms(self, budget: int, oracle: Oracle) -> Terms:
        """Its terms, for a budget in whole micro-epsilon."""

    def responder(self) -> Responder:
        """What users' edges do."""
        return Responder(self)

    def state(self, users: NDArray[np.uint64]) -> BothSides:
        """A fresh state of both sides, with one row a user digest."""
        responder = self.responder()
        return BothSides(responder.state(users), self.coordinator(), responder.history())

    def run(
        self,
        streams: NDArray[Any],
        randomness: Randomness,
        users: Sequence[str | int] | None = None,
        first_slot: int | None = None,
        *,
        with_spent: bool = True,
        state: BothSides | None = None,
    ) -> Trace:
        """What is released of whole streams.

        A call without ``state`` begins every user's life: its ledgers know of no other call, and
        what several calls release of one user adds up. With the state of the call before, the
        guarantee is over all of them together, and they release what one call would have.

        A key with its ``context`` serves one stream of a user: each slot has one value under it,
        and two values of one slot would be told equal or not by their reports. Each further
        quantity needs a source of its own, ``lk.randomness.keyed(key, context=...)`` with another
        context.

        Parameters
        ----------
        streams : (users, T), category numbers with -1, or numbers with NaN, where a user has no
            value
        users : ids (text or whole numbers), the contexts of keyed noise, which needs them; default
            elsewhere: row numbers
        first_slot : slot number of the first column, at least 0; keyed noise needs it too, default
            elsewhere: 0
        state : of ``protocol.state(randomness.digests(users))``, or as earlier calls left it; it is
            updated in place, and its slots must be earlier ones
        with_spent : whether `Trace.spent` is kept, 4 bytes a value

        Raises
        ------
        TypeError, ValueError : streams are none, or hold what is no category or infinite (no value
            is shown); users are not distinct; a state of other users or of later slots; keyed noise
            without users or first slot
        """
        table = self._checked(streams)
        ids, first_slot = contexts_of(users, first_slot, len(table), randomness)
        digests, responder = randomness.digests(ids), self.responder()
        both = self.state(digests) if state is None else state
        rows = carried_on(both.users, digests)
        edges, coordinator, history = both
        slots = table.shape[1]
        spent = np.zeros((slots, len(table)), np.int32) if with_spent else None
        reports = np.zeros((slots, 2), np.int64)
        looked = np.full((2, slots), np.nan)
        released: list[Released] = []
        for t, column in enumerate(_columns(table)):
            codes, present = self._coded(column)

            def folded(step: Step, cost: int, phase: int, t: int = t) -> NDArray[np.int64] | None:
                sent = step.status == SENT
                count = reports[t, phase] = np.count_nonzero(sent)
                if not count:
                    return None
                if spent is not None:
                    spent[t] += sent * np.int32(cost)
                answers = step.answers if count == len(sent) else step.answers[sent]
                return self.terms.oracle.support(cost, answers)

            slot = first_slot + t
            batch = Batch(rows, slot, codes, randomness, present)
            step = responder.first(edges, batch, history)
            verdict = coordinator.decide(slot, folded(step, self.terms.first, 0))
            looked[:, t] = verdict.dissimilarity, verdict.error
            sums = None
            if (request := verdict.request) is not None:
                step = responder.second(edges, batch, request, history)
                history.add(request)
                sums = folded(step, request.cost, 1)
            released.append(coordinator.release(sums))
        return Trace.of(
            released,
            len(coordinator.prior),
            looked,
            reports,
            None if spent is None else spent.T,
        )

    def _checked(self, streams: NDArray[Any]) -> NDArray[Any]:
        """Streams as a table (users, T) of what there can be."""
        if isinstance(self.values, Numbers):
            table = as_array(streams, "fiu", "streams must hold numbers")
            bad = bool(np.isinf(table).any())
            said = "values must be finite, or NaN where there is none"
        else:
            numbers = self.values.coded(streams)
            table = as_array(numbers, "iu", "streams must hold category numbers, integers")
            bad = table.size > 0 and not (
                table.min() >= -1 and table.max() < self.values.categories
            )
            said = f"categories must run from 0 to {self.values.categories - 1}, or be -1 for none"
        if table.ndim != 2:
            raise ValueError("streams must be (users, T)")
        if bad:
            raise ValueError(said)
        return table

    def _coded(self, column: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """One slot's values (n,) as integers, 0 where there is none, and whether there is one."""
        present = self.values.present(column)
        return self.values.bound(column if present.all() else np.where(present, column, 0)), present


def _columns(table: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The columns (n,) of a table, each in one piece: what lies a row apart is read as one line of
    the cache a value.
    """
    for start in range(0, table.shape[1], BLOCK):
        yield from np.ascontiguousarray(table[:, start : start + BLOCK].T)
