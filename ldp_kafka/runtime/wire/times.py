"""The time of an event, as its producer wrote it, as whole milliseconds since 1970-01-01 UTC."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp_kafka.accounting.words import instant
from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire.number_text import NUMBER, WIDEST_TEXT, number_of
from ldp_kafka.runtime.wire.parsing import LATEST

__all__ = ["NUDGE", "SECONDS", "UNITS", "Unit", "in_unit", "many_milliseconds", "milliseconds"]

SECONDS = 10**11
"""Where no unit is declared numbers below it are seconds (until the year 5138), others milliseconds
(since 1973). No number is a time before so many milliseconds, in whatever unit: numbers of a
coarser unit than was declared all lie there, as do a clock that was never set, the time since a
device was switched on, and 20240331; they would become slots of 1970.
"""
NUDGE = 2.0**-11
"""Milliseconds: 1700000000.3 s is a little less than that in floating point, and must not lose its
last millisecond; and 1.7e18 ns as a float are known to 128 ns.
"""
_EXACT = Context(prec=2 * WIDEST_TEXT, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


class Unit(NamedTuple):
    """A unit of time: ``times / over`` milliseconds, of which one is 1."""

    times: int
    over: int

    @property
    def nudge(self) -> float:
        """Milliseconds that a float may be short of."""
        return 0.0 if self.times == self.over else NUDGE


UNITS = {"s": Unit(1000, 1), "ms": Unit(1, 1), "us": Unit(1, 1000), "ns": Unit(1, 1_000_000)}
"""By ``input.time_unit``."""


def milliseconds(found: Any, unit: Unit | None = None) -> int:
    """One time as whole milliseconds, rounded down.

    Parameters
    ----------
    found : ISO 8601 text (UTC where it names no zone), or a number
    unit : of numbers, which may then be text, too: integers and text are read exactly; None: epoch
        seconds or milliseconds, told by their size

    Raises
    ------
    BadRecord : it is neither, or lies before 1970 (a number: before March 1973) or after 6428

    Examples
    --------
    >>> milliseconds(1_700_000_000), milliseconds("1700000000123456", UNITS["us"])
    (1700000000000, 1700000000123)
    """
    if unit is not None and not (type(found) is str and not NUMBER.fullmatch(found)):
        return _declared(found, unit)
    if type(found) is int or type(found) is float:
        scaled = found
        if found < SECONDS:
            scaled = found * 1000 + (NUDGE if type(found) is float else 0)
        if not SECONDS <= scaled < LATEST:
            raise BadRecord(Reason.TIME)
        return int(scaled)
    if type(found) is not str:
        raise BadRecord(Reason.TIME)
    try:
        milliseconds = instant(found)
    except ValueError:
        raise BadRecord(Reason.TIME) from None
    if not 0 <= milliseconds < LATEST:
        raise BadRecord(Reason.TIME)
    return milliseconds


def _declared(found: Any, unit: Unit) -> int:
    """A number, or text that holds one."""
    scaled: Any
    if type(found) is str and type(number_of(found, Reason.TIME)) is float:
        decimal = _EXACT.multiply(_EXACT.create_decimal(found), unit.times)
        scaled = _EXACT.divide(decimal, unit.over)
    elif type(found) is float:
        scaled = found * unit.times / unit.over + unit.nudge
    elif type(found) is int or type(found) is str:
        scaled = int(found) * unit.times // unit.over
    else:
        raise BadRecord(Reason.TIME)
    if not SECONDS <= scaled < LATEST:
        raise BadRecord(Reason.TIME)
    return int(scaled)


def many_milliseconds(
    found: NDArray[Any], unit: Unit | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """What `milliseconds` makes of each number, and which are no time.

    Parameters
    ----------
    found : (n,), int64 or float64
    """
    if unit is None:
        if len(found) and found.min() >= SECONDS and found.max() < LATEST:  # milliseconds
            return found.astype(np.int64, copy=False), np.zeros(len(found), np.bool_)
        # beyond either bound nothing is multiplied, which could overflow
        small = (found >= SECONDS // 1000 - 1) & (found < SECONDS)
        scaled = np.where(small, found, 0) * 1000 + (NUDGE if found.dtype == np.float64 else 0)
        scaled = np.where(small, scaled, found)
        good = (scaled >= SECONDS) & (scaled < LATEST)
        return np.where(good, scaled, 0).astype(np.int64), ~good
    if found.dtype == np.float64:
        scaled = found * unit.times / unit.over + unit.nudge
        good = (scaled >= SECONDS) & (scaled < LATEST)
        return np.where(good, scaled, 0).astype(np.int64), ~good
    first, end = SECONDS * unit.over // unit.times, -(-LATEST * unit.over // unit.times)
    good = (found >= first) & (found < end)
    return np.where(good, found, 0) * unit.times // unit.over, ~good


def in_unit(time: int, unit: Unit | None) -> int | float:
    """A time in milliseconds as a number that `milliseconds` reads as the same; None: as it is.

    Examples
    --------
    >>> in_unit(1_700_000_000_123, UNITS["s"]), in_unit(1_700_000_000_123, UNITS["us"])
    (1700000000.123, 1700000000123000)
    """
    if unit is None:
        return time
    whole, rest = divmod(time * unit.over, unit.times)
    return time * unit.over / unit.times if rest else whole
