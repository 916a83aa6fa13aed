"""`ldp_kafka.AsyncClient`: the client for programs that run an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from ldp_kafka.runtime.device.client import Client, Status

__all__ = ["AsyncClient"]

T = TypeVar("T")


class AsyncClient:
    """`Client` with calls to be awaited: each waits for the disk in a thread of its own, one after
    the other, and the loop goes on.

    Takes what `Client` takes; the database is opened when the ``async with`` block, or the first
    call, is entered. A call that is cancelled is carried out all the same: a report of it counts.

    Examples
    --------
    >>> async def run(client):
    ...     async with client:
    ...         await client.report(37.5)
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        self._make: Callable[[], Client] = partial(Client, *given, **named)
        self._client: Client | None = None
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "ldp-kafka-client")

    async def report(
        self,
        value: float | str | Sequence[float],
        time: float | str | datetime | None = None,
        *,
        user: str | None = None,
    ) -> Status:
        """See `Client.report`."""
        return await self._do(lambda client: client.report(value, time, user=user))

    async def answer(self, *requests: bytes) -> int:
        """See `Client.answer`."""
        return await self._do(lambda client: client.answer(*requests))

    async def poll(self, timeout: float = 0) -> int:  # noqa: ASYNC109 - as in Client
        """See `Client.poll`."""
        return await self._do(lambda client: client.poll(timeout))

    async def flush(self, timeout: float = 10.0) -> int:  # noqa: ASYNC109
        """See `Client.flush`."""
        return await self._do(lambda client: client.flush(timeout))

    async def close(self, timeout: float = 10.0) -> None:  # noqa: ASYNC109
        """See `Client.close`."""
        if self._thread is None:
            return
        try:
            if self._client is not None:
                await self._do(lambda client: client.close(timeout))
        finally:
            thread, self._thread = self._thread, None
            thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        try:
            await self._do(lambda _: None)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'not open' if self._client is None else self._client})"

    async def _do(self, call: Callable[[Client], T]) -> T:
        if self._thread is None:
            raise RuntimeError("the client is closed")
        return await asyncio.shield(
            asyncio.get_running_loop().run_in_executor(self._thread, self._opened, call)
        )

    def _opened(self, call: Callable[[Client], T]) -> T:
        if self._client is None:
            self._client = self._make()
        return call(self._client)
