"""Batches of one partition, each of which is one message to Faust.

Faust takes some 90 microseconds for a message: conductor, queue, stream, sensors. It takes as long
for a batch of thousands.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby

import confluent_kafka as kafka
import numpy as np
from faust.types import TP
from faust.types.tuples import Message as FaustMessage
from numpy.typing import NDArray

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.runs import Run

__all__ = ["MOST", "Batch", "batches", "by_partition"]

MOST = 4096  # messages of a batch, at most
# bytes of a batch, about and at most: its reports, somewhat more, are one request of a producer
MOST_BYTES = 3 * 2**18

# unbound: looking a method up in each message takes three times as long as calling it
_PARTITION, _OFFSET = kafka.Message.partition, kafka.Message.offset
_STAMP, _VALUE = kafka.Message.timestamp, kafka.Message.value


class Batch(FaustMessage):  # type: ignore[misc]
    """A run of one partition as a message of Faust's, with the offset of its last record: who
    acknowledges it acknowledges all. `use_tracking` is not set, so Faust keeps no account of it.

    Parameters
    ----------
    generation : the number of the assignment that it was fetched under
    taken : is told when an agent has taken it
    """

    def __init__(self, partition: TP, run: Run, generation: int, taken: Callable[[], None]) -> None:
        offset, stamp = run.offsets.item(-1), max(0, run.timestamps.item(-1)) / 1000
        nothing = (0, (), None, None, None, 0, 0)  # such as headers, a key, a value
        super().__init__(*partition, offset, stamp, *nothing, partition, generation_id=generation)
        self._run: Sequence[Message] = run
        self._taken = taken

    def take(self) -> Sequence[Message]:
        """What it brings, once: its bytes need not wait until it is acknowledged."""
        run, self._run = self._run, ()
        self._taken()
        return run


def by_partition(
    found: Sequence[kafka.Message], topics: Sequence[str]
) -> dict[TP, list[kafka.Message]]:
    """Messages of these topics, without errors, by their partition, in their order."""
    one = topics[0] if len(topics) == 1 else None  # the usual case: no message is asked
    made: dict[TP, list[kafka.Message]] = {}
    for at, some in groupby(found, _place if one is None else _PARTITION):
        made.setdefault(TP(*at) if one is None else TP(one, at), []).extend(some)
    return made


def _place(message: kafka.Message) -> tuple[str, int]:
    return message.topic(), message.partition()


def batches(
    partition: TP, messages: Sequence[kafka.Message], generation: int, taken: Callable[[], None]
) -> tuple[list[Batch], int]:
    """Batches of messages of one partition, and the bytes of all."""
    values = list(map(_VALUE, messages))
    # a time of 0 is none
    stamps = np.array([stamp or -1 for _, stamp in map(_STAMP, messages)], np.int64)
    run = Run(_offsets(messages), stamps, values)
    return [Batch(partition, each, generation, taken) for each in _cut(run)], run.size


def _cut(run: Run) -> Iterator[Run]:
    if run.size <= MOST_BYTES and len(run) <= MOST:
        yield run
        return
    sizes = list(accumulate([len(value or b"") for value in run.values]))
    start = before = 0
    while start < len(run):
        last = bisect_left(sizes, before + MOST_BYTES, start)
        end = min(last + 1, start + MOST, len(run))
        yield run[start:end]
        start, before = end, sizes[end - 1]


def _offsets(messages: Sequence[kafka.Message]) -> NDArray[np.int64]:
    """Offsets of messages in rising order. Only where some are missing each message is asked."""
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first == len(messages) - 1:
        return np.arange(first, last + 1)
    return np.array(list(map(_OFFSET, messages)), np.int64)
