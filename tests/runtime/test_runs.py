"""Runs of messages as columns: they are the messages that they were made of."""

from __future__ import annotations

import pytest

from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.runs import Run

MESSAGES = [
    Message(3, 7, b"abc"),
    Message(4, -1, None),
    Message(9, 2**62, b""),
    Message(2**40, 0, b"d"),
    Message(2**40 + 1, 5, b"efgh"),
]


def test_one_by_one_they_are_what_they_were():
    run = Run.of(MESSAGES)
    assert list(run) == MESSAGES == [run[at] for at in range(len(run))]
    assert run[-1] == MESSAGES[-1]
    assert all(type(field) is int for message in run for field in message[:2])
    assert Run.of(run) is run
    with pytest.raises(IndexError):
        run[len(MESSAGES)]


@pytest.mark.parametrize("part", [slice(1, 3), slice(0), slice(-2, None), slice(4, 99)], ids=str)
def test_a_part_is_a_run(part):
    run = Run.of(MESSAGES)[part]
    assert isinstance(run, Run)
    assert list(run) == MESSAGES[part]
    assert len(run) == len(run.offsets) == len(run.timestamps) == len(MESSAGES[part])
    assert bool(run) is bool(MESSAGES[part])


def test_parts_of_both_kinds_are_joined_in_order():
    """Messages that came one by one, and runs, whatever stands beside what."""
    for kinds in range(2**5):
        parts = [
            Run.of([message]) if kinds >> at & 1 else [message]
            for at, message in enumerate(MESSAGES)
        ]
        assert list(Run.join(parts)) == MESSAGES
        assert list(Run.join([Run.join(parts[:2]), *parts[2:]])) == MESSAGES


def test_its_size_is_that_of_all_values():
    assert (Run.of(MESSAGES).size, Run.of(MESSAGES)[1:].size, Run.of([]).size) == (8, 5, 0)
