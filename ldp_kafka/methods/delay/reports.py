"""What is known of the reports of windows: each is a release, on a grid."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field, State
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.delay.windows import Setting
from ldp_kafka.methods.unstated import MIXED_SLOTS
from ldp_kafka.methods.values import FIXED
from ldp_kafka.randomness import seeded

__all__ = ["ChargedOnce", "WindowReports"]

# of the simulation: its own error is a few per cent
_LEVELS, _STREAMS, _SLOTS = (np.linspace(0, 1, 5), 20, 96)


class WindowReports(Method):
    """The collector's part of a `DelayMethod`."""

    windows: Setting
    smooth: bool | Mapping[str, int]

    @property
    def scale(self) -> float:
        """Of reports at the edge: releases in units of it, from the domain's lower end."""
        return 1 / FIXED

    @property
    def index_range(self) -> tuple[int, int]:
        return 0, FIXED

    def index(self, released: NDArray[np.float64]) -> NDArray[np.int64]:
        """Releases (n,), inside the domain, as reports: post-processing."""
        lo, hi = self.domain
        found: NDArray[np.int64] = np.rint((released - lo) / (hi - lo) * FIXED).astype(np.int64)
        return found

    def support(self, reports: NDArray[Any], phase: int = 0) -> NDArray[np.int64]:
        """Their number: nothing is said of a crowd, whose mean of clipped releases is biased."""
        del phase
        return np.array([len(reports)])

    def blank(self, n: int) -> NDArray[Any]:
        return np.zeros(n, np.int64)

    def constant(self, levels: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
        """Of so many slots as three windows have, at most `_SLOTS`, or more."""
        return super().constant(levels, max(slots, min(3 * self.windows.span, _SLOTS)))

    @property
    def reason(self) -> str | None:
        """Why its releases state no error, a word of `ldp_kafka.methods.unstated.UNSTATED`; None
        where each slot's value has a noise of its own, whose law says how far the value can be.
        """
        return MIXED_SLOTS

    @property
    def unstated(self) -> str | None:
        """Why its releases state no error as it is set up: `reason`, or that its values are clamped
        to a threshold that nobody knows.
        """
        return self.reason

    @property
    def half_width(self) -> float:
        """Half the length of the 95 % interval around a slot's noisy value, in lengths of the
        domain: of methods whose `reason` is None alone.
        """
        raise NotImplementedError

    @property
    def single_reason(self) -> str | None:
        """At an edge a release is all that is known of its slot: what it was before it was smoothed
        is not.
        """
        return MIXED_SLOTS if self.smooth else self.unstated

    def single_limits(
        self, released: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lo, hi = self.domain
        half = self.half_width * (hi - lo)
        return np.maximum(released - half, lo), np.minimum(released + half, hi)

    @cached_property
    def _square(self) -> float:
        """Mean squared error of a release of a stream that does not move, at the worst of five
        levels, in lengths of the domain; simulated.
        """
        streams = self.constant(np.repeat(_LEVELS, _STREAMS), 1)
        lo, hi = self.domain
        square = ((self.release(streams, seeded(0)) - streams) / (hi - lo)) ** 2
        return float(square.reshape(len(_LEVELS), -1).mean(axis=1).max())

    @cached_property
    def single_error(self) -> float:
        lo, hi = self.domain
        return float((hi - lo) * self._square**0.5)

    @cached_property
    def reliability(self) -> float:
        return 1 / (1 + 12 * self._square)


class ChargedOnce:
    """The account of values that are charged once each, when their window closes: nothing has to be
    summed.

    Parameters
    ----------
    budget : micro-epsilon of one slot's value
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget

    @property
    def fields(self) -> dict[str, Field]:
        """None beside the method's own: a stream's last slot says which values were charged."""
        return {}

    def audit(self, state: State) -> tuple[int, int]:
        """See `Account.audit`: there is nothing that could contradict itself."""
        del state
        return 0, 0

    def largest(self, state: State) -> int:
        """See `Account.largest`."""
        some = (state.columns["last"][: state.count] != NEVER).any()
        return self.budget if some else 0
