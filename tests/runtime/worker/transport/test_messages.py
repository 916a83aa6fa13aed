"""Batches: cut from what a poll gives, each one message to Faust."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE
from faust.types import TP

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.worker.transport.messages import MOST, MOST_BYTES, batches, by_partition
from tests.runtime.worker.transport.world import P0, P1, message


def cut(messages):
    """The batches of messages of one partition, and their bytes."""
    return batches(P0, messages, 3, lambda: None)


def test_a_fetch_is_cut_by_messages_and_by_bytes():
    """In order, nothing left out, nothing twice."""
    many = [message(offset) for offset in range(2 * MOST + 1)]
    found, size = cut(many)
    runs = [batch.take() for batch in found]
    assert [len(run) for run in runs] == [MOST, MOST, 1]
    assert [each.offset for run in runs for each in run] == list(range(2 * MOST + 1))
    assert size == 2 * MOST + 1
    found, size = cut([message(offset, value=bytes(MOST_BYTES // 2)) for offset in range(5)])
    assert [len(batch.take()) for batch in found] == [2, 2, 1]
    assert size == 5 * MOST_BYTES // 2
    found, size = cut([message(3, value=None)])
    assert ([len(batch.take()) for batch in found], size) == ([1], 0)
    found, _ = cut([message(0, value=bytes(3 * MOST_BYTES)), message(1)])
    assert [len(batch.take()) for batch in found] == [1, 1], "larger than a batch may be, it is one"


def test_a_batch_is_one_message_that_lets_go_of_what_it_brought():
    """With the offset of its last record; what waits for its acknowledgement holds no bytes."""
    taken = []
    [batch], size = batches(
        P1,
        [
            message(7, value=b"a", timestamp=(TIMESTAMP_CREATE_TIME, 5)),
            message(8, value=None, timestamp=(TIMESTAMP_NOT_AVAILABLE, 0)),
            message(11, value=b"c", timestamp=(TIMESTAMP_CREATE_TIME, -1)),
            message(12, value=b"d", timestamp=(TIMESTAMP_CREATE_TIME, 6000)),
        ],
        3,
        lambda: taken.append(1),
    )
    assert (batch.tp, batch.topic, batch.partition, batch.offset) == (P1, "t", 1, 12)
    assert (batch.generation_id, batch.timestamp, batch.value, size) == (3, 6.0, None, 3)
    assert not taken
    assert list(batch.take()) == [
        Message(7, 5, b"a"), Message(8, -1, None), Message(11, -1, b"c"), Message(12, 6000, b"d"),
    ]  # fmt: skip
    assert taken == [1]
    assert list(batch.take()) == []


@pytest.mark.parametrize("other", [P1, TP("u", 0)])
def test_a_poll_is_parted_by_partition(other):
    """Of one topic or of several, however they are mixed; each in its order."""
    mixed = [message(n, partition=at) for n, at in enumerate([P0, P0, other, P0, other])]
    found = by_partition(mixed, sorted({P0.topic, other.topic}))
    assert {at: [each.offset() for each in some] for at, some in found.items()} == {
        P0: [0, 1, 3],
        other: [2, 4],
    }
    assert by_partition([], ["t"]) == {}
