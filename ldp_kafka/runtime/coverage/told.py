"""What a method says that its reports are of, where that is not the values of their slots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.methods import Batch, Method
from ldp_kafka.methods.ball import Ball
from ldp_kafka.methods.base import FIXED, SENT
from ldp_kafka.methods.chain_stream import ChainStream
from ldp_kafka.methods.cover import Covering
from ldp_kafka.methods.delay import Matrix
from ldp_kafka.methods.segments import Segmented
from ldp_kafka.methods.split import Split
from ldp_kafka.randomness import Ids
from ldp_kafka.runtime.keys import EdgeNoise

__all__ = ["reported", "told"]


def reported(
    method: Method, values: NDArray[Any], start: int, users: Ids, noise: EdgeNoise
) -> NDArray[np.float64]:
    """The values (users, slots) of slots in which a user reports, NaN elsewhere: by the method's
    own steps with the noise of these users, where noise decides who reports.
    """
    found, state = np.full(values.shape, np.nan), method.state(noise.digests(users))
    for at in range(values.shape[1]):
        rows = np.flatnonzero(~np.isnan(values[:, at]))
        batch = Batch(rows, start + at, method.bound(values[rows, at]), noise)
        rows = rows[method.step(state, batch).status == SENT]
        found[rows, at] = values[rows, at]
    return found


def told(method: Method, values: NDArray[Any], start: int) -> NDArray[Any]:
    """The values (users, slots, ...) from slot ``start`` on that reports are of, NaN where a user
    has none: with ``cover`` from its first value on what stands for none; with segments the means
    of these, in their last slots, of vectors coordinate by coordinate; where a stream is followed
    from report to report by ``differential_bound`` at most, the values that are clipped so; of a
    curator's streams, the sums or means that it releases.
    """
    if isinstance(method, Matrix):
        return _summed(values, method.moving_mean)
    if isinstance(method, Covering) and method.cover:
        values = _covered(method, values)
    if isinstance(method, Segmented) and method.segment > 1:
        return _means(values, start, method.segment)
    if isinstance(method, Split) and method.each.stride > 1:
        found, apart = np.full(values.shape, np.nan), method.stride // method.each.stride
        for at in range(method.dimension):
            first = (at - start) % apart  # slot in which it counts
            own = values[:, first::apart, at]
            found[:, first::apart, at] = _means(own, (start + first) // apart, method.each.segment)
        return found
    if isinstance(method, ChainStream) and method.chain.bound is not None:
        length = (
            method.diameter if isinstance(method, Ball) else method.domain[1] - method.domain[0]
        )
        return _followed(values, method.chain.bound / FIXED * length)
    return values


def _covered(method: Covering, values: NDArray[Any]) -> NDArray[Any]:
    """The domain's midpoint, or the number behind the categories, in place of no value."""
    there = method.values.present(values)
    known = np.logical_or.accumulate(there, axis=1)
    nothing = sum(method.domain) / 2 if method.kind == "numeric" else method.categories
    return np.where(known & ~there, nothing, values)


def _means(values: NDArray[Any], start: int, segment: int) -> NDArray[np.float64]:
    """Of users who have a value in a segment's last slot."""
    means = np.full(values.shape, np.nan)
    for at in range(-(start + 1) % segment, values.shape[1], segment):
        there = ~np.isnan(values[:, at])
        means[there, at] = np.nanmean(values[there, max(0, at + 1 - segment) : at + 1], 1)
    return means


def _summed(values: NDArray[Any], last: int | None) -> NDArray[np.float64]:
    """The sums of each stream's values so far, or the means of its ``last`` ones."""
    out = np.full(values.shape, np.nan)
    for stream, released in zip(values, out, strict=True):
        there = ~np.isnan(stream)
        sums = np.cumsum(stream[there])
        if last is not None:
            sums[last:] -= sums[:-last].copy()
            sums /= np.minimum(np.arange(len(sums)) + 1, last)
        released[there] = sums
    return out


def _followed(values: NDArray[Any], bound: float) -> NDArray[np.float64]:
    """From a user's first value on no further than this from one to the next; of vectors in length,
    towards the value.
    """
    streams = values.reshape(*values.shape[:2], -1)
    followed = np.empty(streams.shape)
    last = np.full(streams[:, 0].shape, np.nan)
    for at in range(streams.shape[1]):
        move = np.where(np.isnan(last), 0.0, streams[:, at] - last)
        far = np.linalg.norm(move, axis=1, keepdims=True)
        share = np.divide(bound, far, out=np.ones_like(far), where=far > bound)
        followed[:, at] = np.where(np.isnan(last), streams[:, at], last + share * move)
        last = np.where(np.isnan(followed[:, at]), last, followed[:, at])
    return followed.reshape(values.shape)
