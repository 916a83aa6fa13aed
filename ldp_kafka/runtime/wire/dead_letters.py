"""Dead letters: where a bad record lay and why, never what it held."""

from __future__ import annotations

from dataclasses import dataclass

from ldp_kafka.errors import Reason
from ldp_kafka.records import DeadLetter
from ldp_kafka.runtime.log import Record
from ldp_kafka.runtime.wire.records import encode_json

__all__ = ["DeadLetters"]


@dataclass(frozen=True)
class DeadLetters:
    """The dead letters of one partition of a topic.

    Parameters
    ----------
    to : the topic that they go to
    topic, partition : where the bad records lie
    """

    to: str
    topic: str
    partition: int

    def __call__(self, offset: int, row: int, reason: Reason) -> Record:
        """A record for one bad row.

        The body is a `DeadLetter` as JSON; the headers carry the same under the names that Kafka
        Connect gives them (``__connect.errors.*``), with ``ldp.reason`` a code of
        `ldp_kafka.errors.Reason`.
        """
        headers = {
            "__connect.errors.topic": self.topic,
            "__connect.errors.partition": self.partition,
            "__connect.errors.offset": offset,
            "ldp.row": row,
            "ldp.reason": reason,
        }
        return Record(
            self.to,
            0,
            None,
            encode_json(DeadLetter(self.topic, self.partition, offset, row, reason)),
            tuple((name, str(value).encode()) for name, value in headers.items()),
        )
