"""A protocol as the method of a topology: what a user's edge does in the first phase of a slot, and
what reports of either phase look like.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, Guarantee, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods import METHODS
from ldp_kafka.methods.base import SlotMethod, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.estimates import Estimates
from ldp_kafka.methods.protocols import PROTOCOLS, Protocol, Responder
from ldp_kafka.methods.protocols.history import History
from ldp_kafka.methods.protocols.oracle import scalar
from ldp_kafka.methods.protocols.request import FIRST, SECOND
from ldp_kafka.methods.values import VALUES

__all__ = ["ASKED", "ORACLES", "Asked", "names", "of_either_kind", "standing", "streamed"]

ORACLES = {"numeric": "hybrid", "categorical": "adaptive"}
"""By kind of values, the mechanism that a protocol's users report with where none is named."""


class Asked(SlotMethod):
    """What the edge of a topology does for a protocol: `step` is the first phase of a slot, which
    needs no request; the second one is `responder`'s.

    Parameters
    ----------
    epsilon, window, mechanism, domain, categories : of the protocol, whose oracle the mechanism is
    bins : of the protocol: what its collector sums reports for; users report the same without
    calibration : ``sound``, as the paper's protocols are

    Notes
    -----
    The guarantee is the `Responder`'s, whose ledgers keep it whatever a coordinator asks.
    """

    protocol_class: ClassVar[type[Protocol]]

    def __init__(
        self,
        *,
        epsilon: float,
        window: int,
        mechanism: Callable[..., Any],
        domain: tuple[float, float] | None = None,
        categories: int | None = None,
        bins: int | None = None,
        calibration: str = "sound",
    ) -> None:
        if calibration != "sound":
            raise ConfigurationError(
                f"calibration must be sound: {self.name} is sound as it was published"
            )
        self._given: dict[str, Any] = {"domain": domain, "categories": categories, "bins": bins}
        super().__init__(
            epsilon=epsilon,
            window=window,
            mechanism=mechanism,
            domain=domain,
            categories=categories,
        )
        self.ledger = _Ledgers(self.responder)

    def _prepare(self, mechanism: Callable[..., Any], budget: int) -> None:
        del budget
        self.protocol = self.protocol_class(
            epsilon=self.epsilon, window=self.window, oracle=mechanism, **self._given
        )
        self.responder = self.protocol.responder()
        terms = self.protocol.terms
        self.spend, self.mechanism = terms.first, terms.oracle.at(terms.first)
        self._forms: dict[int, Estimates] = {}

    @property
    def influence(self) -> float:
        return self.protocol.influence

    @property
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee

    @property
    def fields(self) -> dict[str, Field]:
        return self.responder.fields

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        del phase  # its reports say what they cost: this reads those of one cost
        return self.protocol.terms.oracle.support(self.spend, reports)

    def in_phase(self, slots: NDArray[np.int64], phase: int) -> NDArray[np.bool_]:
        return np.full(len(slots), FIRST <= phase < self.phases)

    def form(self, phase: int, cost: int) -> Estimates | None:
        if phase == FIRST:
            return super().form(phase, cost)
        if not (phase == SECOND < self.phases and self.responder.payable(cost)):
            return None
        found = self._forms.get(cost)
        if found is None:
            if len(self._forms) >= KEPT:
                self._forms.clear()
            found = self._forms[cost] = _Form(self, cost)
        return found

    def crowd(self, support: NDArray[np.int64]) -> Estimate:
        terms = self.protocol.terms
        found = terms.oracle.told(terms.first, support, population=terms.population).stated
        return found if self.kind == "categorical" else scalar(found)

    def step(self, state: State, batch: Batch) -> Step:
        """Reports of the first phase: of a protocol that asks for nothing all there are."""
        return self.responder.first(state, batch, History(self.window))

    def _step(self, state: State, batch: Batch) -> Step:
        return self.step(state, batch)


KEPT = 1024  # forms that are kept, one a budget


class _Form(Estimates):
    """What reads reports of the second phase, of one cost."""

    def __init__(self, method: Asked, cost: int) -> None:
        self._oracle, self._cost = method.protocol.terms.oracle, cost
        self.mechanism, self.values = self._oracle.at(cost), method.values

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        del phase  # its reports say what they cost: this reads those of one cost
        return self._oracle.support(self._cost, reports)


class _Ledgers:
    """A responder's ledgers as one: what they hold together. It is charged by the responder."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder

    @property
    def fields(self) -> dict[str, Field]:
        """All but the time of the last event: when it was asked, and what it spent."""
        return {name: field for name, field in self._responder.fields.items() if name != "last"}

    @property
    def budget(self) -> int:
        """Of one user in any run of ``window`` slots."""
        return self._responder.budget

    def charge(
        self, state: State, rows: NDArray[np.intp], slot: int, cost: int | NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Never: what a report costs is its phase's ledger's business."""
        del state, rows, slot, cost
        raise TypeError("the ledgers of a protocol are charged by its responder")

    def audit(self, state: State) -> tuple[int, int]:
        """See `BudgetLedger.audit`."""
        return self._responder.audit(state)

    def largest(self, state: State) -> int:
        """See `BudgetLedger.largest`."""
        return self._responder.largest(state)


_TELLS = {"numeric": ("mean", "distribution"), "categorical": ("frequencies",)}


def _asked(protocol: type[Protocol], kind: str) -> type[Asked]:
    return type(
        f"Asked{protocol.__name__}",
        (Asked,),
        {
            "__doc__": Asked.__doc__,
            "protocol_class": protocol,
            "name": protocol.name,
            "kind": kind,
            "statistics": _TELLS[kind] if protocol.distributions else _TELLS[kind][:1],
            "default_mechanism": ORACLES[kind],
            "phases": 2 if protocol.adaptive else 1,
        },
    )


ASKED: dict[tuple[str, str], type[Asked]] = {
    (name, kind): _asked(protocol, kind)
    for name, protocol in PROTOCOLS.items()
    for kind in VALUES
    if not (name in METHODS and METHODS[name].kind == kind)
}
"""By the names of a protocol and of the kind of its values. A method of that name and kind stands
for its protocol: its reports are the same.
"""


def names() -> list[str]:
    """All that a topology can run."""
    asked = {name for name, _ in ASKED}
    return sorted(asked | METHODS.keys())


def standing(method: Method) -> Protocol | None:
    """The protocol that a method is, or stands for; None where it is none.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> standing(lk.method("lpu", epsilon=1.0, window=4, categories=3)).name
    'lpu'
    """
    if isinstance(method, Asked):
        return method.protocol
    if not of_either_kind(method.name):
        return None
    return PROTOCOLS[method.name](
        epsilon=method.epsilon,
        window=method.window,
        oracle=lambda *_: method.mechanism,
        categories=method.categories,
    )


def of_either_kind(name: str) -> bool:
    """Whether what this name stands for is for numbers as well as for categories."""
    return name in PROTOCOLS


def streamed(name: str, kind: str) -> type[Method] | None:
    """What a topology runs as the method of this name; None where there is none.

    Parameters
    ----------
    kind : ``numeric`` where a domain is given, else ``categorical``: the protocols are for either

    Examples
    --------
    >>> streamed("lpa", "numeric").statistics, streamed("lpu", "categorical").name
    (('mean', 'distribution'), 'lpu')
    >>> streamed("capp", "categorical").kind, streamed("lpz", "numeric")
    ('numeric', None)
    """
    return ASKED.get((name, kind)) or METHODS.get(name)
