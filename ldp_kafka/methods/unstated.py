"""Why a release states no error: a word each, which never changes, and its sentence."""

from __future__ import annotations

__all__ = ["UNSTATED"]

UNSTATED: dict[str, str] = {}
"""By word, what it means. A release that has a value and no error has one of these words as its
`error_reason`.
"""
