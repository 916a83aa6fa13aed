"""Groups of slots that are released as one mean."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import NEVER, Field
from ldp_kafka.mechanisms.sum_noise import SumNoise
from ldp_kafka.methods.delay.base import VALUE, DelayMethod
from ldp_kafka.methods.delay.rows import Rows, Some, among
from ldp_kafka.methods.values import FIXED

__all__ = ["Grouped"]


class Grouped(DelayMethod):
    """A delay method that puts each value into exactly one group, and releases a group's mean for
    each of its slots.

    Notes
    -----
    A group is named after the slot of its first value, its *founder*. It closes when the founder is
    due: at the end of its batch, or, sliding, ``delay`` slots after it. With ``noise: sum`` its sum
    is perturbed then, once, under the founder's slot; with ``noise: point`` each value was
    perturbed when it came, and the group's mean is that of noisy values.
    """

    adder: SumNoise
    medians: ClassVar[bool] = True

    @property
    def longest(self) -> int:
        return self.windows.span

    def kept(self) -> dict[str, Field]:
        """Of each slot of the window the founder of its group; of each founder the sum and the
        number of its group, 0 where there is none that is open.
        """
        span = self.windows.span
        return {
            **super().kept(),
            "founder": Field("i8", span, NEVER),
            "total": Field("i8", span),
            "count": Field("i8", span),
            **({"noisy": Field("i8", span)} if self.median else {}),
        }

    def _join(
        self, window: Rows, founder: NDArray[np.int64], values: NDArray[np.int64], some: Some
    ) -> None:
        """Put the values of the slot into these founders' groups; who founds one is its own."""
        window.put("founder", window.place, founder, some)
        rest, some = self._unsampled(window, founder != window.slot, some)
        founder, values = founder[rest], values[rest]
        if self.noise == "point":
            values = self.adder.perturb(values, window.at_random(some, VALUE, values))
        if self.median:
            window.put("noisy", window.place, values, some)
        place, columns = founder % self.windows.span, among(window.count, some)
        window.ring("total")[place, columns] += values
        window.ring("count")[place, columns] += 1

    def end(self, window: Rows) -> None:
        if self.setting == "sliding":
            self._close(window, window.slot - self.delay)
        elif window.slot % self.delay == self.delay - 1:
            self._close_all(window, window.slot - self.delay + 1)

    def _close(self, window: Rows, founder: int) -> None:
        """The groups of one founder close."""
        place = founder % self.windows.span
        count = window.at("count", place)
        some = np.flatnonzero(count)
        if not len(some):
            return
        total, count = window.at("total", place)[some], count[some]
        mean, variance = np.zeros(window.count), np.zeros(window.count)
        at = np.full(len(some), place)
        mean[some], variance[some] = self._means(
            window, some, at, np.full(len(some), founder), total, count
        )
        member = window.ring("founder") == founder
        np.copyto(window.ring("release"), mean, where=member)
        if self.smooth:
            np.copyto(window.ring("variance"), variance, where=member)
        known = window.ring("known")
        known |= member
        window.put("total", place, 0)
        window.put("count", place, 0)

    def _close_all(self, window: Rows, start: int) -> None:
        """All groups of the batch that begins with ``start`` close."""
        total, count = window.ring("total"), window.ring("count")
        at, some = np.nonzero(count)
        mean, variance = np.zeros(count.shape), np.zeros(count.shape)
        mean[at, some], variance[at, some] = self._means(
            window, some, at, start + at, total[at, some], count[at, some]
        )
        founder = window.ring("founder")
        whose = np.maximum(founder - start, 0)
        window.ring("release")[:] = np.take_along_axis(mean, whose, axis=0)
        if self.smooth:
            window.ring("variance")[:] = np.take_along_axis(variance, whose, axis=0)
        window.ring("known")[:] = founder >= start
        total[:] = 0
        count[:] = 0

    def _means(
        self,
        window: Rows,
        some: NDArray[np.intp],
        place: NDArray[np.intp],
        founder: NDArray[np.int64],
        total: NDArray[np.int64],
        count: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Noisy means (m,) of groups, and the variance that each of their slots counts with."""
        one = self.adder.variance / FIXED**2
        if self.noise == "point":
            sums: NDArray[Any] = total
            if self.median:
                sums = self._median(window, founder, some) * count * FIXED
            return self._shaped(window, some, place, sums, count), np.full(len(some), one)
        source = window.at_random(some, VALUE, total, count, slot=founder)
        noisy = self.adder.perturb(total, source)
        # all slots of a group together tell as much as its one mean
        return self._shaped(window, some, place, noisy, count), one / count

    def _median(self, window: Rows, founder: NDArray[np.int64], some: Some) -> NDArray[np.float64]:
        """Of the noisy values (m,) of these groups so far, in lengths of the domain."""
        members = window.ring("founder")[:, some] == founder
        if self.limit is not None and self.limit.samples(window.slot):
            members &= ~window.ring("sampled")[:, some]
        ordered = np.where(members, window.ring("noisy")[:, some], np.iinfo(np.int64).max)
        ordered.sort(axis=0)
        size = members.sum(axis=0)
        middle = np.stack([(size - 1) // 2, size // 2])
        return np.asarray(np.take_along_axis(ordered, middle, axis=0).sum(axis=0) / (2 * FIXED))

    def _shaped(
        self,
        window: Rows,
        some: NDArray[np.intp],
        place: NDArray[np.intp],
        noisy: NDArray[Any],
        count: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Means (m,) of groups in lengths of the domain, from their noisy sums."""
        del window, some, place
        return np.asarray(noisy / (count * FIXED))
