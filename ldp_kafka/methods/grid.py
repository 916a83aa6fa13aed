"""The public grid on which the raw values of a slot are added: whole numbers, whatever the values.

A sum of floats is no bound on anything: next to 2**60 a 1 is rounded away or becomes 256, so one
event can move a sum by any amount. A sum of whole numbers moves by what the event is.
"""

from __future__ import annotations

from math import floor, frexp, ldexp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.errors import ConfigurationError

__all__ = ["MOST", "Grid", "added", "grid_of"]

MOST = 2**62
"""Steps that what is added up to, and what is taken away, is held at."""
_FAR = 2**53
"""Steps: whole numbers up to here are floats, and the ends of a domain lie within half of it."""


class Grid(NamedTuple):
    """Whole multiples of a power of two, on which values are added.

    Each event becomes a whole number of steps by itself: clamped to ``low`` and ``high``, then
    rounded to the nearest step. What is above 0 and what is below it are added apart, in int64, and
    either is held at `MOST` steps. So both only grow, and the sum is the same in whatever order the
    events come, and whatever parts of them are added first.

    Notes
    -----
    One event is worth g steps, low <= g <= high, and one put in its place g' steps. The two sums
    that are kept move by max(g, 0) - max(g', 0) and min(g, 0) - min(g', 0): together by |g - g'|.
    Holding a sum at `MOST` brings two of them no further apart, nor does clamping their difference
    to a domain. So the slot's value moves by at most |g - g'|:

    - where ``low`` is 0, by at most ``high``, be the event replaced, added or taken away (g or g'
      is 0 then);
    - where ``low`` is ``-high``, by at most 2 ``high`` if it is replaced, and ``high`` otherwise.

    A step is exact in float64, and so is each multiple inside the domain: `values` rounds nothing.

    Examples
    --------
    >>> grid = grid_of((0.0, 1600.0), contribution=40.0)
    >>> parts = grid.parts(np.array([1e308, -1e308, 5.0]))
    >>> grid.values(grid.totals(added(parts, np.array([0])))).tolist()
    [45.0]
    """

    exponent: int
    """A step is 2**exponent."""
    low: int
    """Steps that an event is worth at least."""
    high: int
    """And at most."""
    dimension: int
    """Of values that are lists; 0: they are numbers."""

    def clamped(self, values: NDArray[np.float64]) -> int:
        """How many values (n,), or lists (n, dimension), are worth less or more than they say."""
        low, high = (ldexp(end, self.exponent) for end in (self.low, self.high))
        found = (values < low) | (values > high)
        return int(np.count_nonzero(found.any(axis=1) if found.ndim > 1 else found))

    def parts(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Finite values (n,) as steps (n, 2): those above 0, and those below it, without their
        sign. Lists (n, dimension) as (n, 2 dimension).
        """
        low, high = (ldexp(end, self.exponent) for end in (self.low, self.high))
        steps = np.rint(np.clip(values, low, high) * ldexp(1.0, -self.exponent)).astype(np.int64)
        width = self.dimension or 1
        columns = steps.reshape(len(values), width)
        found = np.empty((len(values), 2 * width), np.int64)
        np.maximum(columns, 0, out=found[:, :width])
        np.maximum(-columns, 0, out=found[:, width:])
        return found

    def totals(self, parts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums of `parts` as steps (n,), or (n, dimension)."""
        width = self.dimension or 1
        found = parts[:, :width] - parts[:, width:]
        return found if self.dimension else found[:, 0]

    def values(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Steps as the values that they are; beyond all domains, as some value beyond the domain
        on the same side.
        """
        held = np.clip(steps, -_FAR, _FAR).astype(np.float64)
        return np.asarray(held * ldexp(1.0, self.exponent))


def added(parts: NDArray[np.int64], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    """Sums (groups, k) of rows (n, k) of 0..`MOST`, each held at `MOST`; ``starts``: where each
    group begins, rising.
    """
    exact = np.add.reduceat(parts, starts, axis=0)  # modulo 2**64
    longest = int(np.diff(starts, append=len(parts)).max(initial=1))
    if int(parts.max(initial=0)) <= MOST // longest:
        return exact
    # off by a share of n / 2**53, so that nothing below has wrapped, and all above are beyond MOST
    about = np.add.reduceat(parts.astype(np.float64), starts, axis=0)
    return np.where(about < 1.5 * MOST, np.minimum(exact, MOST), MOST)


def grid_of(
    domain: tuple[float, float], *, contribution: float | None = None, dimension: int = 0
) -> Grid:
    """The grid of a public domain: a step is the greatest power of two of which the domain has
    2**44 or more, or of which its further end is 2**51 or more away from 0, whichever step is
    larger.

    Parameters
    ----------
    domain : of what a slot's values come to
    contribution : the most that one event adds, at least a step; in a domain that goes below 0 also
        the most that it takes away. None: what sums can hold
    dimension : of values that are lists; 0: they are numbers

    Raises
    ------
    ConfigurationError : the contribution is less than a step

    Examples
    --------
    >>> grid_of((0.0, 1600.0), contribution=40.0)
    Grid(exponent=-34, low=0, high=687194767360, dimension=0)
    """
    low, high = domain
    away, length = (frexp(each)[1] for each in (max(-low, high), high - low))
    exponent = max(away - 52, length - 45)
    if contribution is None:
        return Grid(exponent, -MOST, MOST, dimension)
    most = floor(ldexp(contribution, -exponent))
    if not most >= 1:
        raise ConfigurationError(
            f"contribution must be at least {ldexp(1, exponent):g}: sums in this domain are counted"
            " in steps of so much"
        )
    return Grid(exponent, -most if low < 0 else 0, most, dimension)
