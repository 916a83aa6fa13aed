"""What a forked child must leave alone, since it is the parent's."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Protocol

__all__ = ["never_freed", "watch_forks"]


class _Parents(Protocol):
    def abandon(self) -> None:
        """Called in a forked child: from now on nothing happens to what is the parent's."""


_OPEN: weakref.WeakSet[Any] = weakref.WeakSet()


def watch_forks(one: _Parents) -> None:
    """Have it abandoned in every child that is forked while it lives."""
    _OPEN.add(one)


def never_freed(thing: object) -> None:
    """Let an object outlive all that refers to it, for its end would reach what is the parent's."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _abandon() -> None:
    for each in list(_OPEN):
        each.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon)
