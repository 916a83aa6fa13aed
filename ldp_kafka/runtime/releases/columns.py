"""Rows of releases as columns, for whatever reads Arrow: pandas, polars, DuckDB, Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ldp_kafka.runtime.releases.rows import COLUMNS, Row

__all__ = ["SCHEMA", "table_of"]

_TYPES = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "time": pa.timestamp("ms", "UTC"),
}
SCHEMA = pa.schema(
    [
        pa.field(
            name, _TYPES[column.kind], column.optional, metadata={"description": column.meaning}
        )
        for name, column in COLUMNS.items()
    ]
)
"""Of the tables, whatever they hold."""
_ORDER = ("slot", "statistic", "subject", "position")
_TOGETHER = 2**16  # rows that are made columns at a time


def table_of(rows: Iterable[Row], slot_ms: int) -> Any:
    """Rows as a `pyarrow.Table`, sorted by slot, statistic, subject and position.

    Parameters
    ----------
    slot_ms : length of a slot, milliseconds; times are made of the slots' numbers, which have no
        last year
    """
    batches, waiting = [], []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= _TOGETHER:
            batches.append(_batch(waiting, slot_ms))
            waiting = []
    batches.append(_batch(waiting, slot_ms))
    table = pa.Table.from_batches(batches, SCHEMA)
    return table.sort_by([(name, "ascending") for name in _ORDER])


def _batch(rows: list[Row], slot_ms: int) -> Any:
    slots = [row["slot"] for row in rows]
    times = {"slot_start": slots, "slot_end": [slot + 1 for slot in slots]}
    return pa.RecordBatch.from_arrays(
        [
            pa.array(
                [at * slot_ms for at in times[name]]
                if name in times
                else [row[name] for row in rows],
                _TYPES[column.kind],
            )
            for name, column in COLUMNS.items()
        ],
        schema=SCHEMA,
    )
