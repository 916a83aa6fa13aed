"""The mechanism for categories that says most, or is cheapest to send, at an epsilon and a number
of categories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_categories, check_epsilon, report_width
from ldp_kafka.mechanisms.grr import GeneralizedRandomizedResponse
from ldp_kafka.mechanisms.olh import OptimalLocalHashing
from ldp_kafka.mechanisms.subset import SubsetSelection
from ldp_kafka.mechanisms.unary import OptimizedUnaryEncoding

__all__ = ["adaptive"]

Chosen = (
    GeneralizedRandomizedResponse | OptimalLocalHashing | OptimizedUnaryEncoding | SubsetSelection
)

CANDIDATES: dict[str, Callable[..., Chosen]] = {
    "grr": GeneralizedRandomizedResponse,
    "olh": OptimalLocalHashing,
    "oue": OptimizedUnaryEncoding,
    "subset_selection": SubsetSelection,
}
FACTOR = 1.25  # of the least variance: what fewer bytes may cost
EQUAL = 1.001  # times the least variance is a tie: so much may differ by rounding to words


def adaptive(
    epsilon: float, categories: int, *, minimize: Literal["variance", "bytes"] = "variance"
) -> GeneralizedRandomizedResponse | OptimalLocalHashing | OptimizedUnaryEncoding | SubsetSelection:
    """The best of grr, olh, oue and subset_selection, as itself: what it is, its reports and its
    law are those of the mechanism chosen.

    Parameters
    ----------
    epsilon : float in (0, inf), nats
    categories : int in 2..2**20
    minimize : "variance", ties (up to a thousandth) to the fewer bytes; or "bytes": the fewest
        bytes of a report on the wire among those within 1.25 times the least variance, ties to the
        lesser variance

    Raises
    ------
    TypeError, ConfigurationError : a parameter is none of these, or no mechanism can be built with
        them

    Notes
    -----
    The rule of Wang, Blocki, Li and Jha, USENIX Security 2017, section 6 (randomized response up to
    about 3 e^epsilon + 2 categories), with the exact variances of the discrete mechanisms in place
    of a formula. They are compared at the frequency 1 / categories. Each variance is affine in the
    frequency, so this is the mean over all categories, whatever their frequencies are. The choice
    depends on public parameters only.

    Examples
    --------
    >>> type(adaptive(8.0, 1000)).__name__, type(adaptive(1.0, 1000, minimize="bytes")).__name__
    ('GeneralizedRandomizedResponse', 'OptimalLocalHashing')
    """
    epsilon, categories = check_epsilon(epsilon), check_categories(categories)
    if minimize not in ("variance", "bytes"):
        raise ConfigurationError('minimize must be "variance" or "bytes"')
    known = _candidates(epsilon, categories)
    least = min(variance for variance, _, _ in known)
    if minimize == "variance":
        return min((each for each in known if each[0] <= least * EQUAL), key=lambda each: each[1])[
            2
        ]
    return min(
        (each for each in known if each[0] <= least * FACTOR), key=lambda each: (each[1], each[0])
    )[2]


def _candidates(epsilon: float, categories: int) -> list[tuple[float, int, Chosen]]:
    """(variance of one report, bytes of one report, mechanism) of each that can be built."""
    known = []
    for build in CANDIDATES.values():
        try:
            mechanism = build(epsilon=epsilon, categories=categories)
        except (
            ConfigurationError
        ):  # epsilon is too small for its words, or the categories are too many for sets of them
            continue
        known.append((float(mechanism.variance(1 / categories)), _bytes(mechanism), mechanism))
    if not known:
        raise ConfigurationError("epsilon is too small for this many categories")
    return known


def _bytes(mechanism: Any) -> int:
    """Of a report in a batch on the wire: packed bits, or an integer of 32 or 64 bits."""
    return report_width(mechanism) or (4 if mechanism.index_range[1] < 2**31 else 8)
