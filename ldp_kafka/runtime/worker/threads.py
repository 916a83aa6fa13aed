"""What would block the loop, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from ldp_kafka.runtime.kafka.broker_health import UnansweredError

__all__ = ["answered", "in_thread"]

AGAIN = 0.05  # seconds until a broker that did not answer is asked again

_Answer = TypeVar("_Answer")


class Asked(Protocol):
    """What asks brokers, such as `broker_health.BrokerHealth`."""

    def ask(self, about: str, question: Callable[[], _Answer], /) -> _Answer: ...
    def forget(self, about: str) -> None: ...


async def in_thread(work: Callable[[], _Answer]) -> _Answer:
    """Do it in a thread: the loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def answered(
    asked: Asked, about: str, question: Callable[[], _Answer], wanted: Callable[[], bool]
) -> _Answer | None:
    """What a broker says, however long it is away; None where nobody wants to know any more."""
    while wanted():
        try:
            answer = await in_thread(partial(asked.ask, about, question))
        except UnansweredError:
            await asyncio.sleep(AGAIN)
        else:
            return answer if wanted() else None
    asked.forget(about)
    return None
