"""What a fault is: a function of a `World`. It does it, undoes what was done to the surroundings,
and says what became of it; a fault that must halt a worker waits for that.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.broker.chaos.world import World

Fault = Callable[[World], str]


class NotHeld(Exception):
    """A fault ended as it must not."""


def must(held: bool, what: str) -> None:
    if not held:
        raise NotHeld(what)
