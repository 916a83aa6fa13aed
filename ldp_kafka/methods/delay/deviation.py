"""How far the values of a group lie apart: what PeGaSus and its kin group by."""

from __future__ import annotations

from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms.base import check_number
from ldp_kafka.methods.delay.base import DelayMethod
from ldp_kafka.methods.delay.groups import Grouped
from ldp_kafka.methods.delay.rows import Rows
from ldp_kafka.methods.values import FIXED

__all__ = ["AUTHORS_THETA", "Deviating"]

AUTHORS_THETA = 3.0
"""In units of the domain, whatever it is."""
MOST = 2.0**20


class Deviating(Grouped):
    """Groups of values whose deviation sum |x - mean| is below ``theta``, as far as a noisy test
    can tell.

    Notes
    -----
    The deviation of n values has sensitivity 2 (n - 1) / n < 2 reaches, and not 1 as the paper has
    it: of n equal values let one move by a reach r; the mean moves by r / n, and the deviation from
    0 to (n - 1) r / n + (n - 1) r / n. For any values: each |x - mean| is moved by the mean's move,
    at most r / n, and the one of the value that changed by (n - 1) r / n more.
    """

    share: ClassVar[int] = 5
    parameters: ClassVar[dict[str, str]] = {
        **DelayMethod.parameters,
        "theta": (
            "deviation at which a group ends, in lengths of the domain; default: a closed form"
        ),
    }

    def __init__(self, *, theta: float | None = None, **parameters: Any) -> None:
        self.theta = 0.0 if theta is None else check_number(theta, "theta")
        if not 0 <= self.theta <= MOST:
            raise ConfigurationError("theta must lie between 0 and 2**20 lengths of the domain")
        self._default_theta = theta is None
        super().__init__(**parameters)

    def _threshold(self, values: float, scale: float) -> int:
        """Theta in units of 2**-32 of the domain; default: the authors' where it is published, else
        what keeps the noise of the tests, of this scale in lengths of the domain, from ending more
        than half a group in a window, and the deviation that the noise of values hides.

        Parameters
        ----------
        values : epsilon of the values' noise
        """
        lo, hi = self.domain
        if self._default_theta:
            if self.calibration == "published":
                self.theta = min(AUTHORS_THETA / (hi - lo), MOST)
            else:
                hidden = self.reach / FIXED / values
                self.theta = min(hidden + scale * log(self.windows.span), MOST)
        return round(self.theta * FIXED)

    @property
    def _widest(self) -> int:
        """The largest deviation of a window's values, in units of 2**-32 of the domain."""
        return self.windows.span * FIXED // 2 + 1

    def kept(self) -> dict[str, Field]:
        return {**super().kept(), "value": Field("i8", self.windows.span)}

    def _deviation(
        self,
        window: Rows,
        where: NDArray[np.intp] | slice,
        founder: NDArray[np.int64],
        values: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Deviations (m,) of groups with these values, rounded down.

        Notes
        -----
        Those above the mean lie as far from it, together, as those below: the deviation is twice
        what the k largest of ``size`` values, with the sum s, are above the mean, and exactly 2 (s
        size - k total) / size. A whole number is above total / size if it is above total // size.
        """
        inside = window.ring("founder")[:, where] == founder
        size = np.add.reduce(inside, axis=0, dtype=np.int64) + 1
        above = window.ring("value")[:, where] * inside  # not inside: 0, which is above no mean
        total = np.add.reduce(above, axis=0) + values
        mean = total // size
        above -= mean
        np.maximum(above, 0, out=above)
        count = np.count_nonzero(above, axis=0) + (values > mean)
        higher = np.add.reduce(above, axis=0) + np.maximum(values - mean, 0) + mean * count
        # times the size: below 2**32 * 1025 * 1025
        return np.asarray(2 * (higher * size - total * count) // size)
