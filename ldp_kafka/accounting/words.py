"""Budgets, durations, times and names as messages spell them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from math import isfinite

__all__ = ["at_least", "at_most", "did_you_mean", "exactly", "instant", "moment", "nats", "span"]

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 6  # that a bound is printed with
_DAY = r"[0-9]{4}(?:-[0-9]{2}-[0-9]{2}|[0-9]{4}|-W[0-9]{2}(?:-[1-7])?|W[0-9]{2}[1-7]?)"
_CLOCK = r"([0-9]{2})(?:(:?)([0-9]{2})(?:\3([0-9]{2})(?:[.,]([0-9]+))?)?)?"
_ZONE = r"[Zz]|([+-])([0-9]{2})(?:(:?)([0-9]{2})(?:\9([0-9]{2}))?)?"
_INSTANT = re.compile(f"({_DAY})(?:[Tt ]{_CLOCK}(?: ?(?:{_ZONE}))?)?")
_USUAL = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]):([0-5][0-9])"
    r"(?:\.([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
"""What most producers write: many times of one minute, which is read once."""


def at_most(bound: float) -> str:
    """An upper bound with six digits, such as an epsilon or a delta: rounded up, since what is
    printed must be true. A float is the decimal that it was written as.

    Examples
    --------
    >>> at_most(1.0), at_most(0.1), at_most(1e-05), at_most(2 / 3), at_most(1.000001)
    ('1', '0.1', '1e-05', '0.666667', '1.00001')
    """
    return _rounded(bound, ROUND_CEILING)


def at_least(bound: float) -> str:
    """The same of what is a lower bound: rounded down.

    Examples
    --------
    >>> at_least(0.1), at_least(2 / 3), at_least(1.9999999)
    ('0.1', '0.666666', '1.99999')
    """
    return _rounded(bound, ROUND_FLOOR)


def _rounded(bound: float, rounding: str) -> str:
    if not isfinite(bound):
        return f"{bound:g}"
    return _spelled(Context(_DIGITS, rounding).create_decimal(repr(float(bound))))


def exactly(value: Fraction) -> str:
    """A decimal fraction to the last digit: a sum of several, or what is left of a limit.

    Examples
    --------
    >>> exactly(Fraction("1e-6")), exactly(Fraction("0.1") + Fraction("1e-20"))
    ('1e-06', '0.10000000000000000001')
    """
    with localcontext(prec=2000):
        return _spelled(Decimal(value.numerator) / value.denominator)


def _spelled(number: Decimal) -> str:
    """Every digit of it, as a float is spelled that is printed with six."""
    with localcontext(prec=2000):
        number = number.normalize()
    if not number or -5 < number.adjusted() < _DIGITS:
        return f"{number:f}"
    digits, _, exponent = f"{number:e}".partition("e")
    return f"{digits}e{int(exponent):+03d}"


def nats(micros: int) -> str:
    """Micro-epsilon as nats, to the last digit.

    Examples
    --------
    >>> nats(1_500_000), nats(3_000_001), nats(20_000_000)
    ('1.5', '3.000001', '20')
    """
    whole, rest = divmod(abs(micros), 10**6)  # decimals would keep 28 digits
    return f"{'-' if micros < 0 else ''}{whole}.{rest:06}".rstrip("0").rstrip(".")


def span(milliseconds: int) -> str:
    """A duration as topologies spell it.

    Examples
    --------
    >>> span(86_400_000), span(5_400_000), span(250)
    ('1d', '90m', '250ms')
    """
    name, unit = next((name, unit) for name, unit in _UNITS if milliseconds % unit == 0)
    return f"{milliseconds // unit}{name}"


def moment(milliseconds: int) -> str:
    """A time in ISO 8601, UTC; beyond the year 9999 in words.

    Examples
    --------
    >>> moment(1_700_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return "the year 9999"


def instant(text: str) -> int:
    """Milliseconds since 1970, rounded down, of a time in ISO 8601; UTC where it names no zone.
    ValueError, which does not show the text, where it is none.

    The grammar is ours, since that of `datetime.fromisoformat` is another with each Python, and a
    log must be read alike by all: a day (of the calendar, or of a week: ISO 8601-1, 5.2.2 and
    5.2.4); behind ``T`` or a space hours, minutes and seconds, of which the last may have any
    number of decimals, and 24:00 is the end of the day; ``Z`` or an offset below 24 hours, also
    behind a space. Day, time and offset may each be written without hyphens and colons.

    Examples
    --------
    >>> instant("2023-11-14T22:13:20Z"), instant("2023-11-14T23:13:20.0005+01:00")
    (1700000000000, 1700000000000)
    """
    if (usual := _USUAL.fullmatch(text)) is not None:
        minute, second, part, zone = usual.groups("")
        found, within = _minute(minute + zone), 1000 * int(second) + _thousandths(part)
    else:
        found, within = _read(text), 0
    if found is None:
        raise ValueError("must be a time in ISO 8601, such as 2026-03-01T00:00:00Z")
    return found + within


def _thousandths(decimals: str) -> int:
    return int(decimals[:3].ljust(3, "0")) if decimals else 0


def _read(text: str) -> int | None:
    if (match := _INSTANT.fullmatch(text)) is None:
        return None
    day, hour, _, minute, second, part, sign, *offset = match.groups("")
    days = _days(day)
    within = _seconds(hour, minute, second, 24)
    ahead = _seconds(offset[0], offset[2], offset[3], 23) if sign else 0
    if days is None or within is None or ahead is None or (hour == "24" and part.strip("0")):
        return None
    since = 86_400 * days + within + (ahead if sign == "-" else -ahead)
    return 1000 * since + _thousandths(part)


# not of any text: what a stranger sends may be large
_minute = lru_cache(4096)(_read)


def _seconds(hour: str, minute: str, second: str, last: int) -> int | None:
    """None where there is no such time, of hours up to ``last``; 24 has no minutes."""
    h, m, s = int(hour or 0), int(minute or 0), int(second or 0)
    return 3600 * h + 60 * m + s if h <= last and max(m, s) <= (0 if h == 24 else 59) else None


def _days(text: str) -> int | None:
    """Since 1970; None where the calendar has no such day."""
    year, rest = int(text[:4]), text[4:].replace("-", "")
    try:
        if rest[0] == "W":
            found = date.fromisocalendar(year, int(rest[1:3]), int(rest[3:] or 1))
        else:
            found = date(year, int(rest[:2]), int(rest[2:]))
    except ValueError:  # its message shows the text
        return None
    return found.toordinal() - _EPOCH.toordinal()


def did_you_mean(name: object, known: Iterable[str], nearness: float = 0.6) -> str:
    """The nearest of the known names, in brackets; empty where none is near: of a ratio of equal
    letters of at least ``nearness``, up to 1.

    Examples
    --------
    >>> did_you_mean("square_wav", ["laplace", "square_wave"]), did_you_mean("x", ["laplace"])
    (' (did you mean square_wave?)', '')
    >>> did_you_mean("GRR", ["grr", "oue"])
    ' (did you mean grr?)'
    """
    every = list(known)
    close = get_close_matches(str(name), every, 1, nearness)
    if not close:  # in other letters
        lower = {each.lower(): each for each in reversed(every)}
        close = [lower[each] for each in get_close_matches(str(name).lower(), lower, 1, nearness)]
    return f" (did you mean {close[0]}?)" if close else ""
