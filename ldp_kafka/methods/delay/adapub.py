"""Groups of consecutive slots whose threshold follows how far releases err, and their medians."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, Field
from ldp_kafka.mechanisms.comparison import NoisyComparison
from ldp_kafka.mechanisms.sparse_vector import SparseVector
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import COMPARE, VALUE, DelayMethod
from ldp_kafka.methods.delay.contin import ContinGroup
from ldp_kafka.methods.delay.deviation import Deviating
from ldp_kafka.methods.delay.rows import Rows, Some
from ldp_kafka.methods.values import FIXED

__all__ = ["AdaPub"]

PROPORTIONAL, INTEGRAL = 0.9, 0.1  # gains of the controller; the derivative's is 0
Floats = NDArray[np.float64]


class AdaPub(ContinGroup):
    """Perturb each value, and release the median of the noisy values of its group so far; a group
    ends where its deviation is above a threshold that a controller sets anew for each slot.

    Parameters
    ----------
    epsilon, delay, domain, setting, smooth, contribution, window, calibration : see `DelayMethod`
    noise : ``point``: it has no other

    Notes
    -----
    AdaCluster of AdaPub (Wang, Yang, Ren, Zhao, Lam, IPCCC 2019), a baseline of the delay-allowed
    paper (its Table III). One part of epsilon in five goes to the groups. With r the release
    before, y the noisy value of now and s the *unit*, the feedback error is E = |r - y| / max(y,
    s), the controller's D = 0.9 E + 0.1 (mean of E over the group so far), and the threshold theta
    = s max(1, D^2 / epsilon). Else it is PeGaSus (`ContinGroup`): who is rejected is alone, the
    next value founds a group. It needs no delay; it is released with its window so that it can be
    compared, and smoothed, like the others. AdaPub's own text was not to be had: this follows
    public re-implementations of it. In one of them a line keeps every value out of groups, so that
    it is naive noise at four fifths of epsilon, which is what Table III prints.

    It differs from AdaPub, as far as these have it, in that it has one dimension and no DimParti;
    that epsilon is for one value and not for those of a window; that a group ends with its window;
    that a median is of noisy values, where theirs is of the group's earlier releases and the noisy
    value of now; that values count from the domain's lower end; that the unit is one reach, how far
    one value moves, as 1 is for counts; and that tests are the sparse vector technique's.
    ``published`` has 1 in units of the domain, and their tests.

    Guarantee (``sound``). Thresholds theta follow from noisy values and earlier releases: given
    these they are the same numbers for two neighbours. A test compares the group's deviation minus
    theta, held within public bounds, with the group's noisy offset: a value moves that by less than
    2 reaches (`Deviating`), and holding brings no two numbers further apart. So all tests of one
    group, up to its first no, lose at most e_g (`SparseVector`, whose queries may be chosen after
    earlier answers), and one value is in the tests of one group (`ContinGroup`). It is perturbed
    once, at the rest of epsilon: epsilon over the endless stream.

    ``published`` has the original's tests, with noise Lap(2 reach / e_g) each and no noise on the
    threshold. One loses up to e_g, and a value is in as many as there are slots in a window but
    one: the guarantee states the rest of epsilon and e_g for each of them.

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("adapub", epsilon=200.0, delay=6, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [1.0, 1.0, 1.0, 9.1, 8.9, 9.0]
    """

    name = "adapub"
    medians: ClassVar[bool] = False  # it has no other
    noises: ClassVar[tuple[str, ...]] = ("point",)
    parameters: ClassVar[dict[str, str]] = {
        name: line for name, line in DelayMethod.parameters.items() if name != "truncation"
    }
    test: NoisyComparison | None = None

    def __init__(self, **parameters: Any) -> None:
        super(Deviating, self).__init__(**parameters)  # it has no theta

    def prepare(self) -> None:
        tests, sound = self.windows.span - 1, self.calibration == "sound"
        groups, values = self._split(shaped=tests > 0 or not sound)
        self._groups, self.vector = groups, None
        self.adder = SumNoise(values / MICRO, self.reach, FIXED)
        lo, hi = self.domain
        # lengths of the domain
        self._unit = self.reach / FIXED if sound else min(1.0, hi - lo) / (hi - lo)
        if not tests:
            return
        widest = self._widest
        if sound:
            self.vector = SparseVector(groups / MICRO, 2 * self.reach, 2 * widest, widest, tests)
        else:
            self.test = NoisyComparison(groups / MICRO, 2 * self.reach, -widest, widest)

    @property
    def loss(self) -> float:
        tests = 1 if self.vector is not None else self.windows.span - 1
        return (self._values + tests * self._groups) / MICRO

    def kept(self) -> dict[str, Field]:
        """Noisy values; the release before; of the open group the sum and number of its errors, and
        the threshold of now.
        """
        return {
            **super().kept(),
            "noisy": Field("i8", self.windows.span),
            "before": Field("f8"),
            "begun": Field("?"),
            "errors": Field("f8"),
            "size": Field("i8"),
            "theta": Field("i8"),
        }

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        place = window.place
        noisy = self.adder.perturb(values, window.at_random(some, VALUE, values))
        window.put("noisy", place, noisy, some)
        error = self._control(window, noisy / FIXED, some)
        window.put("value", place, values, some)
        founder = self._founders(window, values, some)
        stays = founder != window.slot
        window.set("errors", np.where(stays, window.get("errors")[some], 0.0) + error, some)
        window.set("size", np.where(stays, window.get("size")[some], 0) + 1, some)
        window.put("founder", place, founder, some)
        size = window.get("size")[some]
        median = self._median(window, founder, some)
        self.keep(window, place, median, self.adder.variance / FIXED**2 / size, some)
        window.set("before", np.clip(median, 0.0, 1.0), some)
        window.set("begun", True, some)

    def _control(self, window: Rows, noisy: Floats, some: Some) -> Floats:
        """Set the threshold of this slot; the feedback errors (m,)."""
        unit = self._unit
        away = np.abs(window.get("before")[some] - noisy) / np.maximum(noisy, unit)
        error = np.where(window.get("begun")[some], away, 0.0)
        size = window.get("size")[some]
        mean = window.get("errors")[some] / np.maximum(size, 1)
        control = PROPORTIONAL * error + INTEGRAL * mean
        theta = unit * np.maximum(1.0, control * control * (1 / (self.spend / MICRO)))
        most = self._widest / FIXED
        window.set("theta", (np.minimum(theta, most) * FIXED).astype(np.int64), some)
        return error

    def _stays(self, window: Rows, where: Some, deviation: NDArray[np.int64]) -> NDArray[np.bool_]:
        theta = window.get("theta")[where]
        if self.test is not None:
            room = theta - deviation
            return self.test.above(room, window.at_random(where, COMPARE, room))
        return super()._stays(window, where, deviation - theta + self._widest)

    def _begin(self, window: Rows, where: Some, count: int) -> None:
        if self.test is None:
            super()._begin(window, where, count)
        else:
            window.set("open", window.slot, where)

    def end(self, window: Rows) -> None:
        self._let_go(window)  # every value was perturbed when it came
