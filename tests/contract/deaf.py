"""What is broken about every mechanism that draws under a key as if nobody else did."""

from __future__ import annotations

__all__ = ["Deaf", "shares_its_words"]


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


def shares_its_words(kind):
    """A twin of a mechanism whose words are not its own."""

    class SharesItsWords(kind):
        def perturb(self, values, randomness):
            return super().perturb(values, Deaf(randomness))

    SharesItsWords.__name__ = f"{kind.__name__}SharesItsWords"
    return SharesItsWords
