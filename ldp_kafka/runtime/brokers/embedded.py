"""The embedded broker: librdkafka's mock cluster inside the confluent-kafka wheel, hosted by this
process.

It is for demonstrations and fast tests. It keeps everything in memory, at most 5 MiB a partition
(older records go), does not compact, creates no topics for clients and treats transactions as a
façade: nothing about durability may be claimed from a run on it.

Whoever starts one hosts it; other processes find it by its *run file*
(`ldp_kafka.runtime.brokers.run_files`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Self
from uuid import uuid4

from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.librdkafka import ALREADY_EXISTS, librdkafka, new_handle

__all__ = ["EmbeddedBroker", "is_embedded"]


class EmbeddedBroker:
    """A Kafka broker in the threads of this process.

    Parameters
    ----------
    rebalance_delay_ms : how long a new consumer group waits for more members, in milliseconds

    Notes
    -----
    A member that leaves a group blocks the next join for about its session timeout: give clients
    one of 1 to 2 seconds.

    Examples
    --------
    >>> with EmbeddedBroker() as broker:
    ...     broker.create_topic("raw", 2), broker.create_topic("raw", 2)
    (True, False)

    """

    def __init__(self, *, rebalance_delay_ms: int = 0) -> None:
        if isinstance(rebalance_delay_ms, bool) or not 0 <= rebalance_delay_ms < 2**31:
            raise ConfigurationError(
                f"rebalance_delay_ms must be an integer of 0 or more, got {rebalance_delay_ms!r}"
            )
        self._delay = rebalance_delay_ms
        self._cleanup = ExitStack()
        self._cluster: int | None = None
        self._address = ""
        self.deployment = uuid4().hex
        """What tells it from every other, as a topic's id does at a broker that has one."""

    def start(self) -> Self:
        """Start to serve; a second start changes nothing.

        Raises
        ------
        ConfigurationError : no librdkafka with a mock cluster is to be found
        BrokerError : librdkafka could not start it

        """
        if self._cluster is not None:
            return self
        library = librdkafka()
        with ExitStack() as cleanup:
            handle = new_handle(library)
            cleanup.callback(library.rd_kafka_destroy, handle)
            cluster = library.rd_kafka_mock_cluster_new(handle, 1)
            if not cluster:
                raise BrokerError("librdkafka could not start the embedded broker")
            cleanup.callback(library.rd_kafka_mock_cluster_destroy, cluster)
            library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, self._delay)
            self._address = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
            self._cluster = cluster
            self._cleanup = cleanup.pop_all()
        return self

    def stop(self) -> None:
        """End it, with all its records and run files; a second stop changes nothing."""
        self._cluster = None
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """``127.0.0.1:port``; BrokerError where it does not run."""
        self._running()
        return self._address

    def create_topic(self, name: str, partitions: int) -> bool:
        """Create a topic.

        Returns
        -------
        whether it was created; False where there was one of this name (whatever its partitions)

        Raises
        ------
        ConfigurationError : partitions is not a positive integer
        BrokerError : the broker does not run, or refused

        """
        if isinstance(partitions, bool) or not 1 <= partitions < 2**31:
            raise ConfigurationError(
                f"partitions of topic {name} must be a positive integer, got {partitions!r}"
            )
        library = librdkafka()
        code = library.rd_kafka_mock_topic_create(self._running(), name.encode(), partitions, 1)
        if code not in (0, ALREADY_EXISTS):
            raise BrokerError(
                f"the embedded broker refused topic {name}:"
                f" {library.rd_kafka_err2name(code).decode()}"
            )
        return bool(code == 0)

    def at_stop(self, callback: Callable[[], object]) -> None:
        """Call this when the broker stops, before it is gone; BrokerError where it does not run."""
        self._running()
        self._cleanup.callback(callback)

    def _running(self) -> int:
        if self._cluster is None:
            raise BrokerError("the embedded broker does not run: start() it first")
        return self._cluster


def is_embedded(cluster_id: str | None) -> bool:
    """Whether a cluster's id, as its metadata gives it, is that of an embedded broker, in whatever
    process.
    """
    return cluster_id is not None and cluster_id.startswith("mockCluster")
