"""Noise added on a public grid: what the Laplace and the Gaussian mechanism share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import fsum, inf, nan

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.alias import WORD, AliasTable
from ldp_kafka.mechanisms.base import Estimate, Law, check_values, in_chunks, own, whole
from ldp_kafka.mechanisms.intervals import NoiseMoments, estimate_of
from ldp_kafka.randomness import Randomness

__all__ = ["CAP", "GRID", "WORDS", "AdditiveNoise", "Noise", "check_cells"]

# steps of the domain in which values are taken: stochastic rounding to the cells works with this
# many
GRID = 2**31
# secure words a number: one rounds it, two draw the noise, and the fourth comes with the cipher's
# block
WORDS = 4
CAP = 50.0  # nats: 64 bits cannot tell more apart, so a larger epsilon counts as this


@dataclass(frozen=True)
class Noise:
    """A symmetric integer law on -reach..reach: ``half[k]`` of 2**64 words for k and for -k; the
    ends stand for all that lies beyond.
    """

    half: tuple[int, ...] = field(repr=False)
    table: AliasTable = field(repr=False)

    @classmethod
    def of(cls, outer: list[int]) -> Noise:
        """From the weights of 1, 2, ..., reach; 0 gets what they leave. ValueError unless they fall
        from 0 to reach - 1: what the proofs of the guarantees rest on.
        """
        half = (WORD - 2 * sum(outer), *outer)
        if not all(near >= far > 0 for near, far in pairwise(half[:-1])) or outer[-1] <= 0:
            raise ValueError("the weights of a noise must be positive and fall with its size")
        return cls(half, AliasTable([*half[:0:-1], *half], start=-len(outer)))

    @property
    def reach(self) -> int:
        """The largest noise."""
        return len(self.half) - 1


class AdditiveNoise:
    """Index of the input's grid point, plus noise, held within a public range.

    Notes
    -----
    Inputs 0..N (``cells``), noise z in -R..R, R = N + S: the report is x + z, or an end of [-S, N +
    S] where it would lie outside. Every input reaches both ends, so the set of possible outputs is
    the same for all. What an end is reported as, ``beyond`` steps further out, is a public name for
    it.

    Values between two grid points are rounded to one of them without bias by one word; the law is
    then the integer mixture of the two, and no ratio and no hockey-stick divergence of mixtures
    exceeds the largest among their parts (joint convexity).
    """

    epsilon: float
    domain: tuple[float, float]
    scale: float
    cells: int
    width = 0  # a report is a number

    def _build(self, cells: int, noise: Noise, beyond: int = 0, middle: int = 0) -> None:
        self.cells, self.scale = cells, 1 / cells
        # reports count from the middle
        self._noise, self._beyond, self._middle = (noise, beyond, middle)
        self._spare = noise.reach - cells  # S
        self._low, self._high = np.int32(-self._spare), np.int32(cells + self._spare)
        self._round = GRID // cells  # steps of one cell
        self._shift = np.uint32(self._round.bit_length() - 1)

    def perturb(self, values: NDArray[np.floating], randomness: Randomness) -> NDArray[np.float64]:
        """Reports (n,) on the unit scale, whole multiples of ``scale``, for values (n,) of the
        domain. TypeError unless numbers, ValueError for NaN and infinities (the value is not
        shown).
        """
        return in_chunks(self.perturb_part, check_values(values), own(self, randomness))

    def perturb_part(
        self, values: NDArray[np.float64], randomness: Randomness, first: int
    ) -> NDArray[np.float64]:
        steps = self._snap(values)
        return np.multiply(
            self._draw(steps, randomness.words(len(values), WORDS, first=first)), self.scale
        )

    def _draw(self, steps: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.int32]:
        """Output indices (m,) for grid steps (m,), which are used up, from words (m, WORDS)."""
        words = np.ascontiguousarray(words)
        # up with the probability of what lies above the point
        steps += words[:, 0] & np.uint32(self._round - 1)
        steps >>= self._shift
        index = self._table.draw(words.view(np.uint64)[:, 1])
        index += steps.view(np.int32)
        np.clip(index, self._low, self._high, out=index)
        if self._beyond:
            index += np.int32(self._beyond) * (index == self._high)
            index -= np.int32(self._beyond) * (index == self._low)
        if self._middle:
            index -= np.int32(self._middle)
        return index

    def _snap(self, values: NDArray[np.float64]) -> NDArray[np.uint32]:
        """Values on the grid of 2**-31, rounded down."""
        if not np.isfinite(values).all():
            raise ValueError("values must be finite")
        lo, hi = self.domain
        scaled = np.clip(values, lo, hi)
        scaled -= lo
        scaled /= hi - lo  # hi is exactly 1: a product with the inverse could fall short of it
        scaled *= GRID
        return scaled.astype(np.uint32)

    def law(self, value: float) -> Law:
        """The exact law: a mixture of the two grid points' laws around the value."""
        return self._law(int(self._snap(check_values([value]))[0]))

    def _law(self, step: int) -> Law:
        point, part = divmod(step, self._round)
        here, there = self._weights(point), self._weights(min(point + 1, self.cells))
        return Law(
            (self._outputs - self._middle) * self.scale,
            [(self._round - part) * a + part * b for a, b in zip(here, there, strict=True)],
            WORD * self._round,
        )

    def _weights(self, point: int) -> list[int]:
        """Words that give each output index, at a grid point."""
        half, reach, spare = self._noise.half, self._noise.reach, self._spare
        full = [*half[:0:-1], *half]
        inner = full[reach - spare + 1 - point : reach + self.cells + spare - point]
        return [sum(half[spare + point :]), *inner, sum(half[spare + self.cells - point :])]

    @property
    def _table(self) -> AliasTable:
        return self._noise.table

    @cached_property
    def _outputs(self) -> NDArray[np.int64]:
        """Output indices, in order, from the lower end of the domain."""
        outputs = np.arange(int(self._low), int(self._high) + 1)
        outputs[0] -= self._beyond
        outputs[-1] += self._beyond
        return outputs

    @cached_property
    def _moments(self) -> NoiseMoments:
        """Of a report, in lengths of the domain: the noise's at the middle of it (elsewhere its
        ends differ by less than a ten-thousandth), and of the rounding its mean over a cell, 1/6.
        """
        share = np.array(self._weights(self.cells // 2), np.float64) / WORD
        squares = (self._outputs - self.cells // 2) ** 2.0
        variance, fourth = (fsum((share * each).tolist()) for each in (squares, squares * squares))
        return NoiseMoments(
            variance * self.scale**2,
            rounding=self.scale**2 / 6,
            kurtosis=fourth / variance**2 - 3,
        )

    def support(self, reports: NDArray[np.floating]) -> NDArray[np.int64]:
        """(n, sum of indices, sum of their squares), exact while the squares' sum stays below
        2**63, which 2**36 reports do not reach.
        """
        index = np.rint(np.asarray(reports) * self.cells).astype(np.int64)
        return np.array([len(index), index.sum(), (index * index).sum()])

    def estimate(self, reports: NDArray[np.floating], *, population: bool = False) -> Estimate:
        """Mean of the values behind the reports, on the domain."""
        return self.estimate_support(self.support(reports), population=population)

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """The mean itself, mapped to the domain: the noise has mean 0. Its limits are the noise's,
        whatever the values; with ``population`` a sample's too.
        """
        n, total, squares = (int(s) for s in support)
        if n == 0:
            return Estimate(nan, inf, 0)
        variance = (squares * n - total**2) / (n * max(n - 1, 1)) * self.scale**2
        return estimate_of(
            total / n * self.scale, variance, n, self._moments, population=population
        ).on(self.domain)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report in units of ``scale``."""
        return (
            int(self._low) - self._beyond - self._middle,
            int(self._high) + self._beyond - self._middle,
        )

    def tables(self) -> tuple[int, ...]:
        """(cells, spare, beyond, four integers of the noise table's SHA-256)."""
        return self.cells, self._spare, self._beyond, *self._table.digest()


def check_cells(cells: int | None, default: int) -> int:
    """``cells`` as a power of two in 1..2**16, ``default`` where it is None; TypeError or
    ConfigurationError otherwise.
    """
    if cells is None:
        return default
    if not (1 <= whole(cells, "cells") <= 2**16 and int(cells).bit_count() == 1):
        raise ConfigurationError("cells must be a power of two, at most 2**16")
    return int(cells)
