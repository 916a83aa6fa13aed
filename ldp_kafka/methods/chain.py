"""A user's reports as a chain: each carries on a share of the one before, noise and all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, State
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_number
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.batch import Batch

__all__ = ["RATIO", "Aimed", "Chain", "check_bound"]

RATIO = 2**24  # units of a reuse ratio: products with values stay below 2**58


class Aimed(NamedTuple):
    """What an input of the mechanism is a function of."""

    turn: NDArray[np.int64]
    """(n,) reports before it in its chain."""
    kept: NDArray[np.int64]
    """The clipped values x~."""
    before: NDArray[np.int64]
    """Those of the reports before."""

    def __repr__(self) -> str:
        return f"Aimed({len(self.turn)} rows)"  # never a value


class Chain:
    """The recursion of one user's reports: y_i = r_i y_(i-1) + (x~_i - r_i x~_(i-1)) + fresh noise.

    Parameters
    ----------
    ratios : r_1 = 0, r_2, ... in units of 2**-24; the last one stands for all later ones
    bound : C, the most that x~ moves from one report to the next, in units of 2**-32 of the domain;
        None: as far as it likes
    clip : ``sound`` moves x~ from the last x~ towards x by C at most, ``published`` from the last x
        (CGM, eq. 23)
    lag : interleaved chains, slot by slot

    Notes
    -----
    What is drawn is z = (x~_i - r_i x~_(i-1) + shift_i) / span_i in [0, 1] plus noise of the
    mechanism, so every step is a call of one mechanism with one table, and span_i says how much
    noise that is in lengths of the domain. All of z is a function of integers by single operations
    of IEEE floats: the same on every CPU.

    Sound: x~_i - r x~_(i-1) = (1 - r) x~_i + r (x~_i - x~_(i-1)) lies in [-C r, (1 - r) + C r] (the
    clipped value lies between the last one and x_i, so both in [0, 1] and within C of the last
    one): shift = C r, span = V = (1 - r) + 2 C r. That z stays within [0, 1] is for accuracy only:
    the mechanism clamps its input, so its sensitivity is 1 whatever is clipped how.

    Published: consecutive clipped values may differ by nearly 1 - 2 C, so x~_i - r x~_(i-1) lies in
    [-r, 1] only; noise is still V times that of the first report. There span is V * ``widest``,
    where widest = max (1 + r) / V makes room for all of it.
    """

    def __init__(self, ratios: Sequence[int], bound: int | None, clip: str, lag: int) -> None:
        self.lag, self.bound, self._raw = lag, bound, clip == "published"
        # how far below 0 the input may lie, in units of r
        far = FIXED if bound is None or self._raw else bound
        reach = FIXED if bound is None else bound
        self.ratios = np.array(ratios, np.int64)
        lengths = [(RATIO - r) * FIXED + 2 * reach * r for r in ratios]  # V, exactly
        rooms = [(RATIO + r) * FIXED for r in ratios] if self._raw else lengths
        self.widest = float(
            max(Fraction(room, length) for room, length in zip(rooms, lengths, strict=True))
        )
        self._shifts = np.array([r * far for r in ratios], np.float64)
        self._spans = np.array(lengths, np.float64) * self.widest
        self.lengths = [length / (RATIO * FIXED) for length in lengths]
        self.variances: list[float] = []
        for r, length in zip(ratios, self.lengths, strict=True):
            self.variances.append(
                (r / RATIO) ** 2 * (self.variances[-1] if self.variances else 0.0) + length * length
            )
        self.fields = {
            "count": Field("i4", lag),
            "kept": Field("i8", lag),
            "reported": Field("i8", lag),
        }
        if self._raw:
            self.fields["raw"] = Field("i8", lag)

    def reach(self, low: float, high: float, reports: int) -> float:
        """How far from 0 any of so many reports can lie, in lengths of the domain, where the
        mechanism's answers lie in [low, high].
        """
        fresh, most, before = self.fresh(low, high), 0.0, 0.0
        for ratio, new in islice(
            chain(
                zip(self.ratios.tolist(), fresh.tolist(), strict=True),
                repeat((int(self.ratios[-1]), float(fresh[-1]))),
            ),
            reports,
        ):
            before = before * ratio / RATIO + new
            most = max(most, before)
        return most * (1 + 2**-20)

    def fresh(self, low: float, high: float) -> NDArray[np.float64]:
        """How far from 0 the part of each report can lie that is not carried on, in lengths of the
        domain, where the mechanism's answers lie in [low, high].
        """
        return np.asarray(
            np.maximum(
                np.abs(low * self._spans - self._shifts), np.abs(high * self._spans - self._shifts)
            )
            / (RATIO * FIXED)
        )

    def aim(self, state: State, batch: Batch) -> tuple[NDArray[np.float64], Aimed]:
        """The mechanism's inputs z (n,), and the integers that they are a function of."""
        rows, slot, values = batch[:3]
        turn = state.columns["count"][slot % self.lag][rows].astype(np.int64)
        before = self._get(state, "kept", rows, slot)
        kept = self._clipped(
            values, turn, self._get(state, "raw", rows, slot) if self._raw else before
        )
        k = np.minimum(turn, len(self.ratios) - 1)
        inputs = (RATIO * kept - self._spread(self.ratios[k]) * before).astype(np.float64)
        inputs += self._spread(self._shifts[k])
        inputs /= self._spread(self._spans[k])
        return inputs, Aimed(turn, kept, before)

    def report(
        self, state: State, batch: Batch, aimed: Aimed, answers: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Y (n,) in units of 2**-32 of the domain, from the mechanism's answers to what `aim` gave;
        updates the rows.
        """
        rows, slot, values = batch[:3]
        k = np.minimum(aimed.turn, len(self.ratios) - 1)
        fresh = answers * self._spread(self._spans[k])
        fresh -= self._spread(self._shifts[k])
        reported = self._get(state, "reported", rows, slot) * self._spread(
            self.ratios[k].astype(np.float64)
        )
        reported += fresh
        reported /= RATIO
        whole: NDArray[np.int64] = np.rint(reported).astype(np.int64)
        state.columns["count"][slot % self.lag][rows] = aimed.turn + 1
        self._set(state, "reported", rows, slot, whole)
        if self.bound is not None:
            self._set(state, "kept", rows, slot, aimed.kept)
        if self._raw:
            self._set(state, "raw", rows, slot, values)
        return whole

    def _clipped(
        self, values: NDArray[np.int64], turn: NDArray[np.int64], around: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if self.bound is None:
            return values
        clipped: NDArray[np.int64] = np.where(
            turn == 0, values, np.clip(values, around - self.bound, around + self.bound)
        )
        return clipped

    def _get(self, state: State, name: str, rows: NDArray[np.intp], slot: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = state.columns[name][slot % self.lag][rows]
        return found

    def _set(
        self, state: State, name: str, rows: NDArray[np.intp], slot: int, values: NDArray[np.int64]
    ) -> None:
        state.columns[name][slot % self.lag][rows] = values

    def _spread(self, of_rows: NDArray[Any]) -> NDArray[Any]:
        """One number a row, in the shape of the values."""
        return of_rows

    def tables(self) -> list[int]:
        """The integers of the recursion: the last ratios stand for what they converge to."""
        return [
            self.lag,
            -1 if self.bound is None else self.bound,
            int(self._raw),
            len(self.ratios),
            int(self.ratios.sum()),
            int(self.ratios[-1]),
        ]


def check_bound(value: float) -> float:
    """``value`` as a share in (0, 0.5); TypeError or ConfigurationError otherwise."""
    number = check_number(value, "differential_bound")
    if not 2.0**-20 <= number < 0.5:
        raise ConfigurationError(
            "differential_bound must lie between 0 and 0.5, half of the domain, and not be below"
            " 2**-20"
        )
    return number
