"""What many reports lose together: pure, approximate, zCDP and Gaussian composition, each an upper
bound that holds for adaptively chosen mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import erfc, exp, expm1, fsum, inf, lgamma, log, log1p, sqrt

from ldp_kafka.mechanisms.gaussian import analytic_delta

__all__ = [
    "approximate_delta",
    "approximate_epsilon",
    "basic",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_of_gaussian",
    "zcdp_of_pure",
]

MARGIN = 1e-9  # of a sum: more than the rounding errors of lgamma, exp and log of a C library
LARGEST = 700.0  # nats: e to more than this is no float


def basic(losses: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """(epsilon, delta) of mechanisms of (epsilon, delta) each: the sums, whatever the mechanisms
    are.

    Dwork and Roth 2014, theorem 3.16; with delta 0 pure composition, which is tight.

    Examples
    --------
    >>> basic([(0.5, 0.0), (0.25, 1e-6)])
    (0.75, 1e-06)
    """
    every = list(losses)
    return fsum(epsilon for epsilon, _ in every), fsum(delta for _, delta in every)


def approximate_delta(epsilon: float, delta: float, reports: int, total: float) -> float:
    """Delta at ``total`` nats of ``reports`` mechanisms of (``epsilon``, ``delta``) each: the least
    that holds for all such mechanisms.

    Kairouz, Oh and Viswanath, ICML 2015, theorem 3.3: no (epsilon, delta) mechanism composes worse
    than randomised response that fails openly with probability delta, so the answer is the
    hockey-stick divergence of k of these: 1 - (1 - delta)^k (1 - sum over j of C(k, j) [e^(j
    epsilon) - e^total e^((k - j) epsilon)]+ / (1 + e^epsilon)^k).

    Examples
    --------
    >>> approximate_delta(0.5, 0.0, 1, 0.5)
    0.0
    >>> round(approximate_delta(0.1, 0.0, 100, 4.0), 6)  # basic composition says 10 nats
    3.4e-05
    """
    bottom = reports * (epsilon + log1p(exp(-epsilon)))
    parts = []
    for j in range(reports + 1):
        gap = total - (2 * j - reports) * epsilon  # log of the second term over the first
        if gap < 0:
            ways = lgamma(reports + 1) - lgamma(j + 1) - lgamma(reports - j + 1)
            parts.append(exp(ways + j * epsilon - bottom) * -expm1(gap))
    pure = min(fsum(parts) * (1 + MARGIN), 1.0)
    if not delta or pure == 1:
        return pure
    return min(-expm1(reports * log1p(-delta) + log1p(-pure)) * (1 + MARGIN), 1.0)


def approximate_epsilon(epsilon: float, delta: float, reports: int, total_delta: float) -> float:
    """The least epsilon of ``reports`` mechanisms of (``epsilon``, ``delta``) each at
    ``total_delta``, rounded up; never above the basic sum.

    Examples
    --------
    >>> round(approximate_epsilon(0.1, 0.0, 100, 1e-5), 2)
    4.31
    """
    return min(
        _least(lambda total: approximate_delta(epsilon, delta, reports, total), total_delta),
        reports * epsilon if reports * delta <= total_delta else inf,
    )


def zcdp_of_pure(epsilon: float) -> float:
    """Rho of an epsilon-DP mechanism: epsilon^2 / 2 (Bun and Steinke, TCC 2016, proposition 1.4).
    Rhos of several mechanisms add up (lemma 1.7).

    Examples
    --------
    >>> zcdp_of_pure(0.5)
    0.125
    """
    return epsilon * epsilon / 2


def zcdp_of_gaussian(sigma: float, sensitivity: float = 1.0) -> float:
    """Rho of normal noise: sensitivity^2 / (2 sigma^2) (Bun and Steinke, TCC 2016, proposition
    1.6).

    Examples
    --------
    >>> zcdp_of_gaussian(2.0)
    0.125
    """
    return (sensitivity / sigma) ** 2 / 2


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Delta at ``epsilon`` of a rho-zCDP mechanism: the infimum over a > 1 of e^((a - 1)(a rho -
    epsilon)) (1 - 1/a)^a / (a - 1).

    Canonne, Kamath and Steinke, NeurIPS 2020, proposition 12 (every a gives a bound; the best is
    found by search).

    Examples
    --------
    >>> older = exp(-((3.0 - 0.125) ** 2) / (4 * 0.125))  # the bound of Bun and Steinke
    >>> zcdp_delta(0.125, 3.0) < older
    True
    """

    def bound(spread: float) -> float:  # spread = log(a - 1)
        more = exp(spread)
        a = 1 + more
        return more * (a * rho - epsilon) + a * log(more / a) - spread

    low, high = -30.0, 30.0
    for _ in range(200):  # the logarithm is convex in a: one least value
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if bound(left) < bound(right) else (left, high)
    return min(exp(min(bound((low + high) / 2), 0.0)) * (1 + MARGIN), 1.0)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The least epsilon that `zcdp_delta` gives at ``delta``, rounded up.

    Examples
    --------
    >>> older = 0.125 + 2 * sqrt(0.125 * log(1e5))  # Bun and Steinke, proposition 1.3
    >>> zcdp_epsilon(0.125, 1e-5) < older
    True
    """
    return _least(lambda epsilon: zcdp_delta(rho, epsilon), delta)


def gaussian_mu(mus: Iterable[float]) -> float:
    """Mu of several Gaussian mechanisms, mu = sensitivity / sigma of each: the root of the sum of
    squares, exactly as one Gaussian mechanism would lose.

    Dong, Roth and Su, JRSS B 2022, corollary 3.3: also where each is chosen, and its input made,
    from the outputs before.

    Examples
    --------
    >>> gaussian_mu([0.3, 0.4])
    0.5
    """
    return sqrt(fsum(mu * mu for mu in mus))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Delta at ``epsilon`` of a mu-Gaussian mechanism, rounded up.

    Balle and Wang, ICML 2018, theorem 8: Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 -
    epsilon / mu).

    Examples
    --------
    >>> round(gaussian_delta(1.0, 2**0.5 / 5.2759), 8)
    1e-05
    """
    if epsilon <= LARGEST:
        return analytic_delta(epsilon, 1 / mu)
    return erfc((epsilon / mu - mu / 2) / sqrt(2)) / 2 * (1 + MARGIN)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon of a mu-Gaussian mechanism at ``delta``, rounded up.

    Examples
    --------
    >>> round(gaussian_epsilon(2**0.5 / 5.2759, 1e-5), 4)
    1.0
    """
    return _least(lambda epsilon: gaussian_delta(epsilon, mu), delta)


def _least(delta_of: Callable[[float], float], delta: float) -> float:
    """The least epsilon of at least 0 whose delta, which falls with it, is at most ``delta``;
    rounded up.
    """
    if delta_of(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while not delta_of(high) <= delta:
        low, high = high, 2 * high
        if high > 2.0**40:
            return inf
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
    return high
