"""Durations as topologies spell them, and what to write in place of what is none."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from ldp_kafka.accounting.words import span
from ldp_kafka.errors import ConfigurationError

__all__ = ["UNITS", "not_a_duration", "parse_duration"]

UNITS = "(ms|s|m|h|d)"
"""As it stands in every pattern of a duration."""
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(rf"([1-9][0-9]{{0,8}}){UNITS}")

_NEARLY = re.compile(r"([-+]?)([0-9]{0,9}\.?[0-9]{1,9})\s*([A-Za-z]*)")
_SPELLINGS = {
    "ms": ("msec", "msecs", "milli", "millis", "millisecond", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "m": ("min", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "d": ("day", "days"),
}
_AS_OTHERS_WRITE = {
    **_MILLISECONDS,
    **{other: _MILLISECONDS[unit] for unit, all_ in _SPELLINGS.items() for other in all_},
    **dict.fromkeys(("w", "week", "weeks"), 7 * _MILLISECONDS["d"]),
}


def parse_duration(text: str) -> int:
    """Whole milliseconds in a duration such as 250ms, 30s, 15m, 1h or 1d; ConfigurationError for
    any other text.

    Examples
    --------
    >>> parse_duration("15m")
    900000

    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            "a duration must be a positive whole number and ms, s, m, h or d; got"
            f" {text!r}{not_a_duration(text)}"
        )
    return int(match[1]) * _MILLISECONDS[match[2]]


def not_a_duration(found: Any) -> str:
    """What is wrong with what is nearly a duration, and what to write, as the end of a message;
    empty where nobody can tell what was meant.

    Examples
    --------
    >>> not_a_duration("0h"), not_a_duration("1w"), not_a_duration("1.5h")
    (': must be longer than nothing', ': write 7d', ': write 90m')
    """
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return ""
    match = _NEARLY.fullmatch(str(found).strip())
    if match is None:
        return ""
    sign, number, unit = match[1], Fraction(match[2]), match[3]
    if sign == "-" or not number:
        return ": must be longer than nothing"
    if not unit:
        text = f"{match[2]}s"
        return f": write its unit too, such as {text}" if _DURATION.fullmatch(text) else ""
    # M is a minute to some and a month to others
    scale = _AS_OTHERS_WRITE.get("" if unit == "M" else unit.lower())
    if scale is None:
        return f": the units are {', '.join(_MILLISECONDS)}"
    milliseconds = number * scale
    if milliseconds.denominator != 1:
        return ": must be whole milliseconds"
    text = span(int(milliseconds))
    return f": write {text}" if _DURATION.fullmatch(text) else ""
