"""What binds the state of a stage to the edge's key."""

from __future__ import annotations

from typing import Any, ClassVar

from ldp_kafka.runtime.keys import EdgeNoise
from ldp_kafka.runtime.sealing import Seal

__all__ = ["KeyedStage", "UnkeyedStage"]


class KeyedStage:
    """A stage that folds raw values, with noise of the edge's key: ``randomness``."""

    randomness: EdgeNoise

    @property
    def key(self) -> str:
        """A check value of the edge's keys, bound to the state. Under another first key all users
        would look new, their budgets unspent; under other rotations a (user, slot) could be drawn
        twice.
        """
        return self.randomness.check

    @property
    def deployment(self) -> str:
        """Which raw topic's values the state holds; under another one each would be drawn again."""
        return self.randomness.deployment

    @property
    def seal(self) -> Seal:
        """Of the edge's key: the state holds what users have spent and, in some methods, values."""
        return self.randomness.seal


class UnkeyedStage:
    """A stage that folds reports, or what was made of them: its state holds nothing of a user's own
    that a seal would hide, no budget, and no event time.
    """

    deployment: ClassVar[str] = ""
    key: ClassVar[str] = ""
    seal: ClassVar[None] = None
    windowed: ClassVar[bool] = False

    def watermark(self, _: Any, /) -> int:
        """No time of an event is known."""
        return -1

    def users(self, _: Any, /) -> None:
        """No users are known."""

    def budget(self, _: Any, /) -> None:
        """No user has one here."""
