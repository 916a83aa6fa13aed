"""Of which columns a batch of Arrow is, and of which types they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ldp_kafka.topology.paths import Path

__all__ = ["has_unknown_type", "schema_of", "skeleton_of", "type_at"]


def schema_of(message: bytes) -> Any:
    """The fields of an Arrow IPC stream; none where it is no valid one."""
    try:
        with pa.ipc.open_stream(message) as reader:
            return reader.schema
    except (pa.ArrowException, OSError, ValueError, EOFError):
        return pa.schema([])


def has_unknown_type(message: bytes) -> bool:
    """Whether this release of Arrow lacks the type of one of its columns."""
    try:
        pa.ipc.open_stream(message).close()
    except pa.ArrowNotImplementedError:
        return True
    except (pa.ArrowException, OSError, ValueError, EOFError):
        return False
    return False


def skeleton_of(message: bytes) -> dict[str, Any]:
    """The names of its columns, as those of a JSON object."""
    try:
        return _fields(schema_of(message))
    except ValueError:  # a name may be no UTF-8
        return {}


def _fields(fields: Any) -> dict[str, Any]:
    return {
        field.name: _fields(field.type) if pa.types.is_struct(field.type) else None
        for field in fields
    }


def type_at(kind: Any, path: Path) -> str | None:
    """The type of the column at a path; None where there is none. Names within it are not shown."""
    try:
        for step in path:
            kind = kind.field(step).type
    except (KeyError, IndexError, AttributeError, ValueError, TypeError):
        return None
    inner = kind
    while pa.types.is_dictionary(inner) or isinstance(inner, pa.BaseExtensionType):
        inner = inner.value_type if pa.types.is_dictionary(inner) else inner.storage_type
    return "nested type" if pa.types.is_nested(inner) else str(kind)
