"""One Kafka cluster as one role sees it."""

from __future__ import annotations

import time
from typing import Any

from ldp_kafka.runtime.kafka.client_options import check_options, reconnects
from ldp_kafka.runtime.kafka.oauth import for_librdkafka
from ldp_kafka.runtime.worker.logs import LIBRDKAFKA
from ldp_kafka.topology import KafkaSide

__all__ = ["Side"]

# as long as a loop may hang (`health_rules.STUCK`): callbacks of the group wait for it in a poll
MAX_POLL_MS = 120_000


class Side:
    """One Kafka cluster as one role sees it: how our clients connect.

    Parameters
    ----------
    kafka : the topology's section
    bootstrap : addresses, separated by commas

    Raises
    ------
    ConfigurationError : see `client_options.check_options`
    """

    def __init__(self, kafka: KafkaSide, bootstrap: str) -> None:
        check_options(kafka.client)
        self.bootstrap = bootstrap
        self.config: dict[str, Any] = {
            **reconnects(kafka.client),
            **for_librdkafka(kafka.client),
            "bootstrap.servers": bootstrap,
            "log_level": 3,
            "logger": LIBRDKAFKA,
        }

    @property
    def asking(self) -> dict[str, Any]:
        """Settings of a client that only asks: nobody polls it, so nobody would hear what it says;
        why a question has no answer is in its error.
        """
        config = {name: value for name, value in self.config.items() if name != "logger"}
        return config if "debug" in config else {**config, "log_level": 0}

    def member(self, group: str, *, session_ms: int, read_committed: bool) -> dict[str, Any]:
        """Settings of a client that joins a consumer group. What the topology says of fetches wins.

        Parameters
        ----------
        session_ms : without a heartbeat, after which the group takes the partitions away
        read_committed : leave out what a foreign producer's transaction took back
        """
        return {
            "queued.max.messages.kbytes": 8_192,
            "queued.min.messages": 20_000,
            "fetch.queue.backoff.ms": 10,
            # A broker that has just started may not know all partitions of a topic. The group's
            # leader gives out the others when it has asked again
            "topic.metadata.refresh.interval.ms": 15_000,
            **self.config,
            # `range` sorts members by their ids, which a broker begins with the client's. So who
            # came first keeps the first partitions when another one joins
            "client.id": f"{time.time_ns():020d}",
            "group.id": group,
            "group.protocol": "classic",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": min(3000, session_ms // 10),
            "max.poll.interval.ms": max(MAX_POLL_MS, session_ms),
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "check.crcs": True,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
