"""The matrix mechanism for running sums and moving means: noise on a banded square root of sums."""

from __future__ import annotations

from functools import cached_property
from math import comb, isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field, Guarantee, micro
from ldp_kafka.mechanisms.base import Z, check_whole
from ldp_kafka.mechanisms.gaussian import check_delta
from ldp_kafka.mechanisms.gaussian_sums import GaussianSums
from ldp_kafka.methods.delay.base import VALUE
from ldp_kafka.methods.delay.closed import Closed
from ldp_kafka.methods.delay.rows import ALL, Rows, Some
from ldp_kafka.methods.delay.stream import StreamMethod
from ldp_kafka.methods.delay.windows import setting_of
from ldp_kafka.methods.values import FIXED

__all__ = ["MOST", "Matrix", "root"]

MOST = 1024  # values: a stream's state holds a few numbers for each
UNIT = 2**20  # an entry of the matrix is a multiple of 1 / UNIT
SETTLED = 32  # times ``bands``, after which the noise of a released sum no longer changes: to 1e-15
COURSE = (100, 1000, 10_000)  # values, after each of which `plan` shows the error of a sum
BANDS = 256  # of running sums, by default: 4 kB of state a stream


def root(bands: int) -> list[int]:
    """The first coefficients of (1 - x)^(-1/2), C(2k, k) / 4^k, in units of 2**-20, to the nearest:
    the first column of the square root of the matrix of running sums.

    Examples
    --------
    >>> [entry / 2**20 for entry in root(4)]
    [1.0, 0.5, 0.375, 0.3125]
    """
    return [(comb(2 * k, k) * 2 * UNIT // 4**k + 1) // 2 for k in range(bands)]


class Matrix(StreamMethod):
    """Release the running sum of a stream's values, or the mean of its last ones, at a curator: by
    a matrix mechanism, whose noise for many overlapping sums is far less than that of the values
    one by one.

    Parameters
    ----------
    epsilon, delta : nats, and (0, 1): what a change of the values of ``window`` consecutive slots
        loses, over everything that is ever released of the stream
    domain : (lo, hi), public range of a value: values outside are clamped to it
    moving_mean : release the mean of the stream's last n values, n of 1..1024; default: the sum of
        all values since its first
    bands : non-zero diagonals of the matrix, 1..1024; 1: noise on each value by itself. Default: of
        sums 256; of means half of ``moving_mean``, or 1 where that is less than six windows
    contribution : see `DelayMethod`
    window : consecutive slots whose values are hidden together, 1..65536
    calibration : both are the same

    Notes
    -----
    A = L R, A the lower triangular matrix of ones, R the lower triangular Toeplitz matrix of
    entries r_k, 0 <= k < bands: the first coefficients of (1 - x)^(-1/2), whose square is A
    (Fichtenberger, Henzinger and Upadhyay, Constant matters, ICML 2023), and no others (banded:
    Kalinin and Lampert, NeurIPS 2024). Of a stream's n-th value x_n, in lengths of the domain above
    its lower end, all that is drawn is y_n = sum_k r_k x_(n-k) + z_n, z_n normal and independent
    (`GaussianSums`). Released is L y, or the moving mean of R^-1 y: post-processing, whose floats
    cost nothing. R^-1 is a recursion over the last ``bands`` numbers, and stable, since r_k falls
    (Enestrom and Kakeya).

    Guarantee: neighbours have values in the same slots (`StreamMethod`), so a slot without a value
    is none of x: n counts values. Their values differ in one run of w slots, hence within w values
    in a row, by at most one ``contribution`` each. As r_k >= 0, R x differs by at most the entries
    of R 1_w, 1_w a run of w ones: in at most w + bands - 1 numbers, by at most ||R 1_w|| in the L2
    norm, at every place of the endless stream: more than sqrt(w) times the norm of one column. The
    r_k are multiples of 2**-20 and values of 2**-32, so R x is whole numbers, as `GaussianSums`
    takes them: on any other grid than that of z most outputs would be possible for one neighbour
    alone. A call that begins anew, without the values before, has 0 for some entries of R: its R x
    differs by less.

    The noise of a release is L z with the independent z, so its variance is known at each n
    (`variance`): of a sum it grows to the slope 1 / (sum_k r_k)^2 for each further value, where the
    values one by one have 1; of a moving mean it stays. Errors of two releases of a stream are
    correlated; each interval holds by itself.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> how = {"epsilon": 1.0, "delta": 1e-5, "domain": (0.0, 10.0), "contribution": 0.1}
    >>> m, alone = (lk.method("matrix", **how, bands=bands) for bands in (256, 1))
    >>> round(m.variance(1000) ** 0.5, 2), round(alone.variance(1000) ** 0.5, 2)
    (1.47, 11.95)
    >>> m.release(np.full(4, 5.0), lk.randomness.seeded(7)).round(1).tolist()
    [5.8, 11.0, 15.7, 21.9]
    """

    name = "matrix"
    default_mechanism = "gaussian"
    parameters: ClassVar[dict[str, str]] = {
        "delta": "probability that the loss exceeds epsilon, in (0, 1)",
        "moving_mean": "n: release the mean of a stream's last n values; default: the sum of all",
        "bands": "diagonals of the matrix; 1: noise on each value by itself; default: by the rest",
        "contribution": "how far one person moves a slot's value, at most; default: any change",
    }

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        domain: tuple[float, float],
        moving_mean: int | None = None,
        bands: int | None = None,
        contribution: float | None = None,
        window: int = 1,
        calibration: str = "sound",
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            domain=domain,
            windows=setting_of("batch", 1),
            contribution=contribution,
            window=window,
            calibration=calibration,
        )
        self._charge(micro(self.epsilon))
        self.delta = check_delta(delta)
        if moving_mean is not None:
            moving_mean = check_whole(moving_mean, "moving_mean", 1, MOST)
        self.moving_mean = moving_mean
        self.bands = check_whole(self._usual() if bands is None else bands, "bands", 1, MOST)
        self.prepare()

    def _usual(self) -> int:
        if self.moving_mean is None:
            return BANDS
        return max(self.moving_mean // 2, 1) if self.moving_mean >= 6 * self.window else 1

    def prepare(self) -> None:
        """Make what it draws with."""
        entries = root(self.bands)
        self._taps = np.array([*entries[1:], 0], np.int64)
        self.adder = GaussianSums(
            self.epsilon, self.delta, self.moved * self.reach, self.window + self.bands - 1
        )

    @property
    def moved(self) -> int:
        """||R 1_w|| for values that move by 1, in units of 2**-20, rounded up."""
        run = np.cumsum([*root(self.bands), *(0 for _ in range(self.window - 1))])
        run[self.window :] -= run[: -self.window]
        return isqrt(sum(entry * entry for entry in run.tolist()) - 1) + 1

    @property
    def influence(self) -> float:
        """Draws that a window of changed values can reach."""
        return self.window + self.bands - 1

    @property
    def guarantee(self) -> Guarantee:
        """The proven guarantee."""
        return Guarantee(
            self.level if self.window == 1 else "w-event",
            self.epsilon,
            self.delta,
            self.window,
            self.influence,
            "values",
            self.calibration,
            self._within,
            "stream",
        )

    @property
    def reason(self) -> None:
        return None

    @property
    def told(self) -> str:
        """What a release is, in words."""
        if self.moving_mean is None:
            return "the sum of a stream's values"
        return f"the mean of a stream's last {self.moving_mean} values"

    def course(self, reports: int) -> tuple[tuple[int, float], ...]:
        """How the standard error of a release goes on: (n, after n values of the stream)."""
        del reports
        after = COURSE if self.moving_mean is None else (SETTLED * self.bands + self.moving_mean,)
        return tuple((count, self.variance(count) ** 0.5) for count in after)

    @cached_property
    def alone(self) -> Matrix:
        """The same with noise on each value by itself: what the matrix is compared with."""
        given = {name: getattr(self, name) for name in (*self.parameters, "epsilon", "domain")}
        return Matrix(**given | {"window": self.window, "bands": 1})

    def kept(self) -> dict[str, Field]:
        """Of each of the next values what the last ones add to its row of R x (``ahead``), to be
        taken off its noisy row (``known``), and to its moving sum; and how many values there were.
        """
        recent = 1 if self.moving_mean is None else max(self.moving_mean - 1, 1)
        return {
            "count": Field("i8"),
            "ahead": Field("i8", len(self._taps)),
            "known": Field("f8", len(self._taps)),
            "recent": Field("f8", recent),
        }

    def _stepped(
        self, window: Rows, values: NDArray[np.int64], present: NDArray[np.bool_] | None
    ) -> Closed:
        some = ALL if present is None else np.flatnonzero(present[0])
        out = np.full((4, 1, window.count), np.nan)
        if window.size(some):
            out[:, 0, some] = self._of(window, values[0][some], some)
        return Closed(window.slot, *out)

    def _of(self, window: Rows, values: NDArray[np.int64], some: Some) -> tuple[Any, ...]:
        """Releases, standard errors and intervals of streams whose next values come."""
        sums = window.at("ahead", 0)[some] + UNIT * values
        _add(window, "ahead", self._taps[:, None] * values, some)
        value = self._noisy(window, sums, some) - window.at("known", 0)[some]
        _add(window, "known", self._taps[:, None] * (value / UNIT), some)
        total = window.at("recent", 0)[some] + value
        if self.moving_mean is None:
            window.put("recent", 0, total, some)
        else:
            ones = np.full((self.moving_mean - 1 or 1, 1), float(self.moving_mean > 1))
            _add(window, "recent", ones * value, some)
        count = window.get("count")[some] + 1
        window.set("count", count, some)
        return self._released(total, count)

    def _noisy(self, window: Rows, sums: NDArray[np.int64], some: Some) -> NDArray[np.float64]:
        """Rows of R x with their noise, in lengths of the domain: all that is drawn."""
        noisy = self.adder.perturb(sums, window.at_random(some, VALUE, sums))
        return np.multiply(noisy, self.adder.unit / (UNIT * FIXED))

    def _released(
        self, total: NDArray[np.float64], count: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], ...]:
        """Of noisy sums of values, in lengths of the domain above its lower end, each after
        ``count`` values of its stream: in units of the domain, held within the range of
        the sum or mean.
        """
        lo, hi = self.domain
        held = count if self.moving_mean is None else np.minimum(count, self.moving_mean)
        parts = 1 if self.moving_mean is None else held
        half = Z * np.sqrt(self._variances(count)) * (hi - lo) / parts
        least, most = lo * held / parts, hi * held / parts
        released = np.clip(least + np.clip(total, 0, held) * (hi - lo) / parts, least, most)
        low, high = np.maximum(released - half, least), np.minimum(released + half, most)
        return released, half / Z, low, high

    def variance(self, count: int) -> float:
        """Of the noise of a release after ``count`` values of its stream, in squared units of the
        domain.
        """
        lo, hi = self.domain
        parts = 1 if self.moving_mean is None else min(count, self.moving_mean)
        return float(self._variances(np.array([count]))[0]) * ((hi - lo) / parts) ** 2

    def _variances(self, count: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of noisy sums, in squared lengths of the domain."""
        known, slope = self._rows
        far = np.maximum(count - len(known), 0)
        found: NDArray[np.float64] = known[np.minimum(count, len(known)) - 1] + slope * far
        return found

    @cached_property
    def _rows(self) -> tuple[NDArray[np.float64], float]:
        """Variances of the sums after 1, 2, ... values, and how much each further value adds: the
        squared norms of the rows of L, or of those of the moving sum, times that of z.
        """
        slots = SETTLED * self.bands + (self.moving_mean or 0)
        column, known = np.zeros(slots), np.zeros(len(self._taps))
        for at in range(slots):  # R^-1 of one 1
            column[at] = (at == 0) - known[0]
            known[:-1] = known[1:]
            known[-1] = 0
            known += self._taps / UNIT * column[at]
        column = np.cumsum(column)
        if self.moving_mean is not None:
            column[self.moving_mean :] -= column[: -self.moving_mean].copy()
        noise = self.adder.variance / (UNIT * FIXED) ** 2
        slope = 0.0 if self.moving_mean is not None else (UNIT / sum(root(self.bands))) ** 2
        return np.cumsum(column**2) * noise, slope * noise

    def tables(self) -> list[int]:
        return [self.reach, self.bands, *self.adder.tables()]


def _add(window: Rows, name: str, numbers: NDArray[Any], some: Some) -> None:
    """Move on by one value: of each of the next values what is due with it, and what this one adds
    (next values, n).
    """
    ring = window.ring(name)
    due = ring[:, some]
    moved = numbers.copy()
    moved[:-1] += due[1:]
    ring[:, some] = moved
