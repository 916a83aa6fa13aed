"""CGM and its baselines for vectors of a ball."""

from __future__ import annotations

from typing import ClassVar

from ldp_kafka.methods.ball import BALL, Ball, VectorChain
from ldp_kafka.methods.base import FIXED
from ldp_kafka.methods.cgm import CorrelatedGaussian, reuse_ratios
from ldp_kafka.methods.chain import RATIO, Chain, check_bound
from ldp_kafka.methods.gaussian import GaussianDifferential
from ldp_kafka.methods.gaussian_stream import GaussianStream

__all__ = ["CorrelatedGaussianVector", "GaussianDifferentialVector", "GaussianDirectVector"]


class CorrelatedGaussianVector(Ball, CorrelatedGaussian):
    """Report each vector with noise that carries on that of the last report.

    Parameters
    ----------
    epsilon, delta, horizon, refresh, sigma, lag, mechanism : see `CorrelatedGaussian`; ``sigma`` is
        that of a coordinate, a share of the diameter
    dimension : coordinates, 1..127
    diameter : of the public L2 ball around 0; longer vectors are shortened to its surface
    differential_bound : C, the most that a stream moves from one report to the next, a share of the
        diameter in (0, 0.5)
    calibration : ``published`` clips as CGM's eq. 23 does

    Notes
    -----
    CGM, Algorithm 3, for d dimensions: variance (4C - 4C^2) / (1 - (1 - 2C)^(2i)) sigma_1^2 in each
    coordinate (eq. 15). Guarantee: the clipped vector lies on the line between the last clipped one
    and the new one, so in the ball, and at most C from the last: for two streams ||x~_i - r
    x~_(i-1)|| differs by at most (1 - r) + 2 C r, diameters of the ball that the mechanism holds
    its input in. `GaussianBudget` has the rest.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> budget = {"epsilon": 1.0, "delta": 1e-5, "horizon": 100}
    >>> m = lk.method("cgm_vector", dimension=2, diameter=10.0, **budget)
    >>> m.release(np.full((3, 2), 1.0), lk.randomness.seeded(7)).shape
    (3, 2)
    >>> round(m.variance(100) / m.variance(1), 3)
    0.19
    """

    name = "cgm_vector"
    parameters: ClassVar[dict[str, str]] = {
        **{name: line for name, line in CorrelatedGaussian.parameters.items() if name != "change"},
        **BALL,
    }

    def _chain(self) -> Chain:
        units = int(check_bound(self.differential_bound) * FIXED)
        return VectorChain(
            self.dimension, reuse_ratios(units / FIXED), units, self.calibration, self.lag
        )


class GaussianDirectVector(Ball):
    """Perturb each vector by itself, by normal noise in every coordinate.

    Parameters
    ----------
    epsilon, delta, horizon, refresh, sigma, dimension, diameter, mechanism : see
        `CorrelatedGaussianVector`
    calibration : see `SlotMethod`; both are the same

    Notes
    -----
    CGM, Algorithm 1, for d dimensions: variance sigma^2 in each coordinate. Guarantee: two vectors
    of the ball are a diameter apart at most, and `GaussianBudget` has the rest.

    Examples
    --------
    >>> import numpy as np, ldp_kafka as lk
    >>> budget = {"epsilon": 1.0, "delta": 1e-5, "horizon": 100}
    >>> m = lk.method("gaussian_direct_vector", dimension=2, diameter=10.0, **budget)
    >>> m.release(np.full((3, 2), 1.0), lk.randomness.seeded(7)).shape
    (3, 2)
    >>> m.variance(100) == m.variance(1)
    True
    """

    name = "gaussian_direct_vector"
    parameters: ClassVar[dict[str, str]] = {**GaussianStream.parameters, **BALL}

    def _chain(self) -> Chain:
        return VectorChain(self.dimension, [0], None, "sound", 1)


class GaussianDifferentialVector(Ball, GaussianDifferential):
    """Perturb by how much each vector differs from the last, and add up.

    Parameters
    ----------
    epsilon, delta, horizon, refresh, sigma, dimension, diameter, mechanism : see
        `CorrelatedGaussianVector`
    differential_bound, calibration : see `CorrelatedGaussianVector`

    Notes
    -----
    CGM, Algorithm 2, for d dimensions: variance sigma^2 (1 + 4 C^2 (i - 1)) in each coordinate of
    report i. Guarantee: consecutive clipped vectors are within C, so that for two streams their
    differences are 2 C apart at most: a call of the mechanism in those lengths.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> budget = {"epsilon": 1.0, "delta": 1e-5, "horizon": 100}
    >>> m = lk.method("gaussian_differential_vector", dimension=2, diameter=10.0, **budget)
    >>> round(m.variance(51) / m.variance(1), 3)
    1.5
    """

    name = "gaussian_differential_vector"
    parameters: ClassVar[dict[str, str]] = {**GaussianDifferential.parameters, **BALL}

    def _chain(self) -> Chain:
        units = int(self.differential_bound * FIXED)
        return VectorChain(self.dimension, [0, RATIO], units, self.calibration, 1)
