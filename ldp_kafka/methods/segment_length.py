"""How many slots a segment has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import Law, check_epsilon, check_numbers
from ldp_kafka.mechanisms.square_wave import SquareWave
from ldp_kafka.methods.contract import check_slots
from ldp_kafka.methods.made import checked_factory

__all__ = ["AUTO", "LONGEST", "choose_segments", "chosen_segment", "default_segment", "segment_of"]

AUTO = "auto"
LONGEST = 1024  # window of which it is chosen: about two seconds


def default_segment(window: int) -> int:
    """A third of the window, at least 2 slots where it has 2: few reports share the
    budget, and the stream still shows.

    Examples
    --------
    >>> default_segment(10), default_segment(30), default_segment(1)
    (3, 10, 1)
    """
    return min(window, max(2, round(window / 3)))


def choose_segments(
    values: Sequence[float] | NDArray[np.floating],
    epsilon: float,
    *,
    mechanism: Callable[..., Any] = SquareWave,
) -> int:
    """The number of samples n_s of a query that minimises n_s Var(n_s, epsilon) by enumeration
    (CAPP, eq. 12-13).

    Var is the variance of the sample variance of n_s reports, (mu_4 - sigma^4 (n_s - 3) / (n_s -
    1)) / n_s (the paper prints sigma^2 for sigma^4), with the exact moments of the reports of the
    segments' means at epsilon / n_s each, debiased (the raw reports of Square Wave spread less the
    less they say).

    Parameters
    ----------
    values : (T,) in [0, 1], T at least 2: a *public* stream of the kind; chosen from a user's own
        values, the number of its reports would tell of them
    epsilon : nats, for the whole query

    Returns
    -------
    n_s, 2..T; the segment is ``T // n_s`` slots

    Raises
    ------
    ConfigurationError : fewer than two values

    Examples
    --------
    >>> choose_segments(0.5 + 0.3 * np.sin(np.arange(12)), epsilon=1.0)
    2
    """
    stream = check_numbers(values)
    if not (stream.ndim == 1 and len(stream) >= 2):
        raise ConfigurationError("values must be one stream of at least two values")
    best, least = 2, inf
    for count in range(2, len(stream) + 1):
        length = len(stream) // count
        means = np.append(
            stream[: length * (count - 1)].reshape(-1, length).mean(1),
            stream[length * (count - 1) :].mean(),
        )
        objective = _spread_of_variance(
            mechanism(check_epsilon(epsilon) / count, (0.0, 1.0)), means, count
        )
        if objective < least:
            best, least = count, objective
    return best


def chosen_segment(
    window: int, epsilon: float, *, mechanism: Callable[..., Any] = SquareWave
) -> int:
    """The slots of a segment where a query is one window and nothing is known of its values: as
    CAPP does, `choose_segments` of the noisiest stream, which is 1 in every slot.

    Two segments a window up to about 30 nats: the less budget a report has the more its noise
    spreads, whatever the mean of a segment leaves out.

    Raises
    ------
    ConfigurationError : the window is longer than 1,024 slots

    Examples
    --------
    >>> [chosen_segment(24, epsilon) for epsilon in (1.0, 10.0, 100.0)]
    [12, 12, 6]
    """
    if not window <= LONGEST:
        raise ConfigurationError(
            f"segment must be a number of slots where window is more than {LONGEST:,}: {AUTO} would"
            " try too many"
        )
    if window == 1:
        return 1
    return window // choose_segments(np.ones(window), epsilon, mechanism=mechanism)


def segment_of(segment: int | str | None, window: Any, epsilon: Any, mechanism: Any) -> int:
    """The slots of a segment: as given, `default_segment` (None) or `chosen_segment` (auto)."""
    if segment is None:
        return default_segment(check_slots(window, "window"))
    if segment == AUTO:
        return chosen_segment(
            check_slots(window, "window"),
            check_epsilon(epsilon),
            mechanism=checked_factory(mechanism, "mechanism"),
        )
    return check_slots(segment, "segment")


def _spread_of_variance(mechanism: Any, means: NDArray[np.float64], count: int) -> float:
    """n_s times the variance of the sample variance of unbiased reports of these values; each sum
    rounded once, so that every machine chooses the same.
    """
    low, high = (Law.of(mechanism.law(end)).mean() for end in (0.0, 1.0))
    given, times = np.unique(means, return_counts=True)
    laws = [Law.of(mechanism.law(mean)) for mean in given.tolist()]
    points = np.concatenate([np.asarray(law.support, np.float64) for law in laws]) / (high - low)
    weights = np.concatenate(
        [
            law.probabilities() * (number / len(means))
            for law, number in zip(laws, times, strict=True)
        ]
    )
    squares = np.square(points - fsum((weights * points).tolist()))
    second, fourth = (fsum((weights * each).tolist()) for each in (squares, squares * squares))
    return fourth - second * second * (count - 3) / (count - 1)
