"""The names of the methods that release windows."""

from __future__ import annotations

from typing import Literal

__all__ = ["DelayName"]

DelayName = Literal[
    "adapub",
    "buc_order",
    "comp_order",
    "contin_group",
    "discontin_group",
    "dpi",
    "naive",
    "pegasus",
    "pegasus_delay",
    "segment_mean",
    "truncate",
]
"""The names of all of them in `ldp_kafka.METHODS`, for type checkers."""
