"""CSV and Parquet files as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from ldp_kafka.errors import BadRecord, ConfigurationError
from ldp_kafka.runtime.replay.columns import Place, no_column
from ldp_kafka.runtime.replay.csv_text import (
    DELIMITERS,
    check_header,
    delimiter_of,
    named_delimiter,
    ragged,
    rows,
)
from ldp_kafka.runtime.replay.source import Source, from_slots, from_table, recent_start
from ldp_kafka.runtime.replay.vectors import value_names, values_in
from ldp_kafka.runtime.wire.category_names import CategoryCodes
from ldp_kafka.topology import Topology

__all__ = ["PARQUET", "Sheet", "read_file", "read_sheet", "read_slices"]

PARQUET = (".parquet", ".pq")
Tell = Callable[[str], None]


class Sheet(NamedTuple):
    """The rows of a file."""

    table: Any
    place: Place

    def __repr__(self) -> str:
        return "Sheet()"  # never a value


def read_file(
    topology: Topology,
    path: Path,
    user: str = "user",
    value: str = "value",
    *,
    when: str = "time",
    start_ms: int | None = None,
    delimiter: str | None = None,
    tell: Tell | None = None,
) -> Source:
    """The events of a CSV (one header line) or Parquet file; see `from_table`.

    Parameters
    ----------
    delimiter : what parts the cells of a CSV file; default: a comma, a semicolon, a tab or ``|``,
        whichever does
    tell : is told, where none is given, which one does, unless it is a comma

    Raises
    ------
    ConfigurationError : it cannot be read; the text names the line of a CSV file where one is wrong
    """
    named, names = topology.privacy.category_names is not None, value_names(topology, value)
    numbers, texts = ((), (user, *names)) if named else (names, (user,))
    sheet = read_sheet(path, (user, *names, when), numbers, texts, delimiter, tell)
    return from_table(
        topology, sheet.table, user, value, when, start_ms=start_ms, place=sheet.place
    )


def read_slices(
    topology: Topology,
    path: Path,
    users: int,
    value: str = "value",
    *,
    slots: int | None = None,
    start_ms: int | None = None,
    delimiter: str | None = None,
    tell: Tell | None = None,
) -> Source:
    """One series of a file cut into the streams of users, one value a slot: user i has its i-th
    consecutive piece.

    Parameters
    ----------
    topology
        whose values they are
    path
        CSV with one header line, or Parquet
    value
        the column
    users
        how many
    slots
        length of a piece; default: the longest that gives everybody one
    start_ms
        time of the first slot; default: so that the last slot has just ended
    delimiter, tell
        see `read_file`

    Raises
    ------
    ConfigurationError : the file cannot be read, has no such column, or the series is too short

    """
    named, names = topology.privacy.category_names is not None, value_names(topology, value)
    texts, numbers = (names, ()) if named else ((), names)
    table, place = read_sheet(path, names, numbers, texts, delimiter, tell)
    if not {*names} <= {*table.column_names}:
        raise ConfigurationError(no_column(topology, table, value=names))
    table = table.select(list(dict.fromkeys(names)))
    there = np.flatnonzero(np.all([each.is_valid().to_numpy() for each in table.columns], axis=0))
    columns = [table.take(pa.array(there)).column(name) for name in names]
    series = values_in(topology, columns, names, lambda at: place(int(there[at])))
    if series.dtype == object:
        codes = _codes(topology, series)
        if unknown := int(np.count_nonzero(codes < 0)):
            raise ConfigurationError(
                f"{unknown:,} values of column {value} are none of the topology's categories"
            )
        series = codes
    length = len(series) // users if slots is None else slots
    if not 0 < users * length <= len(series):
        raise ConfigurationError(
            f"a series of {len(series):,} values is too short for {users:,} users of"
            f" {max(length, 1):,} slots"
        )
    pieces = series[: users * length].reshape(users, length, *series.shape[1:])
    return from_slots(
        topology,
        iter(pieces.swapaxes(0, 1)),
        users,
        length,
        start_ms=recent_start(topology, length) if start_ms is None else start_ms,
    )


def _codes(topology: Topology, names: NDArray[Any]) -> NDArray[np.int64]:
    """The number of each one's category; -1 of none."""
    codes = CategoryCodes(topology.privacy.category_names or ())

    def code(name: str) -> int:
        try:
            return codes[name]
        except BadRecord:
            return -1

    return np.array([code(name) for name in names.tolist()], np.int64)


