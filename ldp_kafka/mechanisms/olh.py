"""Optimal local hashing: send the category to one of a few cells by a public random function, then
say the cell by randomized response.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import (
    Certificate,
    Estimate,
    Law,
    check_categories,
    check_epsilon,
    check_reports,
    exp_below,
)
from ldp_kafka.mechanisms.frequencies import AffineSupport, FrequencyOracle
from ldp_kafka.mechanisms.grr import GeneralizedRandomizedResponse
from ldp_kafka.mechanisms.hashing import SEED_WORDS, LinearHash, check_prime
from ldp_kafka.randomness import Randomness

__all__ = ["OptimalLocalHashing"]

MOST_OUTPUTS = 2**20  # that a law may list


class OptimalLocalHashing(FrequencyOracle):
    """Report a hash function and a cell of it: that of the category with probability p, each other
    one with probability p / e^epsilon.

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**20; above some ten thousand take `Hadamard`: a collector's work grows
        with categories * min(categories, reports / g)
    prime : the number of residues of the hash functions, at least ``categories`` and 3, below
        2**21. Default: the least one; a larger one only makes more collisions

    Notes
    -----
    Wang, Blocki, Li and Jha, USENIX Security 2017, section 4.4: g = round(e^epsilon) + 1 cells,
    here at most prime - 1, and so few that reports stay below 2**53. The functions are those of
    `LinearHash`, drawn for each report and sent with it: the report is seed * g + cell. The cell is
    said by `GeneralizedRandomizedResponse` on g categories.

    Guarantee: the seed is independent of the category, and given the seed a report has weight
    ``truth`` or ``lie`` of that randomized response, whose ratio is at most e^epsilon. Every report
    is possible for every category.

    A report supports the categories that its function sends to its cell: the one behind it with
    probability p, any other with q = c p + (1 - c) p / e^epsilon, c the chance that two categories
    collide, the same for all pairs. So (share of supporting reports - q) / (p - q) is unbiased, but
    for the 2**-54 that the seeds are not uniform by; its variance given the values is (f p (1 - p)
    + (1 - f) q (1 - q)) / (p - q)^2 / n. With c = 1 / g, p = 1/2 and f = 0 it is the paper's 4
    e^epsilon / (e^epsilon - 1)^2 / n.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> m = lk.mechanism("olh", epsilon=1.0, categories=4)
    >>> m.perturb(np.array([0, 0, 3, 2]), lk.randomness.seeded(7)).tolist()
    [49, 5, 27, 27]
    """

    def __init__(self, epsilon: float, categories: int, *, prime: int | None = None) -> None:
        self.epsilon, self.categories = check_epsilon(epsilon), check_categories(categories)
        self.prime = check_prime(prime, self.categories)
        cells = min(
            round(exp_below(min(self.epsilon, 50.0))) + 1,
            self.prime - 1,
            2**53 // (self.prime * (self.prime - 1)),
        )
        self._family = LinearHash(self.categories, cells=cells, prime=self.prime)
        self._response = GeneralizedRandomizedResponse(self.epsilon, cells)
        _, self._truth, self._lie, self._word = self._response.tables()
        self._dtype = np.dtype(f"u{self._word.bit_length() // 8}").type
        p, other, c = (
            Fraction(self._truth, self._word),
            Fraction(self._lie, self._word),
            self._family.collision,
        )
        q = c * p + (1 - c) * other
        self._p, self._q, self._slope = float(p), float(q), float(p - q)

    def perturb_part(
        self, values: NDArray[np.int64], randomness: Randomness, first: int
    ) -> NDArray[np.int64]:
        words = randomness.words(
            len(values), SEED_WORDS + self._word.bit_length() // 32, first=first
        )
        seeds = self._family.draw(words[:, :SEED_WORDS])
        coin = np.ascontiguousarray(words[:, SEED_WORDS:]).view(self._dtype)[:, 0]
        keep = self._dtype(self._truth - self._lie)
        said = np.where(
            coin < keep,
            self._family.cell(seeds, values),
            ((coin - keep) // self._dtype(self._lie)).astype(np.int64),
        )
        return seeds * self._family.cells + said

    def law(self, value: int) -> Law:
        """The exact law. ConfigurationError where there are more than 2**20 possible reports."""
        seeds, cells = self._family.seeds, self._family.cells
        if not seeds * cells <= MOST_OUTPUTS:
            raise ConfigurationError(
                "categories and epsilon must make at most 2**20 possible reports for law to list"
                " them: P (P - 1) g, P the prime, g the cells"
            )
        hit = self._family.cell(np.arange(seeds), self.checked([value]))[:, None] == np.arange(
            cells
        )
        least, extra = self._family.weights
        weights = [
            least * self._lie,
            least * self._truth,
            (least + 1) * self._lie,
            (least + 1) * self._truth,
        ]
        kind = (2 * extra[:, None] + hit).reshape(-1)
        return Law(
            np.arange(seeds * cells),
            [weights[i] for i in kind.tolist()],
            2 ** (32 * SEED_WORDS) * self._word,
        )

    def certificate(self) -> Certificate:
        """The exact loss: that of the response on the cells, as no two categories
        always collide.
        """
        return self._response.certificate()

    def support(self, reports: NDArray[np.integer]) -> NDArray[np.int64]:
        """(n, number of reports that support each category). TypeError or ValueError where they are
        no reports of this mechanism.
        """
        indices = check_reports(reports, self._family.seeds * self._family.cells)
        return np.concatenate([[len(indices)], self._family.supporters(indices)]).astype(np.int64)

    def estimate_support(self, support: NDArray[np.int64], *, population: bool = False) -> Estimate:
        """Frequencies by inverting the affine law of the supporters."""
        n = int(support[0])
        if n == 0:
            return Estimate.unknown(self.categories)
        truth = (support[1:] / n - self._q) / self._slope
        return self.affine.stated(truth, support, population=population)

    def variance(self, frequency: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of one report's estimate of a category of that frequency, given the values; of n
        reports, a mean of n of them, it is this / n.
        """
        spread = self.affine.spread(np.asarray(frequency, np.float64))
        return np.asarray(spread / self._slope**2)

    @property
    def affine(self) -> AffineSupport:
        return AffineSupport(self._p, self._q)

    @property
    def index_range(self) -> tuple[int, int]:
        """Least and greatest report."""
        return 0, self._family.seeds * self._family.cells - 1

    def tables(self) -> tuple[int, ...]:
        """(categories, prime, cells, truth, lie, size of a word)."""
        return self.categories, self.prime, self._family.cells, self._truth, self._lie, self._word
