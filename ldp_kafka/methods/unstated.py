"""Why a release states no error: a word each, which never changes, and its sentence."""

from __future__ import annotations

__all__ = ["NO_REPORTS", "UNSTATED"]

NO_REPORTS = "no_reports"

UNSTATED: dict[str, str] = {
    NO_REPORTS: "nobody reported in the slot, so nothing is known of how far its truth has moved",
}
"""By word, what it means. A release that has a value and no error has one of these words as its
`error_reason`.
"""
