"""Columns of values in Arrow batches: numbers, categories, lists, and text that holds a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.fields import Fields
from ldp_kafka.runtime.wire.user_ids import MOST_CHARACTERS

__all__ = ["WRONG", "filled", "spelled", "values_of"]

# what may be wrong with a value, by the number that stands for it; 0: nothing
WRONG = {1: Reason.CATEGORY, 2: Reason.NOT_FINITE, 3: Reason.VALUE}
_CATEGORY, _NOT_FINITE, _VALUE = WRONG
_CODES = {reason: code for code, reason in WRONG.items()}
_WIDEST = 4 * MOST_CHARACTERS  # bytes


def values_of(column: Any, n: int, fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Values, and what is wrong with each."""
    kind = column.type
    why = np.zeros(n, np.uint8)
    if fields.dimension:
        return _vectors(column, why, fields)
    if fields.codes is not None:
        if pa.types.is_dictionary(kind):
            column = spelled(column, Reason.VALUE)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise BadRecord(Reason.VALUE)
        codes = np.array([fields.codes.get(name, -1) for name in column.to_pylist()], np.int64)
        why[codes < 0] = _CATEGORY
    elif fields.coerce and _textual(kind):
        if pa.types.is_dictionary(kind):
            column = spelled(column, Reason.VALUE)
        return _coerced(column, fields)
    elif fields.count is not None:
        if not pa.types.is_integer(kind):
            raise BadRecord(Reason.VALUE)
        codes = filled(column, pa.int64(), -1)
        why[~((codes >= 0) & (codes < fields.count))] = _CATEGORY
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        codes = filled(column, pa.float64(), np.nan)
        if not np.isfinite(codes).all():
            why[~np.isfinite(codes)] = _NOT_FINITE
    else:
        raise BadRecord(Reason.VALUE)
    if column.null_count:
        why[column.is_null().to_numpy(zero_copy_only=False)] = _VALUE
    return codes, why


def _textual(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _coerced(column: Any, fields: Fields) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Texts that hold numbers, and what is wrong with each."""
    values, why = np.zeros(len(column), fields.dtype), np.zeros(len(column), np.uint8)
    for row, text in enumerate(column.to_pylist()):
        try:
            values[row] = fields.one_of(text)
        except BadRecord as bad:
            why[row] = _CODES[bad.reason]
    return values, why


def _vectors(
    column: Any, why: NDArray[np.uint8], fields: Fields
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Lists of so many numbers; what is wrong is noted row by row."""
    kind, d = column.type, fields.dimension
    listed = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    texts = listed and fields.coerce and _textual(kind.value_type)
    if texts and pa.types.is_dictionary(kind.value_type):
        raise BadRecord(Reason.VALUE)
    if not texts and not (
        listed
        and any(
            fits(kind.value_type)
            for fits in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        )
    ):
        raise BadRecord(Reason.VALUE)
    right = pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False) == d
    if np.count_nonzero(~right) * d * 8 > 16 * MAX_BYTES:
        raise BadRecord(Reason.TOO_LARGE)  # many lists that are too short must not fill the memory
    vectors = np.zeros((len(column), d))
    flat = column.filter(pa.array(right)).flatten()
    if texts:
        found, wrong = _coerced(flat, fields)
        vectors[right], why[right] = found.reshape(-1, d), wrong.reshape(-1, d).max(axis=1)
        why[~right] = _VALUE
        return vectors, why
    vectors[right] = filled(flat, pa.float64(), np.nan).reshape(-1, d)
    lacking = np.zeros((len(column), d), np.bool_)
    if flat.null_count:
        lacking[right] = flat.is_null().to_numpy(zero_copy_only=False).reshape(-1, d)
    why[~np.isfinite(vectors).all(axis=1)] = _NOT_FINITE
    why[~right | lacking.any(axis=1)] = _VALUE
    return vectors, why


def filled(column: Any, kind: Any, missing: float) -> NDArray[Any]:
    """A column as numbers of this type; nulls are ``missing``."""
    if column.type != kind:
        # a uint64 beyond int64 becomes negative: out of every range that is asked for
        column = column.cast(kind, safe=False)
    found: NDArray[Any] = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return found


def spelled(column: Any, reason: Reason) -> Any:
    """A dictionary column with its values written out; texts longer than any id are empty then. One
    long text said a million times must not fill the memory.
    """
    texts = column.dictionary
    if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
        texts = pc.if_else(pc.greater(pc.binary_length(texts), _WIDEST), "", texts).cast(texts.type)
        said = pc.sum(pc.binary_length(texts).take(column.indices)).as_py() or 0
        if said > 16 * MAX_BYTES:
            raise BadRecord(Reason.TOO_LARGE)
    elif not pa.types.is_integer(texts.type):
        raise BadRecord(reason)
    return texts.take(column.indices)
