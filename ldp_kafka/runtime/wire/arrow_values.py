"""Columns of values in Arrow batches: numbers, categories, lists, and text that holds a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.arrow_columns import filled, is_text, numbers_in, written_out
from ldp_kafka.runtime.wire.fields import Fields

__all__ = ["WRONG", "values_of"]

# what may be wrong with a value, by the number that stands for it; 0: nothing
WRONG = {1: Reason.CATEGORY, 2: Reason.NOT_FINITE, 3: Reason.VALUE}
_CATEGORY, _NOT_FINITE, _VALUE = WRONG
_CODES = {reason: code for code, reason in WRONG.items()}


def values_of(column: Any, fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Values of a column that is written out, and what is wrong with each."""
    return _vectors(column, fields) if fields.dimension else _single(column, fields)


def _single(column: Any, fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    kind, why = column.type, np.zeros(len(column), np.uint8)
    if pa.types.is_null(kind):
        return np.zeros(len(column), fields.dtype), np.full(len(column), _VALUE, np.uint8)
    if fields.codes is not None:
        return _one_by_one(_as_in_json(column), fields)
    if fields.coerce and is_text(kind):
        return _one_by_one(column.to_pylist(), fields)
    if fields.count is not None and pa.types.is_decimal(kind):
        return _one_by_one(numbers_in(column), fields)
    if fields.count is not None:
        if not pa.types.is_integer(kind):
            raise BadRecord(Reason.VALUE)
        values = filled(column, pa.int64(), -1)
        why[~((values >= 0) & (values < fields.count))] = _CATEGORY
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = filled(column, pa.float64(), np.nan)
        if not np.isfinite(values).all():
            why[~np.isfinite(values)] = _NOT_FINITE
    else:
        raise BadRecord(Reason.VALUE)
    if column.null_count:
        why[column.is_null().to_numpy(zero_copy_only=False)] = _VALUE
    return values, why


def _as_in_json(column: Any) -> list[Any]:
    """A column of names, numbers or booleans, row by row."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return numbers_in(column)
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())  # a half is not Python's float
    elif not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise BadRecord(Reason.VALUE)
    found: list[Any] = column.to_pylist()
    return found


def _one_by_one(found: list[Any], fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """What JSON could say, as `Fields.one_of` reads it, and what is wrong with each."""
    values, why = np.zeros(len(found), fields.dtype), np.zeros(len(found), np.uint8)
    for row, each in enumerate(found):
        try:
            values[row] = fields.one_of(each)
        except BadRecord as bad:
            why[row] = _CODES[bad.reason]
    return values, why


def _vectors(column: Any, fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Lists of so many numbers; what is wrong is noted row by row."""
    kind, d = column.type, fields.dimension
    vectors, why = np.zeros((len(column), d)), np.zeros(len(column), np.uint8)
    if pa.types.is_null(kind):
        why[:] = _VALUE
        return vectors, why
    if not _is_list(kind):
        raise BadRecord(Reason.VALUE)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    right = (lengths == d) & column.is_valid().to_numpy(zero_copy_only=False)
    # many lists that are too short, or views of one long list, must not fill the memory
    if max(np.count_nonzero(~right) * d, lengths.sum(dtype=np.int64)) * 8 > 16 * MAX_BYTES:
        raise BadRecord(Reason.TOO_LARGE)
    flat = written_out(column.flatten()).filter(pa.array(np.repeat(right, lengths)))
    found, wrong = _single(flat, fields)
    vectors[right] = found.reshape(-1, d)
    # of several coordinates that are wrong the first, as in JSON
    wrong = wrong.reshape(-1, d)
    why[right] = np.take_along_axis(wrong, (wrong != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    why[~right] = _VALUE
    return vectors, why


def _is_list(kind: Any) -> bool:
    return any(
        of(kind)
        for of in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )
