"""Packed bits: eight categories a byte, the first in the highest bit, as numpy packs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_packed", "count", "pack", "unpack", "width_of"]

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)  # (256, 8)


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


def check_packed(packed: NDArray[Any], categories: int) -> NDArray[np.uint8]:
    """Bytes (n, width) without bits beyond the last category; TypeError or ValueError otherwise."""
    packed = np.asarray(packed)
    if packed.dtype != np.uint8:
        raise TypeError("packed bits must be uint8")
    if packed.ndim != 2 or packed.shape[1] != width_of(categories):
        raise ValueError(f"reports of {categories} categories must have {width_of(categories)} bytes each")
    if categories % 8 and (packed[:, -1] & np.uint8(0xFF >> categories % 8)).any():
        raise ValueError("bits beyond the last category must be 0")
    return packed


def count(packed: NDArray[np.uint8], categories: int) -> NDArray[np.int64]:
    """How many rows have each bit (categories,): by counting bytes, which costs no unpacking."""
    columns = [np.bincount(packed[:, at], minlength=256) @ _BITS for at in range(packed.shape[1])]
    return np.concatenate(columns)[:categories].astype(np.int64)
