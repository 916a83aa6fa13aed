"""Slots that are looked at together: blocks of as many as the delay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field
from ldp_kafka.methods.delay.base import DelayMethod
from ldp_kafka.methods.delay.rows import Rows, Some
from ldp_kafka.randomness import Randomness

__all__ = ["Blocks"]


class Blocks(DelayMethod):
    """A delay method that decides about all slots of a block at once, when the block is over.

    Notes
    -----
    The block of a slot is ``slot // delay``: in a batch the batch itself. Sliding, a block ends
    before the first of its slots is due, ``delay`` slots after it; so each value is in one block in
    both settings, and its noise is drawn once, when the block ends.
    """

    def _kept(self) -> dict[str, Field]:
        """The values of the block that is open, and which slots have one."""
        span = self.windows.span
        return {**super()._kept(), "value": Field("i8", span), "waits": Field("?", span)}

    def drawn_from(self, slot: int) -> int:
        return slot - slot % self.delay

    def _take(
        self,
        window: Rows,
        slot: int,
        values: NDArray[np.int64],
        some: Some,
        randomness: Randomness,
    ) -> None:
        del randomness
        place = slot % self.windows.span
        window.put("value", place, values, some)
        window.put("waits", place, True, some)

    def _end(self, window: Rows, slot: int, randomness: Randomness) -> None:
        if slot % self.delay != self.delay - 1:
            return
        first = slot - self.delay + 1
        places = np.arange(first, slot + 1) % self.windows.span
        waits = window.ring("waits")
        there = waits[places]
        if there.any():
            values = np.where(there, window.ring("value")[places], 0)
            self._block(window, first, places, values, there, randomness)
            waits[places] = False

    def _block(
        self,
        window: Rows,
        first: int,
        places: NDArray[np.intp],
        values: NDArray[np.int64],
        there: NDArray[np.bool_],
        randomness: Randomness,
    ) -> None:
        """The block that begins with slot ``first`` is over.

        Parameters
        ----------
        places : (delay,) of its slots in the rings
        values : (delay, n) of the streams of the step, 0 where there is none
        there : (delay, n) where there is one
        """
        raise NotImplementedError

    def _keep_block(
        self,
        window: Rows,
        places: NDArray[np.intp],
        released: NDArray[np.float64],
        variance: NDArray[np.float64],
        there: NDArray[np.bool_],
    ) -> None:
        """What is to be released of a block's slots that have a value, (delay, n) in lengths of
        the domain.
        """
        for at, place in enumerate(places.tolist()):
            some = np.flatnonzero(there[at])
            if len(some):
                self._keep(window, place, released[at][some], variance[at][some], some)
