"""Broken twins: each has one fault that would cost privacy, truth or repeatability, and is
registered with the check of the contract that must find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["TWINS", "Twin", "breaks"]


class Twin(NamedTuple):
    """A broken class, the class that it is a twin of, the check that must find it, and what it is
    built and tried with where that is not what its original is.
    """

    kind: type
    of: type
    check: str
    settings: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind.__name__}-{self.check}"


TWINS: dict[str, Twin] = {}
"""By name and check."""


def breaks(check: str, *, of: type | tuple[type, ...], **settings: Any) -> Callable[[type], type]:
    """Register a fault under the check that must find it. A class that derives from the one that
    it is a twin ``of`` is the twin itself; any other is mixed into each of them, as a twin that
    has the names of both.
    """

    def register(fault: type) -> type:
        for original in of if isinstance(of, tuple) else (of,):
            kind = fault
            if not issubclass(fault, original):
                name = f"{original.__name__}{fault.__name__}"
                kind = type(name, (fault, original), {"__module__": fault.__module__})
            twin = Twin(kind, original, check, settings)
            if str(twin) in TWINS:
                raise ValueError(f"there are two twins {twin}")
            TWINS[str(twin)] = twin
        return fault

    return register
