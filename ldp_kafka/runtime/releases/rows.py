"""Releases as flat rows, one a number: what tables, files and databases take.

A release of a list (a share each category, or bin; a mean each coordinate) is a row each of its
numbers. The names of the columns are no words that SQL keeps for itself (``user``, ``end``,
``window``), so nobody has to quote them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ldp_kafka.records import Release

__all__ = ["COLUMNS", "KEY", "Column", "Row", "rows_of"]

Row = dict[str, Any]


class Column(NamedTuple):
    """One column of a row."""

    kind: str
    """``text``, ``whole``, ``number`` or ``time``."""
    meaning: str
    optional: bool = False
    """Whether it may be empty."""


COLUMNS: dict[str, Column] = {
    "topology": Column("text", "whose release it is"),
    "statistic": Column("text", "what is released: mean, frequencies, above, ..."),
    "slot": Column("whole", "number of the time slot"),
    "subject": Column("text", "a user's pseudonym or a stream's name; empty: the crowd's"),
    "position": Column("whole", "in a list: of its category, bin or coordinate; else 0"),
    "slot_start": Column("time", "where the slot begins, UTC"),
    "slot_end": Column("time", "where it ends"),
    "category": Column("text", "its name, where categories have names", optional=True),
    "bin_low": Column("number", "where the bin of a distribution begins", optional=True),
    "bin_high": Column("number", "where it ends", optional=True),
    "value": Column("number", "the release; empty where nobody reported", optional=True),
    "standard_error": Column("number", "of the value", optional=True),
    "low": Column("number", "lower end of the 95 % interval", optional=True),
    "high": Column("number", "its upper end", optional=True),
    "reports": Column("whole", "how many it was made of"),
    "strategy": Column("text", "the method, or publish or approximate"),
    "reliability": Column("number", "of a user: how much of the value is its own", optional=True),
    "above": Column("number", "of an event: its threshold", optional=True),
    "error": Column("number", "of an event: how likely it is wrong", optional=True),
    "guarantee": Column("text", "JSON: the release's guarantee"),
    "round": Column("text", "JSON: what it was decided by, or averaged over", optional=True),
    "error_reason": Column("text", "a word for why a value has no error", optional=True),
}
"""In their order."""
KEY = ("topology", "statistic", "slot", "subject", "position")
"""What tells a row from all others: a release that is written again has the same."""


def rows_of(release: Release) -> Iterator[Row]:
    """A row for each number of a release, with `COLUMNS`; times are ISO 8601 texts.

    Examples
    --------
    >>> shares = Release(
    ...     "apps", 7, "1970-01-01T07:00:00Z", "1970-01-01T08:00:00Z", "frequencies", [0.25, 0.75],
    ...     [0.1, 0.1], [[0.05, 0.55], [0.45, 0.95]], 80, "lpu", {}, categories=["maps", "mail"],
    ... )
    >>> for row in rows_of(shares):
    ...     print(row["position"], row["category"], row["value"], row["low"], row["high"])
    0 maps 0.25 0.05 0.45
    1 mail 0.75 0.55 0.95
    """
    event = release.event or {}
    low, high = release.confidence_interval or (None, None)
    labels = release.categories or (release.edges or [0])[1:]
    whole = {
        "topology": release.topology,
        "statistic": release.statistic,
        "slot": release.slot,
        "subject": release.user or "",
        "slot_start": release.start,
        "slot_end": release.end,
        "reports": release.reports,
        "strategy": release.strategy,
        "reliability": release.reliability,
        "above": event.get("above"),
        "guarantee": _text(release.guarantee),
        "round": None if release.round is None else _text(release.round),
        "error_reason": release.error_reason,
    }
    numbers = len(release.value) if isinstance(release.value, list) else max(1, len(labels))
    for at in range(numbers):
        row = {
            **whole,
            "position": at,
            "category": _at(release.categories, at),
            "bin_low": _at(release.edges, at),
            "bin_high": _at(release.edges, at + 1),
            "value": _at(release.value, at),
            "standard_error": _at(release.standard_error, at),
            "low": _at(low, at),
            "high": _at(high, at),
            "error": _at(event.get("error"), at),
        }
        yield {name: row[name] for name in COLUMNS}


def _at(found: Any, position: int) -> Any:
    """One number of a list, or the only one there is."""
    if not isinstance(found, list):
        return found
    return found[position] if position < len(found) else None


def _text(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"))
