"""How often a worker looks for garbage that reference counts do not free."""

from __future__ import annotations

import gc

__all__ = ["YOUNG", "look_seldom"]

# Containers that are new since the last look. A fold makes some tens of thousands and frees them
# again; by Python's 700 it was looked through dozens of times, for a quarter of a worker's time.
YOUNG = 100_000


def look_seldom() -> None:
    """Look for garbage once in `YOUNG` objects from now on, and never again among those that are
    there already: modules, classes, what a worker is made of.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
