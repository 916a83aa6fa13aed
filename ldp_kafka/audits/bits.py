"""Reports of packed bits, bit by bit: which of them tells the inputs apart, and what all of them
tell together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.audits.bound import ALPHA, FEWEST, check_settings
from ldp_kafka.audits.result import AuditResult, Hits
from ldp_kafka.audits.views import as_reports, columns
from ldp_kafka.mechanisms import binomial

__all__ = ["Bit", "BitsResult", "audit_bits"]


class Bit(NamedTuple):
    """One bit: how often it was set."""

    epsilon_lower: float
    first: int
    second: int


@dataclass(frozen=True)
class BitsResult:
    """What each bit tells; all bounds hold together with probability 1 - alpha.
    Counts, no reports.
    """

    worst: AuditResult
    """The bit that tells most."""
    worst_bit: int
    composed: AuditResult
    """All bits together, where they are drawn independently of each other, as in unary encodings.
    """
    bits: tuple[Bit, ...]
    constant: tuple[int, ...]
    """Bits that never changed for either input: they tell nothing of these two. Unused bits of the
    last byte are here.
    """

    @property
    def violated(self) -> bool:
        """Whether one bit, or all of them, tell more than was claimed."""
        return self.worst.violated or self.composed.violated

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"bit {self.worst_bit}: {self.worst.lines()[0]}",
            *self.worst.lines()[1:],
            f"all bits, if independent: {self.composed.verdict}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "violated": self.violated,
            "worst_bit": self.worst_bit,
            "worst": self.worst.to_dict(),
            "composed": self.composed.to_dict(),
            "bits": [each._asdict() for each in self.bits],
            "constant": list(self.constant),
        }


def audit_bits(
    first: Any, second: Any, *, claimed: float | None = None, alpha: float = ALPHA
) -> BitsResult:
    """Lower bounds on the loss of each bit, and of all of them together.

    Parameters
    ----------
    first, second : reports of two inputs: packed bits (uint8, (n, bytes); bit 0 is the highest of
        the first byte), or columns of 0 and 1
    claimed : the epsilon that is promised for a whole report
    alpha : the probability with which any of the bounds may be above the true loss

    Notes
    -----
    Each bit has two probabilities, one an input, each with a Clopper-Pearson interval of two sides:
    4 bounds a bit, of alpha / (4 bits) each. The four likelihood ratios of a bit follow from them.
    Independent bits compose by addition, along one direction: the sum over bits of the larger of
    the two ratios' logarithms.

    Raises
    ------
    ValueError : anything but bits, reports of two widths, or too few of them

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> first, second = rng.random((2, 10_000, 3)) < 0.3
    >>> first[:, 2] = True  # a bit that is never cleared
    >>> audit_bits(first, second, claimed=1.0).lines()[0]
    'bit 2: epsilon is at least 6.878 with confidence 99 % (claimed 1): VIOLATED'
    """
    check_settings(claimed, 0.0, alpha)
    a, b = as_reports(first), as_reports(second)
    a, b = (each.reshape(-1, 1) if each.ndim == 1 else each for each in (a, b))
    if a.shape[1] != b.shape[1] or (a.dtype == np.uint8) != (b.dtype == np.uint8):
        raise ValueError("the reports of the two inputs must be of one kind")
    if min(len(a), len(b)) < FEWEST:
        raise ValueError(f"an audit needs at least {FEWEST} reports of each input")
    if not all(each.dtype == np.uint8 or np.isin(each, (0, 1)).all() for each in (a, b)):
        raise ValueError(
            "an audit of bits needs packed bits, or columns of 0 and 1; audit_reports takes any"
            " reports"
        )
    ones = np.array([[int(column.sum()) for column in columns(each)] for each in (a, b)])
    n = np.array([[len(a)], [len(b)]])
    part = alpha / (4 * ones.shape[1])
    low, high = binomial.lower(ones, n, part), binomial.upper(ones, n, part)
    # (direction, outcome set or cleared, bit): the logarithm of lower / upper
    ratios = np.array(
        [[_log(low[i], high[j]), _log(1 - high[i], 1 - low[j])] for i, j in ((0, 1), (1, 0))]
    )
    of_bit = np.maximum(ratios.max((0, 1)), 0.0)
    worst = int(of_bit.argmax())
    direction, outcome = (
        int(at) for at in np.unravel_index(int(ratios[:, :, worst].argmax()), (2, 2))
    )
    sums = np.maximum(ratios.max(1), 0.0).sum(1)
    name = ("first", "second")
    return BitsResult(
        AuditResult(
            float(of_bit[worst]),
            alpha,
            claimed,
            0.0,
            "each bit by itself; Clopper-Pearson, all bits together",
            f"bit {worst} is {'cleared' if outcome else 'set'}",
            _hits(ones, n, low, high, worst, direction, outcome=outcome, top=True),
            _hits(ones, n, low, high, worst, 1 - direction, outcome=outcome, top=False),
            name[direction],
        ),
        worst,
        AuditResult(
            float(sums.max()),
            alpha,
            claimed,
            0.0,
            "the sum over all bits, which must be independent of each other",
            "all bits",
            Hits(0, 0, 0.0),
            Hits(0, 0, 0.0),
            name[int(sums.argmax())],
        ),
        tuple(Bit(float(loss), int(x), int(y)) for loss, x, y in zip(of_bit, *ones, strict=True)),
        tuple(
            np.flatnonzero(
                ((ones == 0) | (ones == n)).all(0) & ((ones[0] == 0) == (ones[1] == 0))
            ).tolist()
        ),
    )


def _log(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(
        top > 0, np.log(np.maximum(top, 1e-300)) - np.log(np.maximum(bottom, 1e-300)), -np.inf
    )


def _hits(
    ones: Any, n: Any, low: Any, high: Any, bit: int, which: int, *, outcome: int, top: bool
) -> Hits:
    seen, trials = int(ones[which, bit]), int(n[which, 0])
    if outcome:
        return Hits(trials - seen, trials, 1 - float(high[which, bit] if top else low[which, bit]))
    return Hits(seen, trials, float(low[which, bit] if top else high[which, bit]))
