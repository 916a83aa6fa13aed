"""Budgets, durations and times as messages spell them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

__all__ = ["moment", "nats", "span"]

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nats(micros: int) -> str:
    """Micro-epsilon as nats, to the last digit.

    Examples
    --------
    >>> nats(1_500_000), nats(3_000_001), nats(20_000_000)
    ('1.5', '3.000001', '20')
    """
    text = format(Decimal(micros).scaleb(-6), "f")
    return text.rstrip("0").rstrip(".")


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
