"""Slots that are looked at together: blocks of as many as the delay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting import Field
from ldp_kafka.methods.delay.base import DelayMethod
from ldp_kafka.methods.delay.rows import Rows, Some

__all__ = ["Blocks"]


class Blocks(DelayMethod):
    """A delay method that decides about all slots of a block at once, when the block is over.

    Notes
    -----
    The block of a slot is ``slot // delay``: in a batch the batch itself. Sliding, a block ends
    before the first of its slots is due, ``delay`` slots after it; so each value is in one block in
    both settings, and its noise is drawn once, when the block ends.
    """

    def kept(self) -> dict[str, Field]:
        """The values of the block that is open, and which slots have one."""
        span = self.windows.span
        return {**super().kept(), "value": Field("i8", span), "waits": Field("?", span)}

    def drawn_from(self, slot: int) -> int:
        return slot - slot % self.delay

    def take(self, window: Rows, values: NDArray[np.int64], some: Some) -> None:
        window.put("value", window.place, values, some)
        window.put("waits", window.place, True, some)

    def end(self, window: Rows) -> None:
        if window.slot % self.delay != self.delay - 1:
            return
        places, waits = self._places(window), window.ring("waits")
        there = waits[places]
        if there.any():
            values = np.where(there, window.ring("value")[places], 0)
            self._block(window, values, there)
            waits[places] = False

    def _block(self, window: Rows, values: NDArray[np.int64], there: NDArray[np.bool_]) -> None:
        """The block that ends with the slot is over.

        Parameters
        ----------
        values : (delay, n) of the streams of the step, 0 where there is none
        there : (delay, n) where there is one
        """
        raise NotImplementedError

    def _places(self, window: Rows) -> NDArray[np.intp]:
        """Of the slots (delay,) of the block that is over, in the rings."""
        return np.arange(window.slot - self.delay + 1, window.slot + 1) % self.windows.span

    def _keep_block(
        self,
        window: Rows,
        released: NDArray[np.float64],
        variance: NDArray[np.float64],
        there: NDArray[np.bool_],
    ) -> None:
        """What is to be released of a block's slots that have a value, (delay, n) in lengths of
        the domain.
        """
        for at, place in enumerate(self._places(window).tolist()):
            some = np.flatnonzero(there[at])
            if len(some):
                self.keep(window, place, released[at][some], variance[at][some], some)
