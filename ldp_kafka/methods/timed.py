"""Methods that hide when a value was taken, not what it is."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Guarantee
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Estimate
from ldp_kafka.methods.base import FIXED, SENT, SlotMethod
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.unstated import HIDDEN_TIME
from ldp_kafka.randomness import seeded

__all__ = ["GRID", "Timed", "on_grid"]

GRID = 2**20  # steps of the domain in which values are reported
_STEP = FIXED // GRID


def on_grid(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values in units of 2**-32 of the domain as reports: kept within the domain, rounded to a step
    of 2**-20.
    """
    return (np.clip(values, 0, FIXED) + _STEP // 2) // _STEP / GRID


class Timed(SlotMethod):
    """A method whose reports are the values themselves, or mixtures of them, at times that do not
    tell theirs.

    Notes
    -----
    Two streams are neighbours if they hold the same values and differ in when these were taken,
    inside one run of ``window`` slots only, and that no further than `within` says. The values are
    NOT hidden: anybody who reads the reports learns them, or what is as good. The mechanism
    perturbs a time (a period, a position), never a value, so its support says nothing of a crowd's
    mean: releases are per user.
    """

    pauses = True

    statistics = ("per_user",)

    @property
    def guarantee(self) -> Guarantee:
        """What truly holds of the time of the values; of the values themselves nothing does."""
        return Guarantee(
            "w-event",
            self.epsilon,
            0.0,
            self.window,
            self.influence,
            "time",
            self.calibration,
            self.within,
        )

    @property
    def within(self) -> str:
        """How far times may differ between neighbours, in words: a method that publishes values as
        they are hides no more than that.
        """
        raise NotImplementedError

    @property
    def scale(self) -> float:
        return 1 / GRID

    @property
    def index_range(self) -> tuple[int, int]:
        return 0, GRID

    def crowd(self, support: NDArray[np.int64]) -> Estimate:  # noqa: ARG002
        """Refused: what the mechanism perturbs is no value."""
        raise ConfigurationError(f"{self.name} has no crowd statistics: it perturbs times")

    @property
    def single_reason(self) -> str | None:
        return HIDDEN_TIME

    @cached_property
    def reliability(self) -> float:
        """Squared correlation of a release with the value of its own slot where values do not
        depend on each other, the least that a stream can have; by simulation with fixed words. Of
        vectors that of a coordinate.

        In integers until the last division, so that every CPU finds the same.
        """
        if self.dimension:
            return float(self.coordinate.reliability)
        length = 4 * (self.window + self.delay + 2)
        users = -(-8192 // length)
        rows = np.arange(users)
        values = np.random.default_rng(0).integers(0, GRID, (users, length)) * _STEP
        state, source = self.state(np.column_stack([rows, rows]).astype(np.uint64)), seeded(0)
        pairs = []
        for slot in range(length):
            step = self.step(state, Batch(rows, slot, values[:, slot], source))
            slots = np.full((users, 1), slot) if step.slots is None else step.slots
            sent = (step.status == SENT)[:, None] & (slots >= 0)
            row, _ = np.nonzero(sent)
            pairs.append(
                np.column_stack(
                    [
                        values[row, slots[sent]] // _STEP,
                        np.rint(step.answers.reshape(slots.shape)[sent] * GRID).astype(np.int64),
                    ]
                )
            )
        x, y = np.concatenate(pairs).T.tolist() if pairs else ([], [])
        n, sx, sy = len(x), sum(x), sum(y)
        xy = n * sum(a * b for a, b in zip(x, y, strict=True)) - sx * sy
        power = (n * sum(a * a for a in x) - sx * sx) * (n * sum(b * b for b in y) - sy * sy)
        return float(Fraction(xy * xy, power)) if power else 0.0

    def _moments(self, mechanism: Any) -> list[tuple[float, float]]:  # noqa: ARG002
        raise ConfigurationError(
            f"{self.name} perturbs times: its mechanism's law has no moments of a value"
        )
