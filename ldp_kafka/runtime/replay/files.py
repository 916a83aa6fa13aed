"""CSV and Parquet files as tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.replay.source import (
    Source,
    column_values,
    from_slots,
    from_table,
    no_column,
    recent_start,
)
from ldp_kafka.topology import Topology

__all__ = ["read_file", "read_slices"]


def read_file(
    topology: Topology,
    path: Path,
    user: str = "user",
    value: str = "value",
    *,
    when: str = "time",
    start_ms: int | None = None,
) -> Source:
    """The events of a CSV (one header line) or Parquet file; see `from_table`."""
    return from_table(
        topology, _table(path, (user, value, when)), user, value, when, start_ms=start_ms
    )


def read_slices(
    topology: Topology,
    path: Path,
    users: int,
    value: str = "value",
    *,
    slots: int | None = None,
    start_ms: int | None = None,
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

    Raises
    ------
    ConfigurationError : the file cannot be read, has no such column, or the series is too short

    """
    table = _table(path, (value,))
    if value not in table.column_names:
        raise ConfigurationError(no_column(topology, table, value=value))
    series = column_values(topology, table.column(value).drop_null(), value)
    if series.dtype == object:
        codes = {name: code for code, name in enumerate(topology.privacy.category_names or ())}
        unknown = sum(name not in codes for name in series.tolist())
        if unknown:
            raise ConfigurationError(
                f"{unknown:,} values of column {value} are none of the topology's categories"
            )
        series = np.array([codes[name] for name in series.tolist()])
    length = len(series) // users if slots is None else slots
    if not 0 < users * length <= len(series):
        raise ConfigurationError(
            f"a series of {len(series):,} values is too short for {users:,} users of"
            f" {max(length, 1):,} slots"
        )
    pieces = series[: users * length].reshape(users, length)
    return from_slots(
        topology,
        iter(pieces.T),
        users,
        length,
        start_ms=recent_start(topology, length) if start_ms is None else start_ms,
    )


def _table(path: Path, columns: Iterable[str]) -> Any:
    """A file of which these columns are wanted: their text must be UTF-8, as must be the names of
    all.
    """
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return parquet.read_table(path)
        table = csv.read_csv(path)
        unread = [
            name
            for name in table.column_names
            if name in columns and pa.types.is_binary(table.column(name).type)
        ]
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
    if unread:
        raise _not_utf8(path)
    return table


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
