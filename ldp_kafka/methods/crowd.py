"""Statistics of all users from releases per user: post-processing, so they cost no privacy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.reconstruction import Distribution, reconstruct
from ldp_kafka.mechanisms.window import Window
from ldp_kafka.methods.contract import Method
from ldp_kafka.methods.feedback import Feedback
from ldp_kafka.methods.shrinkage import Shrinkage

__all__ = ["Crowd", "distribution", "means"]


class Crowd(NamedTuple):
    """How a statistic is spread over users."""

    values: NDArray[np.float64]
    """(users,) in rising order, on the domain's scale; whose they are is gone."""
    domain: tuple[float, float]

    def quantiles(self, shares: ArrayLike) -> NDArray[np.float64]:
        """Values that these shares of the users (0..1) do not exceed; linear between users."""
        return np.asarray(np.quantile(self.values, np.asarray(shares, np.float64)))

    def histogram(self, bins: int = 20) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shares of the users (bins,) in equal bins of the domain, and the bins' edges
        (bins + 1,).
        """
        counts, edges = np.histogram(self.values, bins=bins, range=self.domain)
        return counts / max(len(self.values), 1), edges


def means(method: Method, releases: ArrayLike, *, slots: int | None = None) -> Crowd:
    """How the users' means over consecutive slots are spread.

    Parameters
    ----------
    releases : (users, slots) or (users,), as for `ldp_kafka.methods.shrinkage.shrink`

    Notes
    -----
    CAPP, section IV-C takes the released means themselves, whose spread is mostly noise; shrunk
    means are spread too little, since what noise hides is drawn to the middle. Here their mean and
    variance are brought to those of the prior (constrained empirical Bayes: Louis, JASA 1984), as
    far as reports tell that this brings them nearer to the users': where they tell nothing, the
    paper's rule stays (`ldp_kafka.methods.priors.matched`).

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("capp", epsilon=20.0, window=5, domain=(0.0, 1.0))
    >>> truth = np.random.default_rng(1).uniform(0.2, 0.8, 2000)
    >>> released = m.release(truth[:, None] * np.ones(5), lk.randomness.seeded(7))
    >>> found = means(m, released)
    >>> found.quantiles([0.1, 0.5, 0.9]).round(1).tolist()
    [0.3, 0.5, 0.7]
    """
    table = np.asarray(releases, np.float64)
    crowd = Shrinkage(method, table.shape[1] if table.ndim == 2 else 1, slots)
    index = crowd.index(table)
    crowd.update(index)
    return Crowd(np.sort(crowd.spread(index)), method.domain)


def distribution(
    method: Method, releases: ArrayLike, *, bins: int = 256, smooth: bool = True
) -> Distribution:
    """The distribution of the single values behind many users' reports, by expectation
    maximisation: `ldp_kafka.mechanisms.reconstruct`.

    Parameters
    ----------
    releases : of any shape, on the domain's scale; NaN where nothing was released
    bins, smooth : see `ldp_kafka.mechanisms.reconstruct`

    Returns
    -------
    `Distribution`, its edges on the domain's scale

    Raises
    ------
    ConfigurationError : the method feeds deviations back, so that its reports are of aims, not of
        values; or its mechanism keeps no order

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("sw_direct", epsilon=2.0, window=1, domain=(0.0, 10.0))
    >>> values = np.repeat([1.0, 5.0], [30_000, 10_000])[:, None]
    >>> released = m.release(values, lk.randomness.seeded(7))
    >>> distribution(m, released, bins=5, smooth=False).shares.round(1).tolist()
    [0.7, 0.0, 0.3, 0.0, 0.0]
    """
    if method.kind != "numeric" or not isinstance(method.mechanism, Window):
        raise ConfigurationError(
            "a distribution needs numbers from a mechanism that keeps their order, not"
            f" {type(method.mechanism).__name__}"
        )
    if isinstance(method, Feedback):
        raise ConfigurationError(
            f"{method.name} reports what it aims at, not values: their distribution needs sw_direct"
        )
    values = np.asarray(releases, np.float64).ravel()
    lo, hi = method.domain
    found = reconstruct(
        method.mechanism,
        method.mechanism.histogram((values[~np.isnan(values)] - lo) / (hi - lo)),
        bins=bins,
        smooth=smooth,
    )
    return found._replace(edges=lo + found.edges * (hi - lo))
