"""What the seven protocols share: their parameters, and a run of both sides over whole streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import State, micro
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_epsilon
from ldp_kafka.methods.contexts import carried_on
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
from ldp_kafka.methods.streams import Streams
from ldp_kafka.methods.values import Categories, Numbers
from ldp_kafka.randomness import Randomness

__all__ = ["Protocol"]


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

        Parameters
        ----------
        streams : (users, T), category numbers with -1, or numbers with NaN, where a user has no
            value
        users, first_slot : as `Method.release` takes them; what it says of calls and keys is so
            here: a second quantity needs ``lk.randomness.keyed(key, context=...)`` with another
            context
        state : of ``protocol.state(randomness.digests(users))``, or as earlier calls left it; it is
            updated in place, and its slots must be earlier ones
        with_spent : whether `Trace.spent` is kept, 4 bytes a value

        Raises
        ------
        TypeError, ValueError : streams are none, or hold what is no category or infinite (no value
            is shown); users are not distinct; a state of other users or of later slots; keyed noise
            without users or first slot
        """
        responder = self.responder()
        taken = Streams(responder, responder.bound, streams, randomness, users, first_slot)
        if len(taken.shape) != 2:
            raise ValueError("streams must be (users, T)")
        both = self.state(taken.digests) if state is None else state
        carried_on(both.users, taken.digests)
        edges, coordinator, history = both
        count, slots = taken.shape
        spent = np.zeros((slots, count), np.int32) if with_spent else None
        reports = np.zeros((slots, 2), np.int64)
        looked = np.full((2, slots), np.nan)
        released: list[Released] = []
        for t, batch in enumerate(taken.batches()):

            def folded(step: Step, cost: int, phase: int, t: int = t) -> NDArray[np.int64] | None:
                sent = step.status == SENT
                count = reports[t, phase] = np.count_nonzero(sent)
                if not count:
                    return None
                if spent is not None:
                    spent[t] += sent * np.int32(cost)
                answers = step.answers if count == len(sent) else step.answers[sent]
                return self.terms.oracle.support(cost, answers)

            step = responder.first(edges, batch, history)
            verdict = coordinator.decide(batch.slot, folded(step, self.terms.first, 0))
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
