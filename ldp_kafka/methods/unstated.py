"""Why a release states no error: a word each, which never changes, and its sentence."""

from __future__ import annotations

__all__ = ["CLIPPED", "NO_REPORTS", "UNSTATED"]

CLIPPED, NO_REPORTS = "clipped", "no_reports"

UNSTATED: dict[str, str] = {
    CLIPPED: (
        "The mean has moved as fast as clipped values can (`privacy.differential_bound`). Users'"
        " values seem to be further on, and how far cannot be told."
    ),
    "hidden_time": (
        "The method hides when a value was taken. What it releases of a slot can be the value of"
        " another slot, and how far those lie apart is not known."
    ),
    "mixed_slots": (
        "The release is made of the values of several slots. How far those lie apart cannot be told"
        " from what was released."
    ),
    "unknown_threshold": (
        "Values above a threshold that the method finds are released as that threshold. How far"
        " above it they lie cannot be told."
    ),
    NO_REPORTS: (
        "Nobody reported in the slot: nothing is known of how far its truth has moved since the"
        " last release, which stands. With `lsp` that is so between its publications."
    ),
}
"""By word, what it means. A release that has a value and no error has one of these words as its
`error_reason`.
"""
