"""Columns of Arrow batches as their basic types: what a dictionary, runs or views encode is written
out, so that every reader of columns knows few types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldp_kafka.errors import BadRecord, Reason
from ldp_kafka.runtime.wire.arrow import MAX_BYTES
from ldp_kafka.runtime.wire.user_ids import MOST_CHARACTERS

__all__ = [
    "MOST_TEXT",
    "UNREADABLE",
    "field_of",
    "filled",
    "is_encoded",
    "is_text",
    "numbers_in",
    "written_out",
]

UNREADABLE = (pa.ArrowException, ValueError, ArithmeticError)
"""What Arrow and Python's decimals raise for columns of a stranger."""

MOST_TEXT = 16 * MAX_BYTES
"""Bytes of the texts that a column says: one long text said a million times must not fill the
memory.
"""
_WIDEST = 4 * MOST_CHARACTERS  # bytes
_DIGITS = {4: 9, 8: 18, 16: 38, 32: 76}  # of decimals of so many bytes, and of their scale


def is_encoded(kind: Any) -> bool:
    """Whether `written_out` has anything to do for columns of this type, or within them."""
    return bool(
        pa.types.is_dictionary(kind)
        or pa.types.is_run_end_encoded(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_nested(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )


def is_text(kind: Any) -> bool:
    """Of a column that is written out."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def written_out(column: Any) -> Any:
    """An array without dictionaries, runs, views and extension types, all of which are the same to
    a reader as their values; those within lists and structs stay. A text longer than any id is
    empty then, where it is said more than once. BadRecord where texts fill the memory, and for
    decimals whose point lies beyond their digits: Arrow takes these, and cannot say them.
    """
    kind = column.type
    if pa.types.is_decimal(kind) and abs(kind.scale) > _DIGITS[kind.byte_width]:
        raise BadRecord(Reason.NOT_ARROW)
    if isinstance(kind, pa.BaseExtensionType):  # unless it is registered, it is its storage
        found = written_out(column.storage)
        return found.cast(pa.bool_()) if kind.extension_name == "arrow.bool8" else found
    if pa.types.is_dictionary(kind):
        return _said(written_out(column.dictionary), column.indices)
    if pa.types.is_run_end_encoded(kind):
        return _said(written_out(column.values), pa.array(_runs(column)))
    if pa.types.is_string_view(kind):
        return _own_text(column)
    return column


def field_of(column: Any, step: str | int) -> Any:
    """The field of a column of structs, which may be encoded; null where its struct is. TypeError
    where the column has no structs or the field is a union, KeyError or IndexError without it.
    """
    if not pa.types.is_struct(column.type):
        raise TypeError
    field = column.field(step)
    # Arrow ends the process where it is to give a union nulls, and gives runs none
    while isinstance(field.type, pa.BaseExtensionType):
        field = field.storage
    if pa.types.is_union(field.type):
        raise TypeError
    if pa.types.is_run_end_encoded(field.type):
        none = column.is_null().to_numpy(zero_copy_only=False)
        return pa.DictionaryArray.from_arrays(pa.array(_runs(field), mask=none), field.values)
    return pc.struct_field(column, step)


def _runs(column: Any) -> NDArray[np.intp]:
    """The run that each row lies in."""
    rows = np.arange(column.offset, column.offset + len(column))
    return np.searchsorted(np.asarray(column.run_ends, np.int64), rows, "right")


def _own_text(column: Any) -> Any:
    """Views of text, several of which may be of the same bytes, as text of each row's own."""
    n, first = len(column), 4 * column.offset
    if n:
        # four integers a text, of which the first is its length
        lengths = np.frombuffer(column.buffers()[1], np.int32)[first : first + 4 * n : 4]
        there = column.is_valid().to_numpy(zero_copy_only=False)
        if lengths.sum(where=there, dtype=np.int64) > MOST_TEXT:
            raise BadRecord(Reason.TOO_LARGE)
    return column.cast(pa.large_string())


def _said(values: Any, indices: Any) -> Any:
    """The values at these places."""
    if is_text(values.type):
        lengths = pc.binary_length(values)
        values = pc.if_else(pc.greater(lengths, _WIDEST), "", values).cast(values.type)
        if (pc.sum(pc.binary_length(values).take(indices)).as_py() or 0) > MOST_TEXT:
            raise BadRecord(Reason.TOO_LARGE)
    return values.take(indices)


def numbers_in(column: Any) -> list[int | float | None]:
    """A column of decimals as JSON would say them: whole numbers where it has no decimals."""
    kind = int if column.type.scale <= 0 else float
    return [None if each is None else kind(each) for each in column.to_pylist()]


def filled(column: Any, kind: Any, missing: float) -> NDArray[Any]:
    """A column of numbers as this type; nulls are ``missing``."""
    if column.type != kind:
        # a uint64 beyond int64 becomes negative: out of every range that is asked for
        column = column.cast(kind, safe=False)
    found: NDArray[Any] = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return found
