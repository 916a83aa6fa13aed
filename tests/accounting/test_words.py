"""Bounds that stay true when they are printed, times as users write them, and names that they
nearly wrote.
"""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ldp_kafka
from ldp_kafka.accounting import Guarantee
from ldp_kafka.accounting.admission import Loss
from ldp_kafka.accounting.words import (
    at_least,
    at_most,
    did_you_mean,
    exactly,
    instant,
    moment,
    nats,
)
from tests.cases import cases

NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z


DAY = 24 * 3_600_000
MIDNIGHT = NOON - DAY // 2  # a Sunday


@cases(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T12:00Z", NOON),
        ("2026-03-01T12Z", NOON),
        ("2026-03-01T12:00:00", NOON),
        ("2026-03-01 12:00:00", NOON),
        ("2026-03-01t12:00:00z", NOON),
        ("2026-03-01T120000Z", NOON),
        ("2026-03-01T1200", NOON),
        ("20260301T120000Z", NOON),
        ("20260301 12:00:00", NOON),
        ("2026-03-01", MIDNIGHT),
        ("20260301", MIDNIGHT),
        ("2026-W09-7", MIDNIGHT),
        ("2026W097T12", NOON),
        ("2026-W09", MIDNIGHT - 6 * DAY),
        ("2020-W53-7T12:00", 1_609_675_200_000),
        ("2024-02-29", 1_709_164_800_000),
        ("2026-02-28T24:00", MIDNIGHT),
        ("2026-02-28T24:00:00.000Z", MIDNIGHT),
        ("2026-02-28T24", MIDNIGHT),
        ("2026-02-28T24:00:00-12:00", NOON),
        ("2026-03-01T14:30:00+02:30", NOON),
        ("2026-03-01T14:30:00+0230", NOON),
        ("2026-03-01T14:00:00+02", NOON),
        ("2026-03-01T14:30:15+02:30:15", NOON),
        ("2026-03-01T143015+023015", NOON),
        ("2026-03-01T11:59:00-00:01", NOON),
        ("2026-03-01T12:00:00-00:00", NOON),
        ("2026-03-01 12:00:00 +0000", NOON),
        ("2026-03-01 12:00:00 Z", NOON),
        ("2026-03-02T11:59:00+23:59", NOON),
        ("2026-03-01T12:00:00.001Z", NOON + 1),
        ("2026-03-01T12:00:00,001Z", NOON + 1),
        ("2026-03-01T12:00:00.0019Z", NOON + 1),
        ("2026-03-01T12:00:00.5", NOON + 500),
        ("2026-03-01T12:00:59.999999999999Z", NOON + 59_999),
        ("2026-03-01T120000.25+0000", NOON + 250),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("0001-01-01", -62_135_596_800_000),
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
        "2026-13-01",
        "2026-00-10",
        "0000-01-01",
        "2026-W54-1",
        "2025-W53-1",
        "2026-W00-1",
        "2026-W09-0",
        "2026-W09-8",
        "2026-060",
        "2026-03",
        "2026-0301",
        "202603-01",
        "2026-03-01T25:00:00Z",
        "2026-03-01T24:01",
        "2026-03-01T24:00:01",
        "2026-03-01T24:00:00.001Z",
        "2026-03-01T12:60",
        "2026-03-01T12:00:60Z",
        "2026-03-01T12:0000",
        "2026-03-01T1200:00",
        "2026-03-01T1:00",
        "2026-03-01T12:0",
        "2026-03-01T",
        "2026-03-01Z",
        "2026-03-01T12:00:00.",
        "2026-03-01T12:00:00.Z",
        "2026-03-01T12.5",  # half past twelve; Python up to 3.13 reads half a second
        "2026-03-01T12:00.5",
        "2026-03-01T12:00:00+24:00",
        "2026-03-01T12:00:00+01:60",
        "2026-03-01T12:00:00+01:00:60",
        "2026-03-01T12:00:00+0100:00",
        "2026-03-01T12:00:00+01:0000",
        "2026-03-01T12:00:00+1",
        "2026-03-01T12:00:00+01:00:00.5",
        "2026-03-01T12:00:00 +01:00 ",
        "2026-03-01T12:00:00  Z",
        "2026-03-01T12:00:00Z+01:00",
        "2026-03-01T12:00:00+01:00Z",
        "2026-03-01T12:00:00\u221201:00",
        "2026-03-01+01:00",  # a day in a zone; Python up to 3.13 reads one o'clock
        "2026-03-01-10:00",
        "2026-03-01_12:00",
        "2026-03-01X12:00",
        "2026-03-01  12:00",
        "2026-03-0112:00",
        "20260301120000",
        "2026030112000",  # Python up to 3.13 reads the 1 as what a T would be
        "2026-03-01T12:00:00Z\n",
        " 2026-03-01",
        "2026-03-01T12:00:00Z\0",
        "2026-03-01T12:00:00Z\0hidden",
        "２０２６-03-01",
        "2026-03-01T１２:00",
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


def test_times_are_read_by_no_parser_of_a_pythons():
    """Their grammars differ from version to version, and a log is read by several. A data set in
    `ldp_kafka.evaluation` is one file.
    """
    root = Path(ldp_kafka.__file__).parent
    found = {
        f"{path.relative_to(root)}: {ast.unparse(node)}"
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and path.parent.name != "evaluation"
        and node.attr in ("fromisoformat", "strptime", "parsedate_to_datetime")
    }
    assert found == set()


@given(
    st.datetimes().filter(lambda found: 1 < found.toordinal() < 3_652_059),
    st.integers(-86_399, 86_399),
    st.sampled_from(["auto", "milliseconds", "seconds", "microseconds"]),
    st.sampled_from("T "),
)
def test_what_python_writes_is_read(found, ahead, spec, between):
    """Each time of each offset."""
    there = found.replace(tzinfo=timezone(timedelta(seconds=ahead)))
    text = there.isoformat(between, spec)
    kept = {"seconds": 10**6, "milliseconds": 1000}.get(spec, 1)
    since = (there - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
    assert instant(text) == (since - found.microsecond % kept) // 1000


@cases("milliseconds", [0, 1, NOON, NOON + 999])
def test_a_moment_reads_as_itself(milliseconds):
    assert instant(moment(milliseconds)) == milliseconds


@cases(
    ("micros", "printed"),
    [
        (0, "0"),
        (1, "0.000001"),
        (-1_500_000, "-1.5"),
        (10**28 + 1, f"1{'0' * 22}.000001"),
        (int(1e308) * 10**6, str(int(1e308))),
    ],
)
def test_nats_have_all_their_digits(micros, printed):
    """1e308, a limit that nothing reaches, was printed as 1."""
    assert nats(micros) == printed


def test_the_nearest_name():
    """One, and only where it is near; any object is compared by its text."""
    assert did_you_mean("perturbs", {"collect": 0, "perturb": 1}) == " (did you mean perturb?)"
    assert did_you_mean("zzz", ["perturb"]) == did_you_mean(None, []) == did_you_mean(7, ["a"])
    assert did_you_mean(7, ["a"]) == ""


def unit(text):
    """One in the last of the six digits that a number may be printed with."""
    return Decimal(1).scaleb(Decimal(text).adjusted() - 5)


@given(st.floats(0, exclude_min=True, allow_infinity=False))
@example(2 / 3)
@example(0.99999949)
@example(999999.5)
@example(1e-320)
@example(5e-324)
@example(1.7976931348623157e308)
def test_a_printed_bound_is_true_and_near(bound):
    """Never on the wrong side of the number, and one unit of its last digit nearer would be."""
    written = Decimal(repr(bound))
    above, below = at_most(bound), at_least(bound)
    assert Decimal(below) <= written <= Decimal(above)
    assert float(above) >= bound >= float(below)
    # where the last digit is carried, a unit of the number itself
    assert Decimal(above) - unit(repr(bound)) < written < Decimal(below) + unit(repr(bound))
    assert max(len(Decimal(text).as_tuple().digits) for text in (above, below)) <= 6


@given(st.decimals(min_value="0.000001", max_value=999, places=3).filter(bool))
@example(Decimal("0.1"))
@example(Decimal("0.3"))
def test_what_was_given_is_printed_as_it_was_given(epsilon):
    """Not the binary fraction beside it."""
    for text in (at_most(float(epsilon)), at_least(float(epsilon))):
        assert text == f"{float(epsilon):g}"
        assert Decimal(text) == epsilon


@cases(
    ("bound", "printed"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (30, "30"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (123456.0, "123456"),
        (1234561.0, "1.23457e+06"),
        (1.0000001, "1.00001"),
        (9.999999, "10"),
        (0.0, "0"),
        (float("inf"), "inf"),
    ],
)
def test_bounds_in_print(bound, printed):
    """As numbers always were, but for the direction."""
    assert at_most(bound) == printed


def test_the_line_of_a_guarantee_is_rounded_up():
    """Epsilon and delta: nothing more than what truly holds is said."""
    line = Guarantee("user", 1.2345601, 1.2345601e-5, 9, 9, "values", "published").describe()
    assert "epsilon 1.23457 and delta 1.23457e-05 over" in line
    line = Guarantee("w-event", 1.2345601, 0.0, 9, 9, "values", "published").describe()
    assert "epsilon 1.23457 over" in line


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3))
def test_sums_of_deltas_are_printed_to_the_last_digit(deltas):
    """A limit must not be rounded up, nor what is spent of it down."""
    total = sum((Fraction(repr(delta)) for delta in deltas), Fraction(0))
    assert Fraction(exactly(total)) == total
    if total:
        assert str(Loss(1, total)) == f"epsilon 0.000001 and delta {exactly(total)}"


def rounded_bounds(tree):
    """What is printed with a format of its own though its name says that it is a bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            said = ast.unparse(node.value)
            if re.search("epsilon|delta|spent|promised|claimed|budget", said):
                yield said


def test_bounds_are_rounded_in_one_place():
    """Nobody prints one as any other number, to the nearest digit."""
    root = Path(ldp_kafka.__file__).parent
    found = {
        str(path.relative_to(root)): [*rounded_bounds(ast.parse(path.read_text("utf-8")))]
        for path in root.rglob("*.py")
    }
    assert {name: said for name, said in found.items() if said} == {}
    assert [*rounded_bounds(ast.parse("f'{guarantee.epsilon:g} {name:<{wide}}'"))] == [
        "guarantee.epsilon"
    ]
