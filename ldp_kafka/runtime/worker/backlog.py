"""How many messages wait, asked from a thread: the loop stands still while a fold runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from ldp_kafka.errors import LdpKafkaError
from ldp_kafka.metrics import Metrics
from ldp_kafka.runtime.kafka.broker_health import BrokerHealth, UnansweredError
from ldp_kafka.runtime.kafka.group_offsets import GroupOffsets
from ldp_kafka.runtime.recovery.policies import Place

__all__ = ["Backlog"]

ASK = 5.0  # seconds between two questions


class Backlog:
    """Shows the lag of a worker's partitions.

    Parameters
    ----------
    offsets : asks the brokers
    assigned : gives the partitions that the worker has, none where they are being given out
    brokers : whether the brokers are there
    """

    def __init__(
        self,
        offsets: GroupOffsets,
        assigned: Callable[[], set[Place]],
        metrics: Metrics,
        brokers: BrokerHealth,
    ) -> None:
        self.offsets, self.assigned = offsets, assigned
        self.metrics, self.brokers = metrics, brokers

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
        if not places or not self.brokers.here:
            return
        try:
            lag = self.brokers.ask("how far the group is", partial(self.offsets.lag, places))
        except (UnansweredError, LdpKafkaError):
            return
        if places == self.assigned():  # else it is of partitions that others have now
            self.metrics.lag(sum(lag.values()))
