"""A client that finds none of its brokers, though they are there.

librdkafka (2.16) forgets a broker that an answer about the cluster leaves out. A broker leaves out
those that the controllers have shut out for a silence, so for a moment all, itself as well, where
all were away. The client begins again at its bootstrap servers, but not while something still
holds the forgotten broker: one in eight members of a group was seen to find none for ever, after a
node that was frozen for 10 s. (Issue 5301 of its repository is of the same kind.)
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from ldp_kafka.runtime.kafka.broker_health import STEP, BrokerHealth

__all__ = ["CutOff"]

QUIET = 5.0  # seconds without a message after which a client is asked
ANSWER = 5.0  # seconds for its answer: connecting again, it may wait for one of them twice


class CutOff:
    """Whether one client is cut off. For the thread that has the client.

    Parameters
    ----------
    brokers : what the process's other clients are answered
    """

    def __init__(self, brokers: BrokerHealth) -> None:
        self._brokers, self._heard = brokers, time.monotonic()

    def heard(self) -> None:
        """Something has come by the client, or a new client takes its place."""
        self._heard = time.monotonic()

    def found(self, ask: Callable[[float], object]) -> bool:
        """Whether nothing has come for long, and the client is not answered while others are.

        Parameters
        ----------
        ask : asks a broker by the client; for so many seconds at most. KafkaException where it is
            not answered
        """
        if time.monotonic() - self._heard < QUIET:
            return False
        before = self._brokers.clock()
        try:
            ask(ANSWER)
        except KafkaException:
            cut = self._brokers.here and self._brokers.clock() - before > ANSWER - STEP
        else:
            cut = False
        self.heard()
        return cut
