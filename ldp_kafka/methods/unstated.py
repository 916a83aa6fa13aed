"""Why a release states no error: a word each, which never changes, and its sentence."""

from __future__ import annotations

__all__ = ["UNSTATED"]

UNSTATED: dict[str, str] = {
    "clipped": (
        "the mean has moved as fast as clipped values can (`privacy.differential_bound`): users'"
        " values seem to be further on, nobody can tell how far"
    ),
}
"""By word, what it means. A release that has a value and no error has one of these words as its
`error_reason`.
"""
