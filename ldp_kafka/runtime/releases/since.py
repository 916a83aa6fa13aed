"""From which slot on releases are read: a time, or so long before the end of the newest one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ldp_kafka.accounting.words import instant
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.topology.durations import parse_duration

__all__ = ["Since", "since_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Since(NamedTuple):
    """Of the slots that are wanted: the start of the first one."""

    start: int | None = None
    """Milliseconds since 1970-01-01 UTC; None: all."""
    back: int | None = None
    """In its place: milliseconds before the end of the newest release that is there."""


def since_of(given: str | datetime | timedelta | None) -> Since:
    """What a user asks for.

    Parameters
    ----------
    given : a time (ISO 8601, or a datetime; UTC where it names no zone): slots that start then or
        later. Or a duration (such as ``2h``, or a timedelta): slots that start so long before the
        end of the newest release, or later; time is that of events, never a clock's. None: all

    Raises
    ------
    ConfigurationError : it is neither

    Examples
    --------
    >>> since_of("2h"), since_of("1970-01-02")
    (Since(start=None, back=7200000), Since(start=86400000, back=None))
    """
    if given is None:
        return Since()
    if isinstance(given, timedelta):
        return Since(back=_positive(given))
    if isinstance(given, datetime):
        aware = given if given.tzinfo else given.replace(tzinfo=UTC)
        return Since(start=(aware - _EPOCH) // _MILLISECOND)
    if not isinstance(given, str):
        raise _wrong(given)
    try:
        return Since(back=parse_duration(given))
    except ConfigurationError:
        pass
    try:
        return Since(start=instant(given))
    except ValueError:
        raise _wrong(given) from None


def _positive(given: timedelta) -> int:
    if not given > timedelta(0):
        raise _wrong(given)
    return given // _MILLISECOND


def _wrong(given: object) -> ConfigurationError:
    return ConfigurationError(
        "since must be a time such as 2026-03-01T00:00:00Z, or a duration such as 30m, 2h or 1d;"
        f" got {given!r}"
    )
