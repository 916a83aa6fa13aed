"""Releases to where they were asked for: a table, lines, files, a picture."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Release
from ldp_kafka.runtime.releases.columns import table_of
from ldp_kafka.runtime.releases.files import LINES, STDOUT, text_file, whole_file
from ldp_kafka.runtime.releases.moves import ABOVE, moves_above
from ldp_kafka.runtime.releases.plot import check_plot, plot
from ldp_kafka.runtime.releases.rows import rows_of
from ldp_kafka.runtime.releases.stream import Releases
from ldp_kafka.runtime.releases.view import MOST, Line, LiveTable, lines_of, table_for
from ldp_kafka.runtime.releases.words import notes, nothing
from ldp_kafka.topology import Topology

__all__ = ["Wanted", "deliver"]

WIDE = 160  # columns of a table that is written into a file or a pipe
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What to make of releases: a table, where nothing else is asked for.

    Parameters
    ----------
    lines : (name in `LINES`, file or `STDOUT`), any number
    parquet, plot : files, or None
    above : count moves above it (`moves_above`), or None

    Raises
    ------
    ConfigurationError : two are for standard output, or for one file; Parquet is for standard
        output; a picture cannot be drawn
    """

    lines: tuple[tuple[str, Path], ...] = ()
    parquet: Path | None = None
    plot: Path | None = None
    above: float | None = None

    def __post_init__(self) -> None:
        places = [path for _, path in self.lines]
        places += [path for path in (self.parquet, self.plot) if path is not None]
        twice = {str(path) for path in places if places.count(path) > 1}
        if twice:
            raise ConfigurationError(
                f"{'standard output' if twice == {'-'} else ', '.join(sorted(twice))} can take one"
                " form only: give the others a FILE of their own"
            )
        if self.parquet == STDOUT:
            raise ConfigurationError("--parquet must be a file: Parquet is no stream")
        if self.plot is not None:
            check_plot(self.plot)

    @property
    def ends(self) -> list[str]:
        """What can only be made when all releases are there."""
        found = {"--parquet": self.parquet, "--plot": self.plot, "--moves-above": self.above}
        return [name for name, wanted in found.items() if wanted is not None]

    @property
    def table(self) -> bool:
        """Whether a table is wanted."""
        return not (self.lines or self.ends)

    @property
    def to_stdout(self) -> bool:
        """Whether anything is written to standard output while releases are read."""
        return any(path == STDOUT for _, path in self.lines)


def deliver(topology: Topology, found: Releases, wanted: Wanted, say: Say) -> None:
    """Read releases to their end, and bring them to where they were asked for.

    Parameters
    ----------
    found : of that topology
    say : is told, beside the output, what is not in it

    Raises
    ------
    ConfigurationError : what was asked for needs an end and there is none; a file cannot be
        written; there is nothing to draw
    """
    if found.follows and wanted.ends:
        raise ConfigurationError(
            f"{wanted.ends[0]} needs an end: leave --follow out, or take --csv"
        )
    try:
        (_follow if found.follows else _read)(topology, found, wanted, say)
    finally:  # a follower is ended by Ctrl-C
        for note in notes(topology, found):
            say(f"note: {note}")


def _read(topology: Topology, found: Releases, wanted: Wanted, say: Say) -> None:
    shown: deque[Line] = deque(maxlen=MOST)
    kept: list[Release] = []
    numbers = 0
    with ExitStack() as stack:
        writes = [
            LINES[name](stack.enter_context(text_file(path, grows=False)), found.slot_ms)
            for name, path in wanted.lines
        ]
        for release in found:
            for write in writes:
                write(release)
            if wanted.ends:
                kept.append(release)
            if wanted.table:
                lines = list(lines_of(release, found.slot_ms))
                shown.extend(lines)
                numbers += len(lines)
    if not found.counts.given:
        for line in nothing(topology, found):
            say(line)
    if shown:
        console = _console()
        console.print(table_for(console, list(shown), _title(topology)))
        if numbers > len(shown):
            say(
                f"note: the last {len(shown):,} of {numbers:,} lines; --since shows fewer releases,"
                " --csv and --json give all"
            )
    if wanted.parquet is not None:
        rows = (row for release in kept for row in rows_of(release))
        with whole_file(wanted.parquet) as part:
            pq.write_table(table_of(rows, found.slot_ms), part)
    if wanted.above is not None:
        rows = (row for release in kept for row in rows_of(release))
        _show_moves(moves_above(table_of(rows, found.slot_ms), wanted.above), wanted.above, say)
    if wanted.plot is not None:
        caption = f"Guarantee: {topology.guarantee.describe(linked=topology.linked)}."
        for left_out in plot(
            wanted.plot, kept, found.slot_ms, title=topology.name, caption=caption
        ):
            say(f"note: {left_out}")
    for path in (*(path for _, path in wanted.lines), wanted.parquet, wanted.plot):
        if path not in (None, STDOUT):
            say(f"{path}: {found.counts.given:,} releases")


def _follow(topology: Topology, found: Releases, wanted: Wanted, say: Say) -> None:
    """Without an end: whatever comes is shown, or written, at once."""
    with ExitStack() as stack:
        files = [
            (name, stack.enter_context(text_file(path, grows=True))) for name, path in wanted.lines
        ]
        writes = [LINES[name](file, found.slot_ms) for name, file in files]
        console = _console()
        live = None
        if wanted.table and console.is_terminal:
            live = stack.enter_context(LiveTable(console, _title(topology)))
        empty = True
        for release in found.at_hand():
            if release is None:
                if empty and not found.counts.given:
                    for line in nothing(topology, found):
                        say(line)
                empty = False
                for _, file in files:
                    file.flush()
                if live is not None:
                    live.draw()
                continue
            for write in writes:
                write(release)
            if live is not None:
                live.add(lines_of(release, found.slot_ms))
            elif wanted.table:
                for shown in lines_of(release, found.slot_ms):
                    console.print(shown.plain, markup=False, soft_wrap=True)


def _show_moves(moves: pa.Table, above: float, say: Say) -> None:
    """A line a user or stream."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in moves.column_names:
        table.add_column(f"{name} {above:g}" if name == ABOVE else name)
    for row in moves.to_pylist():
        table.add_row(*map(str, row.values()))
    if moves.num_rows:
        _console().print(table)
    else:
        say("note: no release is of a single user or stream, so there are no moves to count")


def _title(topology: Topology) -> str:
    return f"{topology.name}: {topology.guarantee.brief()}"


def _console() -> Console:
    """Standard output; wide where it is a file or a pipe, so that nothing is folded."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDE)