def read_sheet(
    path: Path,
    wanted: Sequence[str],
    numbers: Sequence[str],
    texts: Sequence[str],
    delimiter: str | None,
    tell: Tell | None,
) -> Sheet:
    """A file of which these columns are wanted, or where it lacks one, all that it has.

    Parameters
    ----------
    wanted, numbers, texts : all columns, and those of them that hold numbers, or ids and names
    delimiter, tell : see `read_file`

    Raises
    ------
    ConfigurationError : it cannot be read
    """
    try:
        if path.suffix.lower() in PARQUET:
            return Sheet(parquet.read_table(path), lambda row: f"{path}: row {row + 1}")
        if _is_json(path):
            raise ConfigurationError(
                f"{path} is JSON, and replay reads CSV and Parquet: write its messages with a"
                " producer of your own, or kafka-console-producer (a message a line); ldp-kafka"
                " validate --sample reads them, and says what becomes of each"
            )
        found = delimiter_of(path, wanted) if delimiter is None else named_delimiter(delimiter)
        if delimiter is None and tell is not None and found != ",":
            tell(f"{path}: cells are parted by {DELIMITERS[found]} (--delimiter)")
        table = _csv(path, found, wanted, numbers, texts)
    except UnicodeDecodeError:  # of a column's name
        raise _not_utf8(path) from None
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror or 'it is no such file'}"
        ) from None
    except pa.ArrowException:  # its text shows the data
        raise ConfigurationError(
            f"{path} is neither Parquet (.parquet) nor CSV with one header line"
        ) from None
    return Sheet(table, lambda row: f"{path}:{_line(path, found, row)}")


def _is_json(path: Path) -> bool:
    """Whether it begins as JSON does, and no header of columns."""
    with path.open("rb") as file:
        return file.read(1000).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _csv(
    path: Path, delimiter: str, wanted: Sequence[str], numbers: Sequence[str], texts: Sequence[str]
) -> Any:
    """The wanted columns. Numbers are read as text first, so that the row can be named that holds
    none; of texts only an empty one is missing, and ``007`` stays what it is.
    """
    names = check_header(path, delimiter, wanted)
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    if not set(wanted) <= set(names):
        with path.open("rb") as file:
            file.readline().decode()
        return csv.read_csv(path, parse_options=parsing)
    as_text = {name: pa.string() for name in (*numbers, *texts)}
    table = None
    for kinds in (as_text, {name: pa.string() for name in wanted}):  # not all rows are alike
        convert = csv.ConvertOptions(
            include_columns=list(dict.fromkeys(wanted)), column_types=kinds
        )
        try:
            table = csv.read_csv(path, parse_options=parsing, convert_options=convert)
            break
        except pa.ArrowInvalid as error:
            if "invalid UTF8" in str(error):
                raise _not_utf8(path) from None
            if (wrong := ragged(path, delimiter)) is not None:
                raise ConfigurationError(wrong) from None
    if table is None:
        raise pa.ArrowInvalid
    for name in table.column_names:
        if pa.types.is_string(table.column(name).type):
            at = table.column_names.index(name)
            cleaned = _without_blanks(table.column(name), spelled=name not in texts)
            table = table.set_column(at, name, cleaned)
    return table


def _without_blanks(column: Any, *, spelled: bool) -> Any:
    """A column of text in which what is missing is null: an empty cell, and with ``spelled`` what
    Arrow takes for it in a column of numbers, such as NA, and space around others.
    """
    missing = [""]
    if spelled:
        column = pc.utf8_trim_whitespace(column)
        missing += csv.ConvertOptions().null_values
    return pc.if_else(pc.is_in(column, pa.array(missing)), pa.scalar(None, pa.string()), column)


def _line(path: Path, delimiter: str, row: int) -> int:
    """In which a row of the file begins."""
    return next(islice(rows(path, delimiter), row + 1, None))[0]


def _not_utf8(path: Path) -> ConfigurationError:
    """What to say, with the first line that is none, from 1."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return ConfigurationError(
                    f"{path}:{number}: must be UTF-8 text; convert the file (iconv -t UTF-8)"
                )
    return ConfigurationError(f"{path}: must be UTF-8 text")
