"""Packed bits: eight categories a byte, the first in the highest bit, as numpy packs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_packed", "count", "own_bits", "pack", "unpack", "width_of"]

STACK = 255  # rows whose ones a byte can count
PIECE = 2**19  # bytes that are counted at a time: they stay in the cache


def width_of(categories: int) -> int:
    """Bytes of so many bits."""
    return -(-categories // 8)


def pack(bits: NDArray[Any]) -> NDArray[np.uint8]:
    """Bits (n, categories) of 0 and 1 as bytes (n, width); what is left of the last byte is 0.

    Examples
    --------
    >>> pack(np.array([[1, 0, 0, 0, 0, 0, 0, 0, 1]])).tolist()
    [[128, 128]]
    """
    return np.packbits(np.asarray(bits, np.uint8), axis=1)


def unpack(packed: NDArray[np.uint8], categories: int) -> NDArray[np.uint8]:
    """Bytes (n, width) as bits (n, categories)."""
    return np.unpackbits(packed, axis=1, count=categories)


def own_bits(values: NDArray[np.int64], stride: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Of each row the bit of its own category: the place of its byte (n,) among all bytes, where a
    row has ``stride`` of them, and its mask (n,) in that byte.

    Examples
    --------
    >>> [part.tolist() for part in own_bits(np.array([0, 9]), 2)]
    [[0, 3], [128, 64]]
    """
    place = values >> 3
    place += stride * np.arange(len(values))
    return place, (0x80 >> (values & 7)).astype(np.uint8)


def check_packed(packed: NDArray[Any], categories: int) -> NDArray[np.uint8]:
    """Bytes (n, width) without bits beyond the last category; TypeError or ValueError otherwise."""
    packed = np.asarray(packed)
    if packed.dtype != np.uint8:
        raise TypeError("packed bits must be uint8")
    if packed.ndim != 2 or packed.shape[1] != width_of(categories):
        raise ValueError(
            f"reports of {categories} categories must have {width_of(categories)} bytes each"
        )
    if categories % 8 and (packed[:, -1] & np.uint8(0xFF >> categories % 8)).any():
        raise ValueError("bits beyond the last category must be 0")
    return packed


def count(packed: NDArray[np.uint8], categories: int) -> NDArray[np.int64]:
    """How many rows have each bit (categories,). Bits of one place are added as bytes, 255 rows at
    most, before anything wider is needed.
    """
    width = packed.shape[1]
    ones = np.zeros((width, 8), np.int64)
    rows = STACK * max(1, PIECE // (STACK * width))
    for first in range(0, len(packed), rows):
        part = packed[first : first + rows]
        part = np.concatenate([part, np.zeros((-len(part) % STACK, width), np.uint8)])
        # above each other stand bytes of one column, whichever rows they come from
        stack = part.reshape(STACK, -1)
        for bit in range(8):
            ones[:, bit] += (
                ((stack >> np.uint8(7 - bit)) & np.uint8(1))
                .sum(axis=0, dtype=np.uint8)
                .reshape(-1, width)
                .sum(axis=0, dtype=np.int64)
            )
    return ones.reshape(-1)[:categories]
