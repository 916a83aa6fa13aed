"""Clients that ask brokers about logs and groups, from outside."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.broker.flow import LEADERLESS, PATIENCE, client, watermarks

__all__ = ["Askers"]


class Askers:
    """Asks brokers by one client a group, which is no member of it. A client that lost its brokers
    may find none of them ever again: then new ones ask.

    Parameters
    ----------
    boot : bootstrap servers
    """

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self._of_group: dict[str, Consumer] = {}

    def of(self, group: str) -> Consumer:
        """The client of a group."""
        if group not in self._of_group:
            own = {"group.id": group, "enable.auto.commit": False}
            self._of_group[group] = Consumer(client(self.boot, **own))
        return self._of_group[group]

    def end(self, place: TopicPartition, limit: float = 10.0) -> int:
        """Where a log ends. Not by the admin client's list_offsets: librdkafka ends the process (an
        assertion) where a broker is lost meanwhile.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return watermarks(self.of("nobody"), place, limit, PATIENCE / 4)[1]
            except KafkaException as error:
                if error.args[0].code() not in LEADERLESS or time.monotonic() > until:
                    raise
            self.close()

    def committed(
        self, group: str, places: Sequence[TopicPartition], limit: float = 10.0
    ) -> list[TopicPartition]:
        """The offsets of a group."""
        try:
            return self.of(group).committed(list(places), timeout=limit)
        except KafkaException:
            self.close()
            raise

    def close(self) -> None:
        """End these clients: who asks next has new ones."""
        while self._of_group:
            self._of_group.popitem()[1].close()
