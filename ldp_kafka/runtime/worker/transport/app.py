"""Faust's app over our transport."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import confluent_kafka as kafka
import faust
from faust.transport import base
from mode import Service

from ldp_kafka.runtime.kafka.admin.asking import asker, quiet
from ldp_kafka.runtime.worker.transport.consumer import Consumer
from ldp_kafka.runtime.worker.transport.tables import Tables

__all__ = ["App", "Transport"]

QUEUE = 2**16  # batches in an agent's queue: `polling.BUFFER` bounds them for each partition


class Fetcher(Service):  # type: ignore[misc]
    """What Faust starts and stops to fetch: does nothing, since the consumer's thread fetches."""

    def __init__(self, _: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class Transport(base.Transport):  # type: ignore[misc]
    """What Faust makes its consumer and its fetcher of. Its producer is the one of Faust that sends
    nothing: all that is written goes through `producers.Producers`.
    """

    Consumer, Fetcher = Consumer, Fetcher
    driver_version = f"confluent-kafka={kafka.__version__}"

    def client(self, **more: Any) -> kafka.Consumer:
        """A new client of the app's group, with these further settings."""
        return kafka.Consumer({**self.app.config, **more})

    def asker(self) -> kafka.Consumer:
        """A new client that only asks."""
        return asker(quiet(self.app.config), self.app.conf.id)


class App(faust.App):  # type: ignore[misc]
    """Faust's app over this transport.

    Parameters
    ----------
    name : the consumer group
    config : of its client, see `side.Side.member`
    sources : by table, the topic whose partitions the table's belong to
    settings : Faust's own
    """

    def __init__(
        self, name: str, *, config: Mapping[str, Any], sources: Mapping[str, str], **settings: Any
    ) -> None:
        super().__init__(name, TableManager=Tables, stream_buffer_maxsize=QUEUE, **settings)
        self.config, self.sources, self.folded = config, sources, {*sources.values()}
        self.transport = Transport([], self)
        self.finished = False
        """Whether all that was acknowledged is committed, and nothing had crashed by then: only the
        connections are left to close.
        """
        self.given: Callable[[Collection[Any]], None] = lambda _: None
        """Is told of each assignment, at its beginning."""
        self.ready: Callable[[], None] = lambda: None
        """Is told when the state of an assignment is read, and messages flow."""
        self.failing: Callable[[], None] = lambda: None
        """Is told of a broker that is not reached."""
        self.lost: Callable[[], None] = lambda: None
        """Is told of a rebalance that begins while the app ends."""

    async def on_first_start(self) -> None:
        """Make no directories: the app keeps nothing on a disk."""
