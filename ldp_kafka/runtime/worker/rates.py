"""What is said seldom: lines of one shape a few times a minute, and counts once a minute."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

__all__ = ["MINUTE", "RateLimiter", "Tally", "shape"]

MINUTE = 60.0  # seconds
MOST = 3  # lines of one shape in a minute
SHAPES = 1000  # that are told apart at a time
LENGTH = 120  # characters by which shapes are told apart
_NUMBER = re.compile(
    r"0x[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+(?:\.\d+)*", re.IGNORECASE
)


def shape(text: str) -> str:
    """A line without its numbers: what repeats.

    >>> shape("producer buffer full size 1024")
    'producer buffer full size #'
    >>> shape("[rdkafka#producer-1] 127.0.0.1:9092/1: Connect failed (after 0ms)")
    '[rdkafka#producer-#] #:#/#: Connect failed (after #ms)'
    """
    return _NUMBER.sub("#", text)[:LENGTH]


class _Window:
    """The lines of one shape since the first of them."""

    __slots__ = ("begin", "held", "passed")

    def __init__(self, begin: float) -> None:
        self.begin, self.passed, self.held = begin, 0, 0


class RateLimiter:
    """Lets the first lines of each shape through in a minute, and counts the rest.

    Parameters
    ----------
    most : that pass in a window
    seconds : a window, from a shape's first line on
    clock : seconds, never going back
    shapes : that are told apart; all more are one

    Examples
    --------
    >>> limiter = RateLimiter(most=1, clock=lambda: 0.0)
    >>> limiter.admit("full"), limiter.admit("full"), limiter.admit("away")
    (True, False, True)
    >>> limiter.over(everything=True)
    [('full', 1)]
    """

    def __init__(
        self,
        most: int = MOST,
        seconds: float = MINUTE,
        clock: Callable[[], float] = time.monotonic,
        shapes: int = SHAPES,
    ) -> None:
        self._most, self._seconds, self._clock, self._shapes = most, seconds, clock, shapes
        self._windows: dict[Hashable, _Window] = {}
        self._over: list[tuple[Hashable, int]] = []

    def admit(self, of: Hashable) -> bool:
        """Whether a line of this shape is to be written."""
        now = self._clock()
        if of not in self._windows and len(self._windows) >= self._shapes:
            self._collect(now)
            if len(self._windows) >= self._shapes:
                of = None
        window = self._windows.get(of)
        if window is None or now - window.begin >= self._seconds:
            self._close(of)
            window = self._windows[of] = _Window(now)
        if window.passed < self._most:
            window.passed += 1
            return True
        window.held += 1
        return False

    def over(self, *, everything: bool = False) -> list[tuple[Hashable, int]]:
        """Shapes whose window is over, and how many lines of each were left out; each once.
        ``everything``: also of windows that are not over, as at the end.
        """
        self._collect(float("inf") if everything else self._clock())
        found, self._over = self._over, []
        return found

    def _collect(self, now: float) -> None:
        ended = [of for of, each in self._windows.items() if now - each.begin >= self._seconds]
        for of in ended:
            self._close(of)

    def _close(self, of: Hashable) -> None:
        window = self._windows.pop(of, None)
        if window is not None and window.held:
            self._over.append((of, window.held))


class Counted(NamedTuple):
    """What came in so many seconds."""

    counts: dict[str, int]
    seconds: float


class Tally:
    """Counts that are said once a minute, and not at all where there are none.

    Parameters
    ----------
    seconds : from the first count of a line to the line
    clock : seconds, never going back
    """

    def __init__(
        self, seconds: float = MINUTE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._clock = seconds, clock
        self._counts: Counter[str] = Counter()
        self._since: float | None = None

    def add(self, counts: Mapping[str, float]) -> None:
        """So many more, by name."""
        some = {name: int(count) for name, count in counts.items() if count}
        if some:
            self._since = self._clock() if self._since is None else self._since
            self._counts.update(some)

    def due(self, *, everything: bool = False) -> Counted | None:
        """What is to be said now, once; ``everything``: also what came just now, as at the end."""
        if self._since is None:
            return None
        passed = self._clock() - self._since
        if passed < self._seconds and not everything:
            return None
        found = Counted(dict(self._counts), passed)
        self._counts.clear()
        self._since = None
        return found
