"""What a worker's client says of its consumer group to nobody but who asks: that it does nothing
more, or that it waits for somebody to hear of an error.
"""

from __future__ import annotations

import logging
from typing import Any

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from faust.transport.drivers import aiokafka

from ldp_kafka.errors import BrokerError, LdpKafkaError
from ldp_kafka.runtime.worker.driver.app import App
from ldp_kafka.runtime.worker.driver.private_api import Private
from ldp_kafka.runtime.worker.exits import end
from ldp_kafka.runtime.worker.foreign import chain, said
from ldp_kafka.runtime.worker.process import forbidden

__all__ = ["PRIVATE_API", "dropped", "heard"]

logger = logging.getLogger(__name__)


def _client(app: App) -> tuple[Any, Any, Any]:
    """The client of an app, its group and its fetcher; None what there is not yet."""
    # `consumer` would make one
    thread = getattr(app._consumer, "_thread", None)  # noqa: SLF001
    client = getattr(thread, "_consumer", None)
    return client, getattr(client, "_coordinator", None), getattr(client, "_fetcher", None)


def dropped(app: App) -> LdpKafkaError | None:
    """Why the client does nothing more: one of its own tasks, for the group, for fetches or for
    what the cluster looks like, has ended. Nobody else asks: Faust fetches past the place where the
    client would say so. None where it goes on.
    """
    client, group, fetcher = _client(app)
    tasks = {
        "its group": getattr(group, "_coordination_task", None),
        "fetches": getattr(fetcher, "_fetch_task", None),
        "what the cluster looks like": getattr(
            getattr(client, "_client", None), "_sync_task", None
        ),
    }
    for what, task in tasks.items():
        if task is not None and task.done() and not app.should_stop:
            return BrokerError(
                f"the client does nothing more for {what}, after {_why(task)}: a new worker joins"
                " its group again"
            )
    return None


def _why(task: Any) -> str:
    """What a task has ended with."""
    error = None if task.cancelled() else task.exception()
    return "an end in order" if error is None else "; ".join(map(said, chain(error)))


def heard(app: App) -> bool:
    """Hear of what the client's group waits to be heard of, whether there was anything. It tries
    again then, with what brokers say of themselves by then.

    That a coordinator loads its group, or another passing state that the client does not know, is
    such a thing: one for each outage, rather than a new worker. A right that is missing ends the
    process.
    """
    client, group, _ = _client(app)
    error = getattr(group, "_pending_exception", None)
    if error is None or app.should_stop:
        return False
    if (lacking := forbidden(error)) is not None:
        end(lacking)

    def hear() -> None:
        waits, group._error_consumed_fut = group._error_consumed_fut, None  # noqa: SLF001
        group._pending_exception = None  # noqa: SLF001
        group.request_rejoin()  # a task that failed begins anew with it
        client._client.force_metadata_update()  # noqa: SLF001
        if waits is not None and not waits.done():
            waits.set_result(None)

    logger.warning("the client's group has an error, and tries again: %r", error)
    client._loop.call_soon_threadsafe(hear)  # noqa: SLF001
    return True


PRIVATE_API = (
    Private(faust.App, "_consumer", "dropped looks whether there is one"),
    Private(aiokafka.Consumer, "_thread", "dropped asks its client"),
    Private(aiokafka.AIOKafkaConsumerThread, "_consumer", "the client"),
    Private(AIOKafkaConsumer, "self._coordinator = ", "the client's group", "__init__"),
    Private(GroupCoordinator, "self._coordination_task = create_task(", "dropped asks for it",
         "__init__"),
    Private(GroupCoordinator, "self._pending_exception = exc", "it waits to be heard",
         "_push_error_to_user"),
    Private(AIOKafkaConsumer, "self._fetcher = Fetcher(", "dropped asks it", "start"),
    Private(Fetcher, "self._fetch_task = create_task(", "dropped asks for it", "__init__"),
    Private(AIOKafkaConsumer, "self._client = AIOKafkaClient(", "what it asks brokers with",
         "__init__"),
    Private(AIOKafkaConsumer, "self._loop = ", "heard works in the client's loop", "__init__"),
    Private(AIOKafkaClient, "self._sync_task = create_task(", "dropped asks for it", "bootstrap"),
    Private(GroupCoordinator, "self._error_consumed_fut = create_future()", "heard hears of it",
         "_push_error_to_user"),
)  # fmt: skip
