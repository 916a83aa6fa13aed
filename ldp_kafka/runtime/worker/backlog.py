"""How many messages wait, asked from a thread: the loop stands still while a fold runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException

from ldp_kafka.errors import BrokerError, LdpKafkaError
from ldp_kafka.metrics import Metrics
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.recovery.policies import Place
from ldp_kafka.runtime.worker.probes import Probes

__all__ = ["Backlog"]

ASK = 5.0  # seconds between two questions


class Backlog:
    """Shows the lag of a worker's partitions, and tells the probes whether the broker answers.

    Parameters
    ----------
    offsets : asks the brokers
    assigned : gives the partitions that the worker has, none where they are being given out
    topics : that it reads: where it has no partition, whether the broker knows them is asked
    """

    def __init__(
        self,
        offsets: GroupOffsets,
        assigned: Callable[[], set[Place]],
        topics: Sequence[str],
        metrics: Metrics,
        probes: Probes,
    ) -> None:
        self.offsets, self.assigned, self.topics = offsets, assigned, topics
        self.metrics, self.probes = metrics, probes

    def start(self) -> None:
        """Ask from now on, until the process ends."""
        threading.Thread(target=self._run, daemon=True, name="backlog").start()

    def _run(self) -> None:
        while True:
            self.look()
            time.sleep(ASK)

    def look(self) -> None:
        """Ask once. What the broker forbids is left to the watch, which asks for it too."""
        places = self.assigned()
        lag = {}
        try:
            if places:
                lag = self.offsets.lag(places)
            else:
                self.offsets.partitions(self.topics[0])
        except (BrokerError, KafkaException):
            self.probes.silent()
            return
        except LdpKafkaError:
            return
        self.probes.answered()
        if places and places == self.assigned():  # else it is of partitions that others have now
            self.metrics.lag(sum(lag.values()))
