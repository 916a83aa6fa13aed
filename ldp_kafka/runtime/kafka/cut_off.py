"""A member of a consumer group that finds none of its brokers, though they are there.

librdkafka (2.16) forgets a broker that an answer about the cluster leaves out. A broker leaves out
those that the controllers have shut out for a silence, so for a moment all, itself as well, where
all were away. The client begins again at its bootstrap servers, but not while something still
holds the forgotten broker: one in thirty members was seen to find none for ever, after a node that
was frozen for 10 s. (Issue 5301 of its repository is of the same kind.)
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException

__all__ = ["CutOff"]

QUIET = 3.0  # seconds without a message after which a member is asked
ANSWER = 3.0  # seconds for an answer, also of a client that has just connected
CERTAIN = 5.0  # seconds for the last one
_NONE = KafkaError._TRANSPORT  # noqa: SLF001 - its name; there is none to be asked
_SILENT = KafkaError._TIMED_OUT  # noqa: SLF001 - one was asked, as one of three that is frozen


class CutOff:
    """Whether a member is cut off. For the thread that has its client.

    Parameters
    ----------
    topic : that the group reads
    fresh : a new client of the same brokers
    """

    def __init__(self, topic: str, fresh: Callable[[], Consumer]) -> None:
        self._topic, self._fresh = topic, fresh
        self._heard = time.monotonic()

    def heard(self) -> None:
        """Something has come by the client."""
        self._heard = time.monotonic()

    def found(self, client: Consumer) -> bool:
        """Whether nothing has come for long, and a new client is answered, and this one has still
        no broker that it could ask.
        """
        if time.monotonic() - self._heard < QUIET:
            return False
        cut = (
            self._said(client, ANSWER) == _NONE
            and self._said(self._fresh(), ANSWER) not in (_NONE, _SILENT)
            and self._said(client, CERTAIN) == _NONE
        )
        self.heard()
        return cut

    def _said(self, client: Consumer, seconds: float) -> int | None:
        """The code of the error where a client asks any broker about the topic; None where a broker
        answers. The coordinator is not asked: it answers nothing to a member that waits to join.
        """
        try:
            client.list_topics(self._topic, seconds)
        except KafkaException as error:
            return int(error.args[0].code())
        return None
