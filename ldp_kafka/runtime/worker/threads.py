"""What would block the loop, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_thread"]

_Answer = TypeVar("_Answer")


async def in_thread(work: Callable[[], _Answer]) -> _Answer:
    """Do it in a thread: the loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(None, work)
