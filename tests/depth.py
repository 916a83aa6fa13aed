"""How deep tests look: as deep as every change needs, or as `poe long` does."""

from __future__ import annotations

import os
from typing import TypeVar

__all__ = ["LONG", "depth"]

LONG = os.environ.get("LDP_KAFKA_LONG") == "1"
T = TypeVar("T")


def depth(usual: T, long: T) -> T:
    """How many, how much, or which of something a test looks at. The usual depth finds every mutant
    that the test has; the long one is for what nobody has thought of.
    """
    return long if LONG else usual
