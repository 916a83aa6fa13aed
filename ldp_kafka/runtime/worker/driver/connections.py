"""What the client sends, and what becomes of it where a connection is gone at that moment.

The client takes an error of its own kind for a broker that is away, and goes on. Of a connection
that was just closed uvloop says so by an error of its own, and between two of the client's steps
another task may have thrown the connection away. Each of these ended the client's task for the
group, and with it the worker.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError, KafkaError

from ldp_kafka.runtime.worker.driver.private_api import Private
from ldp_kafka.runtime.worker.foreign import said

__all__ = ["PRIVATE_API", "Connections"]

PAUSE = 0.5  # seconds after a try to connect that came to nothing


class Connections(AIOKafkaClient):  # type: ignore[misc]
    """The client's connections: one that is gone is a broker that is away."""

    _request_timeout_ms: int
    answer_ms: int
    """How long it waits for an answer, once there is a connection."""

    def connect_within(self, milliseconds: int) -> None:
        """Wait no longer for a connection, nor for each of the answers that make it one. The client
        waits for them as long as for any other, and the system hardly asks any more by then, see
        `client_options.reconnects`.
        """
        self.answer_ms = self._request_timeout_ms
        self._request_timeout_ms = min(milliseconds, self.answer_ms)

    async def send(
        self, node_id: Any, request: Any, *, group: Any = ConnectionGroup.DEFAULT
    ) -> Any:
        """Send a request to a broker; its answer."""
        try:
            return await super().send(node_id, request, group=group)
        except KafkaError:
            raise
        except (RuntimeError, KeyError) as error:
            raise KafkaConnectionError(
                f"the connection to {node_id} is gone: {said(error)}"
            ) from error

    async def _get_conn(self, *what: Any, **how: Any) -> Any:
        """A connection; after a moment None where there is none just now: everything in the client
        asks again at once, ten times a second and more, and so a worker without a broker would take
        from others what they need to come back.
        """
        try:
            found = await super()._get_conn(*what, **how)
        except (RuntimeError, KeyError) as error:
            if isinstance(error, KafkaError):
                raise
            found = None
        if found is None:
            await asyncio.sleep(PAUSE)
        else:
            found._request_timeout = self.answer_ms / 1000  # noqa: SLF001 - it is made
        return found

    async def coordinator_lookup(self, *what: Any) -> Any:
        """The broker that leads a group. A cluster whose brokers are only just coming back may have
        said that it has none: the client asks it again.
        """
        if self.get_random_node() is None:
            raise KafkaConnectionError("no broker is there yet")
        return await super().coordinator_lookup(*what)

    async def _metadata_update(self, *what: Any) -> bool:
        """What the cluster looks like; whether a broker said so."""
        try:
            return bool(await super()._metadata_update(*what))
        except (RuntimeError, KeyError) as error:
            if isinstance(error, KafkaError):
                raise
            return False


PRIVATE_API = (
    Private(AIOKafkaConsumer, "self._client = AIOKafkaClient(", "Thread makes it one of these",
         "__init__"),
    Private(AIOKafkaClient, "_get_conn", "Connections has none where one is gone"),
    Private(AIOKafkaClient, "await self._get_conn(node_id)", "it is asked", "_metadata_update"),
    Private(AIOKafkaClient, "request_timeout_ms=self._request_timeout_ms", "it is made with that",
         "_get_conn"),
    Private(AIOKafkaConnection, "async_timeout.timeout(self._request_timeout)", "it waits so long",
         "connect"),
    Private(AIOKafkaConnection, "wait_for(fut, self._request_timeout)", "and for each answer",
         "send"),
    Private(AIOKafkaClient, "_metadata_update", "Connections goes on"),
    Private(AIOKafkaClient, "await self._metadata_update(self.cluster, topics)", "in its task",
         "_md_synchronizer"),
    Private(AIOKafkaClient, "coordinator_lookup", "Connections looks whether there are brokers"),
    Private(AIOKafkaClient, "node_id = self.get_random_node()", "so does it, and would end",
         "coordinator_lookup"),
    Private(AIOKafkaClient, "send", "Connections says what has become of it"),
)  # fmt: skip
