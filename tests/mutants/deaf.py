"""What is broken about every mechanism that draws under a key as if nobody else did."""

from __future__ import annotations

__all__ = ["Deaf"]


class Deaf:
    """A source that hears of no use: it gives all of them the same words."""

    def __init__(self, source):
        self.source = source
        self.private, self.repeats = source.private, source.repeats

    def within(self, context):
        return self

    def at(self, *context):
        return Deaf(self.source.at(*context))

    def words(self, n, k=1, *, first=0):
        return self.source.words(n, k, first=first)
