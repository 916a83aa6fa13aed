"""What a method is, in itself: its name, what it protects and for how long, what it needs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, PRESENCE, Guarantee

__all__ = ["Description"]


class Description:
    """The description of a `Method`: what topologies, plans and checks are told of it."""

    name: str
    level: ClassVar[str] = "w-event"
    """``w-event``, or ``user``: a whole stream is hidden, and a ``horizon`` stands for the window.
    """
    kind: str = "numeric"
    """``numeric`` (needs a domain) or ``categorical`` (needs categories)."""
    default_mechanism: str = "square_wave"
    parameters: ClassVar[dict[str, str]] = {}
    """Parameters of its own, each with one line: what a topology may write beside the common ones.
    """
    statistics: tuple[str, ...] = ("mean", "per_user")
    """What its reports tell: of a crowd its ``mean`` or ``frequencies``, of each user its value
    (``per_user``). What a topology may release follows from that (`ldp_kafka.statistics`).
    """
    untold: ClassVar[dict[str, str]] = {}
    """Why its reports do not tell some of the others, in words."""
    holds: bool = False
    """Whether what was released last stands until the next report, the domain's midpoint before the
    first one: it does not report every slot.
    """
    pauses: bool = False
    """Whether a user is silent in some slots in any case: then a slot without a value is silence as
    well. Elsewhere what is no value is refused, unless it is said that there is none.
    """
    shrinks: ClassVar[bool] = False
    """Whether a release per user is drawn to the crowd's mean as far as noise hides it
    (`ldp_kafka.methods.shrinkage`), unless a topology wants it as it was reported.
    """
    ball: ClassVar[bool] = False
    """Whether values are vectors of a ball, which has a diameter and no domain."""
    phases: int = 0
    """In which users report a slot for a coordinator (`ldp_kafka.methods.protocols`); 0: there is
    none, a slot's sums are its release. Those after the first need a request.
    """
    delay: int = 0
    """Slots that a report may come after its own."""
    cover: bool = False
    """Whether a user reports a slot without a value as any other: presence is hidden, too."""
    window: int
    """Slots in the privacy window."""
    spend: int
    """What one report costs, in micro-epsilon."""
    epsilon: float
    """The budget of one window, nats."""
    calibration: str
    """``sound`` or ``published``."""

    @property
    def resolved(self) -> dict[str, Any]:
        """Its own parameters with what was chosen for those not given: what noise is bound to."""
        return {name: getattr(self, name) for name in sorted(self.parameters)}

    @property
    def memory(self) -> float:
        """Slots after a value's own in which reports still depend on it; ``inf`` if there is no
        bound.
        """
        return 0

    @property
    def run(self) -> int:
        """Slots of the ledger's sliding window, those in which reports can be that one window of
        changed values alters.
        """
        return self.window

    @property
    def influence(self) -> float:
        """Reports that one run of ``window`` changed values can reach."""
        return self.window + self.memory

    @property
    def reporting(self) -> float:
        """Share of the users who report in a slot in which any do, about."""
        return min(1.0, self.influence / self.window)

    @property
    def frequency(self) -> float:
        """Share of the slots in which any do."""
        return 1.0

    @property
    def stride(self) -> int:
        """Slots from one report of a user, or of a coordinate of its vectors, to the next."""
        return 1

    @property
    def dimension(self) -> int:
        """Coordinates of a value; 0 where values are single numbers or categories."""
        return 0

    @property
    def clipping(self) -> str:
        """What each statistic is of where a user's value is followed from one report to the next at
        some speed at most, in words; empty where it is followed wherever it goes.
        """
        return ""

    @property
    def segmenting(self) -> str:
        """How long its segments are, and what else could be chosen, in words; empty where it has
        none.
        """
        return ""

    def in_phase(self, slots: NDArray[np.int64], phase: int) -> NDArray[np.bool_]:
        """In which of these slots (n,) there can be reports of a phase; see `Step`."""
        return np.full(len(slots), phase == 0)

    @property
    def cost(self) -> int:
        """What a slot with a report costs, in micro-epsilon."""
        return self.spend

    @property
    def price(self) -> float:
        """What the first report of a user costs, in nats."""
        return self.spend / MICRO

    @property
    def guarantee(self) -> Guarantee:
        """The proven guarantee; for ``published`` computed from what is really spent, not from the
        paper.
        """
        true = self.epsilon if self.calibration == "sound" else self.spend * self.influence / MICRO
        hidden = PRESENCE if self.cover else "values"
        return Guarantee(
            "w-event", true, 0.0, self.window, self.influence, hidden, self.calibration
        )
