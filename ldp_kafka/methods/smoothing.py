"""Moving averages of releases: post-processing, so they cost no privacy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.methods.contract import check_slots

__all__ = ["smooth"]


def smooth(released: ArrayLike, length: int = 3, *, centred: bool = False) -> NDArray[np.float64]:
    """The simple moving average of each stream.

    Parameters
    ----------
    released : (..., T), releases slot by slot; NaN where there is none
    length : slots that are averaged, at least 1
    centred : average the slot with as many before as after it (``length`` must be odd), as CAPP,
        section IV-A writes; default: with the ``length - 1`` before it, which needs no release to
        wait for later ones, as the authors' code does

    Returns
    -------
    The same shape, float64. At the ends, and where releases are missing, what is there is averaged;
    NaN where nothing is.

    Raises
    ------
    TypeError, ConfigurationError : ``length`` is no whole number of slots, or even where it is
        centred
    ValueError : an infinity

    Examples
    --------
    >>> smooth([3.0, 0.0, 6.0, 9.0]).tolist()
    [3.0, 1.5, 3.0, 5.0]
    >>> smooth([3.0, 0.0, 6.0, np.nan], centred=True).tolist()
    [1.5, 3.0, 3.0, 6.0]
    """
    check_slots(length, "length")
    if centred and length % 2 == 0:
        raise ConfigurationError("length must be odd where the average is centred")
    values = np.asarray(released, np.float64)
    if np.isinf(values).any():
        raise ValueError("releases must be finite, or NaN where there is none")
    there = ~np.isnan(values)
    total, count = (
        _sums(np.where(there, values, 0.0), length, centred),
        _sums(there.astype(np.float64), length, centred),
    )
    return np.asarray(np.divide(total, count, out=np.full(values.shape, np.nan), where=count > 0))


def _sums(values: NDArray[np.float64], length: int, centred: bool) -> NDArray[np.float64]:
    """Sums over each slot's neighbours, one neighbour after the other: differences of long
    cumulative sums would lose digits.
    """
    after = length // 2 if centred else 0
    out = np.zeros(values.shape)
    slots = values.shape[-1]
    for shift in range(after - length + 1, after + 1):
        first, last = max(0, -shift), min(slots, slots - shift)
        if first < last:
            out[..., first:last] += values[..., first + shift : last + shift]
    return out
