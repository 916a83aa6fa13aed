"""Times as users write them, and names that they nearly wrote."""

from __future__ import annotations

import pytest

from ldp_kafka.accounting.words import did_you_mean, instant, moment
from tests.cases import cases

NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z


@cases(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T12:00Z", NOON),
        ("2026-03-01T12:00:00", NOON),
        ("2026-03-01", NOON - 12 * 3_600_000),
        ("2026-03-01T14:30:00+02:30", NOON),
        ("2026-03-01T12:00:00.001Z", NOON + 1),
        ("2026-03-01T12:00:00.0019Z", NOON + 1),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_times(text, expected):
    """UTC where no zone is named; what is less than a millisecond is cut off."""
    assert instant(text) == expected


@cases(
    "text",
    [
        "",
        "987654321987654321",
        "2026-02-29",
        "2026-03-01T25:00:00Z",
        "2026-03-01T12:00:00Z\0",
        "2026-03-01T12:00:00Z\0hidden",
        "２０２６-03-01",
        "in 987654321 days",
    ],
)
def test_what_is_no_time_is_refused_unseen(text):
    """The message shows an example, and nothing of the text: it may be data."""
    with pytest.raises(ValueError, match=r"ISO 8601, such as 2026-03-01T00:00:00Z") as caught:
        instant(text)
    assert str(caught.value) == "must be a time in ISO 8601, such as 2026-03-01T00:00:00Z"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None, "no error that shows the text hangs on it"


@cases("milliseconds", [0, 1, NOON, NOON + 999])
def test_a_moment_reads_as_itself(milliseconds):
    assert instant(moment(milliseconds)) == milliseconds


def test_the_nearest_name():
    """One, and only where it is near; any object is compared by its text."""
    assert did_you_mean("perturbs", {"collect": 0, "perturb": 1}) == " (did you mean perturb?)"
    assert did_you_mean("zzz", ["perturb"]) == did_you_mean(None, []) == did_you_mean(7, ["a"])
    assert did_you_mean(7, ["a"]) == ""
