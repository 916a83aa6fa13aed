"""A private name of somebody else's that is leaned on, and whether it is still there."""

from __future__ import annotations

import inspect
from typing import NamedTuple

__all__ = ["Private"]


class Private(NamedTuple):
    """A name of Faust's or aiokafka's that is used beyond what they document."""

    owner: type
    name: str
    why: str
    within: str = ""
    """The owner's method whose source says what is relied on; the name itself is looked up where
    there is none.
    """

    @property
    def there(self) -> bool:
        """Whether this version of theirs has it."""
        try:
            if self.within:
                called = getattr(self.owner, self.within)
                # a task of a service is wrapped
                return self.name in inspect.getsource(getattr(called, "fun", called))
            return any(
                hasattr(one, self.name) or self.name in vars(one).get("__annotations__", {})
                for one in self.owner.__mro__
            ) or f"self.{self.name}: " in inspect.getsource(vars(self.owner)["__init__"])
        except (AttributeError, KeyError, OSError, TypeError):  # no such method, or no source of it
            return False

    def __str__(self) -> str:
        where = f"{self.owner.__module__}.{self.owner.__qualname__}"
        within = self.within and f" in {self.within}"
        return f"{where} has no {self.name!r}{within}: {self.why}"
