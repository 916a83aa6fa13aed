"""Why a release states no error: a word each, which never changes, and its sentence."""

from __future__ import annotations

__all__ = [
    "CLIPPED",
    "HIDDEN_TIME",
    "MIXED_SLOTS",
    "NOISY_SPREAD",
    "NO_REPORTS",
    "UNKNOWN_THRESHOLD",
    "UNSTATED",
]

CLIPPED, NO_REPORTS = "clipped", "no_reports"
HIDDEN_TIME, MIXED_SLOTS = "hidden_time", "mixed_slots"
NOISY_SPREAD = "noisy_spread"
UNKNOWN_THRESHOLD = "unknown_threshold"

UNSTATED: dict[str, str] = {
    CLIPPED: (
        "The mean has moved as fast as clipped values can (`privacy.differential_bound`). Users'"
        " values seem to be further on, and how far cannot be told."
    ),
    HIDDEN_TIME: (
        "The method hides when a value was taken. What it releases of a slot can be the value of"
        " another slot, and how far those lie apart is not known."
    ),
    MIXED_SLOTS: (
        "The release is made of the values of several slots. How far those lie apart cannot be told"
        " from what was released."
    ),
    NOISY_SPREAD: (
        "The release is how noisy values are spread over users, brought to the mean and the spread"
        " that reports tell of true ones. How far their shapes differ cannot be told."
    ),
    UNKNOWN_THRESHOLD: (
        "Values above a threshold that the method finds are released as that threshold. How far"
        " above it they lie cannot be told."
    ),
    NO_REPORTS: (
        "Nobody reported in the slot: nothing is known of how far its truth has moved since the"
        " last release, which stands. With `lsp` that is so between its publications."
    ),
}
"""By word, what it means. A release of a statistic that has a value and no error has one of these
words as its `error_reason`, and so has its event.
"""
