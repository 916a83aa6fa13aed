"""Releases as a table with error bars, for a terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import floor, isfinite, log10
from typing import NamedTuple, Self

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ldp_kafka.records import Release
from ldp_kafka.runtime.releases.rows import Row, rows_of

__all__ = ["MOST", "Line", "LiveTable", "bar", "figures", "lines_of", "release_table", "table_for"]

MOST = 1000  # lines of a table that is printed once: nobody reads more of it
BAR = (8, 32)  # characters of an error bar: at least, or there is none; at most
GAP = 2  # characters between columns
AROUND = 4  # lines of a terminal that are no lines of the live table
_MINUTE = 60_000  # milliseconds


class Line(NamedTuple):
    """What is shown of one number of a release."""

    slot: str
    statistic: str
    subject: str
    of: str
    """The category, the bin or the position in a list."""
    kind: str
    """Which of them it is; empty where there is no list."""
    value: str
    error: str
    """The 95 % interval, or a word for why there is none; of an event, how likely it is wrong."""
    reports: str
    strategy: str
    interval: tuple[float, float, float] | None
    """Low, value and high; None where there is nothing to draw."""

    @property
    def plain(self) -> str:
        """In words, where there is no table to be in."""
        words = (self.slot, self.statistic, self.subject, self.of, self.value, self.error)
        return "  ".join(word for word in (*words, f"{self.reports} reports") if word)


def lines_of(release: Release, slot_ms: int) -> Iterator[Line]:
    """A line for each number of a release.

    Parameters
    ----------
    slot_ms : length of a slot, milliseconds
    """
    for row in rows_of(release):
        value, error = _numbers(row)
        kind, of = _place(row) if isinstance(release.value, list) else ("", "")
        ends = (row["low"], row["value"], row["high"])
        yield Line(
            _when(release.start, slot_ms),
            release.statistic,
            row["subject"],
            of,
            kind,
            value,
            error,
            f"{release.reports:,}",
            release.strategy,
            ends if all(each is not None and isfinite(each) for each in ends) else None,
        )


def release_table(
    lines: Sequence[Line], room: int, *, title: str | None = None, ascii_: bool = False
) -> Table:
    """Lines as a table. Columns in which nothing is said are left out; the error bars of one
    statistic have one scale.

    Parameters
    ----------
    room : characters of a line of the terminal
    ascii_ : draw with ASCII alone
    """
    kinds = sorted({line.kind for line in lines} - {""})
    subjects = any(line.subject for line in lines)
    columns = [
        ("slot (UTC)", "slot", True),
        ("statistic", "statistic", len({line.statistic for line in lines}) > 1),
        ("subject", "subject", subjects),
        (" or ".join(kinds), "of", bool(kinds)),
        ("released", "value", True),
        ("95 % interval", "error", True),
        ("reports", "reports", not subjects),
        ("strategy", "strategy", len({line.strategy for line in lines}) > 1),
    ]
    shown = [(head, name) for head, name, said in columns if said]
    table = Table(box=None, padding=(0, GAP, 0, 0), title=title, title_justify="left")
    for head, name in shown:
        right = name in ("value", "error", "reports")
        table.add_column(head, justify="right" if right else "left", no_wrap=True)
        room -= GAP + max(cell_len(each) for each in (head, *(getattr(a, name) for a in lines)))
    least, most = BAR
    width, scales = min(room - GAP, most), _scales(lines)
    if width >= least:
        table.add_column(_ends(scales, width), no_wrap=True)
    for line in lines:
        texts = [Text(getattr(line, name)) for _, name in shown]  # a category may look like markup
        if width >= least:
            drawn = bar(line.interval, scales.get(line.statistic), width, ascii_=ascii_)
            texts.append(Text(drawn, style="cyan"))
        table.add_row(*texts)
    return table


def figures(numbers: Sequence[float], length: float) -> list[str]:
    """Numbers with the digits that an interval of this length leaves them: two of its half.

    Examples
    --------
    >>> figures([2545.13, 1980.0], 1130.4), figures([0.12345], 0.0426), figures([3.0], 0.0)
    (['2,545', '1,980'], ['0.123'], ['3'])
    """
    if not length > 0:
        return [f"{number:,.6g}" for number in numbers]
    decimals = max(0, 1 - floor(log10(length / 2)))
    return [f"{each:.6g}" if decimals > 9 else f"{each:,.{decimals}f}" for each in numbers]


def bar(
    interval: tuple[float, float, float] | None,
    scale: tuple[float, float] | None,
    width: int,
    *,
    ascii_: bool = False,
) -> str:
    """An interval (low, value, high) on a scale (least, greatest) of so many characters.

    Examples
    --------
    >>> bar((2.0, 4.0, 6.0), (0.0, 10.0), 11), bar((2.0, 4.0, 6.0), (0.0, 10.0), 11, ascii_=True)
    ('  ├─●─┤', '  |-o-|')
    """
    if interval is None or scale is None:
        return ""
    least, greatest = scale
    step = (width - 1) / (greatest - least) if greatest > least else 0.0
    low, middle, high = (round((each - least) * step) for each in interval)
    begin, line, point, end = "|-o|" if ascii_ else "├─●┤"
    drawn = [" "] * low + [line] * (high - low + 1)
    drawn[low], drawn[high] = begin, end
    drawn[min(max(middle, low), high)] = point
    return "".join(drawn)


class LiveTable:
    """The newest lines, drawn anew when there are more; as many as the terminal has room for.

    Parameters
    ----------
    console : a terminal
    """

    def __init__(self, console: Console, title: str | None = None) -> None:
        self._console, self._title = console, title
        self._lines: deque[Line] = deque(maxlen=max(1, console.height - AROUND))
        self._live = Live(
            self._drawn(), console=console, auto_refresh=False, vertical_overflow="crop"
        )
        self._new = False

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.update(self._drawn())  # which is shown when it stops
        self._live.stop()

    def add(self, lines: Iterable[Line]) -> None:
        """More lines, which are drawn with the next `draw`."""
        self._lines.extend(lines)
        self._new = True

    def draw(self) -> None:
        """Show what was added."""
        if self._new:
            self._live.update(self._drawn(), refresh=True)
            self._new = False

    def _drawn(self) -> RenderableType:
        return table_for(self._console, list(self._lines), self._title)


def table_for(console: Console, lines: Sequence[Line], title: str | None = None) -> Table:
    """Lines as a table that a terminal has the room and the characters for."""
    ascii_ = "utf" not in console.encoding.lower()
    if ascii_:  # names of categories, and of streams, may be in any letters
        lines = [line._replace(of=_ascii(line.of), subject=_ascii(line.subject)) for line in lines]
    return release_table(lines, console.width, title=title, ascii_=ascii_)


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()


def _numbers(row: Row) -> tuple[str, str]:
    """The value and its error as they are read."""
    value, low, high = row["value"], row["low"], row["high"]
    if value is None:
        return "-", ""
    if row["above"] is not None:
        said = f"{'above' if value else 'not above'} {row['above']:,.6g}"
        return said, "" if row["error"] is None else _wrong(row["error"])
    if low is None or high is None:
        return f"{value:,.6g}", row["error_reason"] or ""
    said, least, most = figures((value, low, high), high - low)
    return said, f"{least} to {most}"


def _wrong(chance: float) -> str:
    return "< 0.1% wrong" if chance < 0.0005 else f"{chance:.1%} wrong"


def _place(row: Row) -> tuple[str, str]:
    """What one number of a list is of."""
    if row["category"] is not None:
        return "category", row["category"]
    if row["bin_low"] is not None:
        return "bin", f"{row['bin_low']:,.6g} to {row['bin_high']:,.6g}"
    return "number", str(row["position"])


def _when(start: str, slot_ms: int) -> str:
    """The start of a slot, as precisely as slots are long."""
    text = start.removesuffix("Z").replace("T", " ")
    return text if slot_ms % _MINUTE else text[: text.rindex(":")]


def _scales(lines: Iterable[Line]) -> dict[str, tuple[float, float]]:
    """By statistic, the least and the greatest end of its intervals."""
    scales: dict[str, tuple[float, float]] = {}
    for line in lines:
        if line.interval is not None:
            low, _, high = line.interval
            least, greatest = scales.get(line.statistic, (low, high))
            scales[line.statistic] = min(least, low), max(greatest, high)
    return scales


def _ends(scales: dict[str, tuple[float, float]], width: int) -> str:
    """The ends of the scale, above the error bars; nothing where there are several."""
    if len(scales) != 1:
        return ""
    [(low, high)] = scales.values()
    left, right = figures((low, high), (high - low) / 5)
    return left + right.rjust(width - len(left)) if len(left + right) < width else ""
