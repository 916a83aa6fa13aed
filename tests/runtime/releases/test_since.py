"""From which slot on."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.releases.since import Since, since_of
from tests.cases import cases

TIME = 1_772_368_200_000


@cases(
    ("given", "expected"),
    [
        (None, Since()),
        ("2026-03-01T12:30:00Z", Since(start=TIME)),
        ("2026-03-01T13:30:00+01:00", Since(start=TIME)),
        ("2026-03-01 12:30", Since(start=TIME)),
        ("1970-01-01", Since(start=0)),
        (datetime(2026, 3, 1, 12, 30, tzinfo=UTC), Since(start=TIME)),
        (datetime(2026, 3, 1, 12, 30), Since(start=TIME)),  # noqa: DTZ001
        (datetime(2026, 3, 1, 13, 30, tzinfo=timezone(timedelta(hours=1))), Since(start=TIME)),
        ("250ms", Since(back=250)),
        ("2h", Since(back=7_200_000)),
        (timedelta(days=1), Since(back=86_400_000)),
    ],
)
def test_times_and_durations(given, expected):
    """UTC where no zone is named."""
    assert since_of(given) == expected


@cases(
    "given",
    ["yesterday", "", "2", "0h", "-2h", "1.5h", timedelta(0), timedelta(-1), date(2026, 3, 1), 7],
)
def test_neither(given):
    with pytest.raises(ConfigurationError, match="since must be a time such as"):
        since_of(given)
