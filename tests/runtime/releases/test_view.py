"""The table with error bars: what it shows, what it leaves out, and that it fits the terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ldp_kafka.runtime.releases.view import LiveTable, bar, figures, lines_of, table_for
from ldp_kafka.runtime.stages.releases import iso
from tests.cases import cases
from tests.runtime.releases.made import HOUR, above, release, shares


def shown(releases, width=100, encoding="utf-8", slot_ms=HOUR):
    """A table as text."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width)
    lines = [line for each in releases for line in lines_of(each, slot_ms)]
    console.print(table_for(console, lines, "meters: epsilon 2"))
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


def test_a_crowds_mean():
    """Two digits of the error; all bars on one scale, whose ends are above."""
    title, head, one, two, none = shown(
        [
            release(1, 2500.0, confidence_interval=[2000.0, 3000.0]),
            release(2, 1234.5, confidence_interval=[1000.0, 1469.0], reports=1200),
            release(3, None, standard_error=None, confidence_interval=None, reports=0),
        ]
    )
    assert title == "meters: epsilon 2"
    assert head.split() == [
        *("slot", "(UTC)", "released", "95", "%", "interval", "reports"),
        "1,000",
        "3,000",
    ]
    assert one.split()[1:7] == ["01:00", "2,500", "2,000", "to", "3,000", "50"]
    assert two.split()[1:7] == ["02:00", "1,234", "1,000", "to", "1,469", "1,200"]
    assert none.split() == ["1970-01-01", "03:00", "-", "0"]
    low, high = head.index("1,000"), head.index("3,000") + 4
    assert two.index("├") == low
    assert one.index("┤") == high == len(head) - 1


def test_columns_say_something_or_are_left_out():
    """Statistics, strategies, subjects and categories where there is more than one to tell."""
    assert "statistic" not in shown([release(1)])[1]
    assert "statistic" in shown([release(1), above(1, 1, 0.02)])[1]
    assert "strategy" not in shown([release(1)])[1]
    assert "strategy" in shown([release(1), release(2, strategy="publish")])[1]
    head, line = shown([release(1, user="5f2a", reports=1)])[1:]
    assert "subject" in head
    assert "reports" not in head
    assert "5f2a" in line


def test_lists():
    """Names, bins, or the place in the list; brackets in a name are no markup."""
    _, head, one, two = shown([shares(1, [0.25, 0.75], categories=["a [red]b[/red]", "c"])])
    assert "category" in head
    assert "a [red]b[/red]" in one
    assert two.split()[2:4] == ["c", "0.75"]
    edges = [0.0, 1000.0, 2000.0]
    _, head, one, _ = shown([shares(1, [0.25, 0.75], statistic="distribution", edges=edges)])
    assert "bin" in head
    assert "0 to 1,000" in one
    _, head, one, two = shown([shares(1, [0.25, 0.75])])
    assert "number" in head
    assert [line.split()[2] for line in (one, two)] == ["0", "1"]


def test_events():
    """In words, with how likely they are wrong; no bar."""
    lines = shown([above(1, 1, 0.02), above(2, 0, 0.0001)])[2:]
    assert [line.split()[2:] for line in lines] == [
        ["above", "5", "2.0%", "wrong", "50"],
        ["not", "above", "5", "<", "0.1%", "wrong", "50"],
    ]


@cases("width", [30, 45, 80, 100, 200])
@cases("name", ["mean", "shares"])
def test_it_fits_the_terminal(width, name):
    """Bars take the room that is left; without any there is none."""
    made = [release(slot, 1000.0 * slot) for slot in range(1, 5)]
    made = made if name == "mean" else [shares(1, [0.2, 0.8], categories=["maps", "mail"])]
    lines = shown(made, width)
    assert max(map(len, lines)) <= width
    assert any("●" in line for line in lines) == (width >= 80)
    if width >= 80:
        assert not any("…" in line for line in lines)


def test_a_terminal_without_such_characters():
    lines = shown([shares(1, [0.2, 0.8], categories=["é", "b"])], encoding="ascii")
    assert "|--" in lines[2]
    assert lines[2].split()[2] == "?"


@pytest.mark.parametrize(
    ("length", "text"), [(60_000, "00:01"), (250, "00:00:00.250"), (1000, "00:00:01")]
)
def test_slots_as_precisely_as_they_are_long(length, text):
    [line] = lines_of(replace(release(0), start=iso(length)), length)
    assert line.slot == f"1970-01-01 {text}"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.integers(8, 40))
def test_bars_stay_on_their_scale(value, down, up, width):
    """Both ends and the value are where they belong, to a character."""
    low, high = value - down, value + up
    scale = (low - down, high + up)
    drawn = bar((low, value, high), scale, width)
    assert len(drawn) <= width
    step = (scale[1] - scale[0]) / (width - 1)
    begin, end = len(drawn) - len(drawn.lstrip()), len(drawn) - 1
    assert set(drawn[begin:]) <= set("├─●┤")
    assert drawn.count("●") == 1
    for at, each in ((begin, low), (drawn.index("●"), value), (end, high)):
        assert abs(scale[0] + at * step - each) <= 0.51 * step
    assert bar((value, value, value), (value, value), width) == "●"


def test_figures():
    assert figures([1e-12, 2e-12], 2e-14) == ["1e-12", "2e-12"]
    assert figures([123456.0], 1.0) == ["123,456.00"]


def test_without_a_table():
    """Where there is no terminal, a line each."""
    [line] = lines_of(release(1, 10.0), HOUR)
    assert line.plain == "1970-01-01 01:00  mean  10.0  8.0 to 12.0  50 reports"
    [line] = lines_of(above(1, 1, 0.02), HOUR)
    assert line.plain == "1970-01-01 01:00  above  above 5  2.0% wrong  50 reports"


def test_a_live_table_shows_the_newest():
    """As many lines as there is room for; the last ones stay on the screen."""
    file = io.StringIO()
    console = Console(file=file, width=80, height=10, force_terminal=True, color_system=None)
    with LiveTable(console, "meters") as live:
        for slot in range(20):
            live.add(lines_of(release(slot), HOUR))
        live.draw()
        drawn = file.tell()
        live.draw()
        assert file.tell() == drawn  # nothing is new
        live.add(lines_of(release(20), HOUR))
    last = file.getvalue()[drawn:]
    assert "20:00" in last
    assert "14:00" not in last
    assert last.count("1970-01-01") == 6
