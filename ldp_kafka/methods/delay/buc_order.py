"""Groups of slots whose values lie in one bucket of the domain, as far as they say."""

from __future__ import annotations

from math import ceil, exp, log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import MICRO, NEVER, Field
from ldp_kafka.mechanisms.base import check_whole
from ldp_kafka.mechanisms.grr import GeneralizedRandomizedResponse
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import ONCE, DelayMethod
from ldp_kafka.methods.delay.groups import Grouped
from ldp_kafka.methods.delay.rows import Rows, Some
from ldp_kafka.methods.values import FIXED

__all__ = ["BucOrder", "default_buckets"]

AUTHORS_WIDTH = 100.0
"""Of a bucket, in units of the domain, whatever it is."""
MOST = 2**16


def default_buckets(epsilon: float) -> int:
    """How many buckets put values that are spread evenly over the domain nearest to their
    releases, where the bucket is told with epsilon.

    Notes
    -----
    Of n buckets the right one is told with p = e^epsilon / (e^epsilon + n - 1); then a value lies a
    quarter of a bucket from its mean, else a third of the domain. The noise of a bucket's sum is
    spread over so many fewer values the more buckets there are, and it is smaller by as much: it
    does not matter.

    Examples
    --------
    >>> [default_buckets(epsilon) for epsilon in (0.1, 1.0, 2.5, 5.0)]
    [2, 2, 4, 11]
    """

    def distance(buckets: int) -> float:
        right = exp(epsilon) / (exp(epsilon) + buckets - 1)
        return right / (4 * buckets) + (1 - right) / 3

    return min(range(2, 65), key=distance)


class BucOrder(Grouped):
    """Say by randomised response in which bucket of the domain each value lies, and release the
    noisy mean of each bucket's values of a window.

    Parameters
    ----------
    epsilon, delay, domain, setting, noise, smooth, contribution, window, calibration : see
        `DelayMethod`
    buckets : parts of equal length of the domain, 1..65536; default: `default_buckets`; with
        ``published`` as many as are 100 units wide

    Notes
    -----
    The paper's Algorithm 5. One part of epsilon in four, e_g, goes to the buckets. A value is
    clamped into the bucket that was said before it is summed, so that a sum moves by no more than
    the width of a bucket: the paper sums raw values, of which a flipped one can be anything. A
    bucket's mean is clipped to the bucket.

    Guarantee (``sound``). Let one value x move by at most ``reach``. (1) The bucket that is said of
    it loses e_g, whatever it was and becomes (`GeneralizedRandomizedResponse`, which flips to one
    of the *other* buckets); what is said of other values does not depend on x. (2) Which slots make
    a group, and when it closes, follows from what was said. (3) Given that, x is in exactly one
    sum, clamped into its bucket: clamping brings two values no further apart, so it moves that sum
    by at most min(width, reach), which is the sum's sensitivity: the loss is the rest of epsilon.
    With ``noise: point`` the clamped value is perturbed itself, once. Together epsilon over the
    endless stream (adaptive composition).

    ``published`` flips to a bucket drawn evenly from all, the right one included, as the
    pseudo-code does: with n buckets that loses log(1 + n e^e_g / (n - 1)), above e_g; sums are raw,
    with noise of scale reach / (epsilon - e_g).

    Examples
    --------
    >>> import ldp_kafka as lk
    >>> m = lk.method("buc_order", epsilon=40.0, delay=6, buckets=2, domain=(0.0, 10.0))
    >>> stream = np.array([1.0, 9.0, 1.0, 9.0, 1.0, 9.0])
    >>> m.release(stream, lk.randomness.seeded(9)).round(1).tolist()
    [1.0, 9.0, 1.0, 9.0, 1.0, 9.0]
    """

    name = "buc_order"
    share: ClassVar[int] = 4
    parameters: ClassVar[dict[str, str]] = {
        **DelayMethod.parameters,
        "buckets": "parts of the domain; default: a closed-form choice",
    }
    flip: GeneralizedRandomizedResponse | None = None

    def __init__(self, *, buckets: int | None = None, **parameters: Any) -> None:
        self._given = None if buckets is None else check_whole(buckets, "buckets", 1, MOST)
        super().__init__(**parameters)

    def prepare(self) -> None:
        sound = self.calibration == "sound"
        self._width = self._wide()
        self.buckets = -(-FIXED // self._width)
        told, values = self._split(shaped=self.buckets > 1 or not sound)
        self._told = told / MICRO
        if not sound and self.buckets > 1:
            n = self.buckets
            self._told = log(1 + n * exp(min(self._told, 50.0)) / (n - 1))
        moved = min(self._width, self.reach) if sound else self.reach
        room = self._width if sound else FIXED
        self.adder = SumNoise(values / MICRO, moved, self.averaged * room)
        if self.buckets > 1:
            self.flip = GeneralizedRandomizedResponse(self._told, self.buckets)

    def _wide(self) -> int:
        """The width of a bucket, in units of 2**-32 of the domain."""
        if self._given is not None:
            return -(-FIXED // self._given)
        if self.calibration == "sound":
            part = self.spend // self.share / MICRO
            return -(-FIXED // default_buckets(part))
        lo, hi = self.domain
        wide = ceil(min(AUTHORS_WIDTH / (hi - lo), 1.0) * FIXED)
        return max(wide, FIXED // MOST)

    @property
    def reached(self) -> float:
        return 2

    @property
    def loss(self) -> float:
        return self._values / MICRO + (self._told if self.buckets > 1 else 0.0)

    def kept(self) -> dict[str, Field]:
        """The bucket that was said of each slot's value."""
        return {**super().kept(), "bucket": Field("i8", self.windows.span)}

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        bucket = np.minimum(values // self._width, self.buckets - 1)
        if self.flip is not None:
            bucket = self.flip.perturb(bucket, window.at_random(some, ONCE, bucket))
        window.put("bucket", window.place, bucket, some)
        founder = self._founders(window, bucket, some)
        if self.calibration == "sound":  # from the bucket's lower end
            values = np.clip(values - bucket * self._width, 0, self._width)
        self._join(window, founder, values, some)

    def _founders(self, window: Rows, bucket: NDArray[np.int64], some: Some) -> NDArray[np.int64]:
        """The founder of the open group of each of these buckets; the slot where there is none."""
        slot = window.slot
        first = slot - self.delay if self.setting == "sliding" else slot - slot % self.delay
        founder = window.ring("founder")[:, some]
        same = window.ring("bucket")[:, some] == bucket
        same &= founder >= first
        # all slots of one open group have one founder
        found = np.where(same, founder, NEVER).max(axis=0)
        return np.where(found == NEVER, slot, found)

    def _shaped(
        self,
        window: Rows,
        some: NDArray[np.intp],
        place: NDArray[np.intp],
        noisy: NDArray[np.int64],
        count: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Inside the bucket."""
        low = window.ring("bucket")[place, some] * self._width
        mean = noisy / count
        if self.calibration == "sound":
            mean += low
        return np.asarray(np.clip(mean, low, np.minimum(low + self._width, FIXED)) / FIXED)
