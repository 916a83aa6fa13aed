"""Columns of a table as lists of numbers: one that holds lists, in CSV as JSON, or one of numbers
for each coordinate. No error shows a value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.replay.columns import Place, column_values
from ldp_kafka.runtime.wire.arrow_columns import is_text
from ldp_kafka.topology import Topology

__all__ = ["value_names", "values_in"]

_NUMBERS = (int, float, Decimal)  # True is none


def value_names(topology: Topology, value: str) -> tuple[str, ...]:
    """The columns that a value is in: one; of lists also one a coordinate, parted by commas.

    Raises
    ------
    ConfigurationError : they are neither
    """
    d = topology.method.dimension
    names = tuple(value.split(",")) if d else (value,)
    if len(names) not in (1, d or 1):
        raise ConfigurationError(
            f"--value-column names {len(names)} columns, and a value of {topology.privacy.method}"
            f" has {d} numbers: name one column of lists, or {d} columns, parted by commas"
        )
    return names


def values_in(
    topology: Topology, columns: Sequence[Any], names: Sequence[str], place: Place
) -> Any:
    """Columns without nulls as the topology's values (n,), or (n, dimension).

    Raises
    ------
    ConfigurationError : a row cannot be read so
    """
    d = topology.method.dimension
    if not d or (len(columns) == d and not _holds_lists(columns[0])):
        read = [
            column_values(topology, column, name, place)
            for column, name in zip(columns, names, strict=True)
        ]
        return np.stack(read, axis=1) if d else read[0]
    [column], [name] = columns, names
    found = np.empty((len(column), d))
    for row, cell in enumerate(column.to_pylist()):
        try:
            numbers = json.loads(cell) if isinstance(cell, str) else cell
            if not (len(numbers) == d and all(type(each) in _NUMBERS for each in numbers)):
                raise ValueError
            found[row] = numbers
        except (ValueError, TypeError, OverflowError):
            raise ConfigurationError(
                f"{place(row)}: column {name} must hold lists of {d} numbers (in CSV as JSON, in"
                ' quotes: "[1.5, 2]"); this row does not'
            ) from None
    return found


def _holds_lists(column: Any) -> bool:
    """By its type; of text by its first cell."""
    if not is_text(column.type):
        return bool(pa.types.is_nested(column.type))
    return bool(len(column)) and column[0].as_py().lstrip().startswith("[")
