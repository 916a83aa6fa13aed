"""Whole streams of users, as the batches that steps take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.mechanisms.base import as_array
from ldp_kafka.methods.batch import Batch
from ldp_kafka.methods.contexts import contexts_of
from ldp_kafka.methods.estimates import Estimates
from ldp_kafka.randomness import Randomness

__all__ = ["Streams"]

BLOCK = 2**16  # values that are bound at a time


class Streams:
    """What `release`, `trace` and `run` loop over; its parameters are those of `Method.release`.
    All values are checked before the first batch: nothing is drawn or charged where one is refused.

    Parameters
    ----------
    bound : makes values (n,), or vectors, the integers that the method works on
    """

    def __init__(
        self,
        method: Estimates,
        bound: Callable[[NDArray[Any]], NDArray[np.int64]],
        streams: NDArray[Any],
        randomness: Randomness,
        users: Sequence[str | int] | None,
        first_slot: int | None,
        present: NDArray[np.bool_] | None = None,
    ) -> None:
        table = as_array(method.values.coded(streams), "fiub", "streams must hold numbers")
        self.shape, d = table.shape, method.dimension
        axes = table.ndim - bool(d)
        if axes not in (1, 2) or (d and self.shape[-1] != d):
            inner = "T, dimension" if d else "T"
            one = f"({inner})" if d else "(T,)"
            raise ValueError(f"streams must be {one} or (users, {inner})")
        if axes == 1:
            table = table[None]
        self._bound, self._randomness = bound, randomness
        self._known = _known(method, table, present)
        self._whole = bool(self._known.all())
        if not self._whole:
            table = np.where(self._known[..., None] if d else self._known, table, 0)
        method.values.checked(table)
        self._table = table
        if not bound.__module__.startswith("ldp_kafka."):  # it may refuse more than we have checked
            for _ in self._slots():
                pass
        ids, self.first_slot = contexts_of(users, first_slot, len(table), randomness)
        self.digests = randomness.digests(ids)

    def __repr__(self) -> str:
        return f"Streams({self.shape})"  # never a value

    def batches(self) -> Iterator[Batch]:
        """A slot at a time."""
        rows = np.arange(len(self._table))
        for slot, (values, present) in enumerate(self._slots(), self.first_slot):
            there = None if self._whole else present
            yield Batch(rows, slot, values, self._randomness, there)

    def windows(self, hop: int, behind: int) -> Iterator[Batch]:
        """``hop`` slots at a time. The first batch begins at the last multiple of ``hop`` up to
        the first slot. After the last slot come ``behind`` batches without values.
        """
        count, slots = self._known.shape
        nothing = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        early = self.first_slot % hop
        padded = chain(repeat(nothing, early), self._slots(), repeat(nothing))
        for step in range(-(-(early + slots) // hop) + behind if slots else 0):
            columns = zip(*(next(padded) for _ in range(hop)), strict=True)
            values, present = (np.stack(each) for each in columns)
            first = self.first_slot - early + step * hop
            yield Batch(np.arange(count), first, values, self._randomness, present)

    def _slots(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
        """Of each slot the bound values (users, ...), and which there are. A slot's values lie
        beside each other, since a step reads them several times.
        """
        width = max(1, BLOCK // max(1, len(self._table)))
        for start in range(0, self._table.shape[1], width):
            part, known = (
                np.ascontiguousarray(each[:, start : start + width].swapaxes(0, 1))
                for each in (self._table, self._known)
            )
            flat = self._bound(part.reshape((part.shape[0] * part.shape[1], *part.shape[2:])))
            yield from zip(flat.reshape(part.shape), known, strict=True)


def _known(
    method: Estimates, table: NDArray[Any], present: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Which values (users, T) there are."""
    if present is not None:
        there = np.atleast_2d(as_array(present, "b", "present must be true or false"))
        if there.shape != table.shape[:2]:
            raise ValueError("present must be (T,) or (users, T), as streams")
        return there
    if not (method.pauses or method.cover):
        return np.ones(table.shape[:2], np.bool_)
    found = method.values.present(table)
    return np.asarray(found.any(axis=2)) if method.dimension else found
