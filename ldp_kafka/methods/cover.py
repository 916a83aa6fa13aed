"""Methods whose users report in every slot, with a value or without: reports hide which slots of a
user have values.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ldp_kafka.accounting import State
from ldp_kafka.methods.base import FIXED, SlotMethod, Step
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.values import CategoriesOrNone

__all__ = ["COVER", "Covering"]

COVER = {
    "cover": (
        "true: every user reports in each slot, also without a value, so that nobody sees which"
        " slots have one; a mean counts the domain's midpoint for a slot without a value; default:"
        " false"
    )
}


class Covering(SlotMethod):
    """Makes of a method whose reports depend on values alone one that can hide presence as well:
    mix in before it.

    Parameters
    ----------
    cover : whether a slot without a value is reported as any other. The mechanism is then given the
        domain's midpoint, or one more category, "none", which only it knows

    Raises
    ------
    TypeError : cover is neither true nor false

    Notes
    -----
    Guarantee: who reports in a slot does not depend on presence, and what the mechanism perturbs is
    a function of value and presence in its domain, or of one category more, for which it keeps its
    epsilon. So a change of both inside one run of ``window`` slots reaches the same reports as a
    change of values does, of which each loses what it loses there: epsilon and influence stay, for
    neighbours that may differ in presence. The ledger charges each of these reports, so that it
    allows the same ones whatever the presence. Noise is bound to what is perturbed, the number that
    stands for "none" as well: one draw a user and slot.

    A mean is then that of all users, each slot without a value as the midpoint. Frequencies are
    shares of all users, and add up to the share of those who have a value.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=30.0, window=3, domain=(0.0, 10.0), cover=True)
    >>> m.guarantee.protects
    'values and presence'
    >>> m.release(np.array([1.0, np.nan, 9.0]), lk.randomness.seeded(7)).round(1).tolist()
    [1.0, 5.0, 9.0]
    """

    parameters: ClassVar[dict[str, str]] = COVER

    def __init__(self, *, cover: bool = False, **parameters: Any) -> None:
        if not isinstance(cover, bool | np.bool):
            raise TypeError("cover must be true or false")
        self.cover = bool(cover)
        super().__init__(**parameters)
        if self.cover:
            # a release of one user would be of the midpoint where it has no value
            self.statistics = self.statistics[:1]

    def _shape(
        self, domain: tuple[float, float] | None, categories: int | None, calibration: str
    ) -> None:
        super()._shape(domain, categories, calibration)
        if self.cover and self.kind == "categorical":
            self.values = CategoriesOrNone(self.name, domain, categories)

    @property
    def resolved(self) -> dict[str, Any]:
        """Without ``cover`` where it is false: noise is bound to what it was before there was such
        a parameter.
        """
        found = super().resolved
        if not self.cover:
            found.pop("cover", None)
        return found

    @property
    def nothing(self) -> int:
        """The integer, beside those that `bound` gives, that stands for no value."""
        return FIXED // 2 if self.kind == "numeric" else self.categories

    def step(self, state: State, batch: Batch) -> Step:
        if self.cover and batch.present is not None:
            values = np.where(batch.present, batch.values, self.nothing)
            batch = batch._replace(values=values, present=None)
        return super().step(state, batch)
