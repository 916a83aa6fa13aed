"""What others log: in one line, and without a value."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException
from faust.types import TP

from ldp_kafka.errors import BrokerError
from ldp_kafka.records import Event
from ldp_kafka.runtime.worker.foreign import message_of, said, ways

SECRET = "meter-4711 used 37.5 kWh"


class Pending(NamedTuple):
    """As Faust's of a message that is to be sent."""

    channel: str
    key: bytes | None
    value: bytes


def logged(template, *args, name="faust"):
    return message_of(logging.LogRecord(name, 40, __file__, 1, template, args, None))


@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("Crashed reason=%r", (ValueError(SECRET),)),
        ("Crashed: %s", (ValueError(SECRET),)),
        ("dropped %r", (Event(SECRET, 0, 37.5),)),
        ("key %r", (SECRET.encode(),)),
        ("sent %r", (Pending("topic", b"4711", SECRET.encode()),)),
        ("batch %s", ([{"value": SECRET.encode()}, {b"4711"}],)),
        (f"on topic t error x message {Pending('t', b'4711', SECRET.encode())}", ()),
        (f"message {Pending('t', None, SECRET.encode() + bytes([39, 34, 92]))}", ()),
        (f"message {SECRET.encode()!r}"[:-4], ()),
        (ValueError(SECRET), ()),
        ("%d events of %s", (Event(SECRET, 0, 37.5), SECRET.encode())),
    ],
)
def test_no_value_is_shown(template, args):
    """Of objects and bytes their kind, of an exception its type; also where the message was made
    before anybody could look at it, or is cut.
    """
    text = logged(template, *args)
    assert text
    assert "4711" not in text and "37.5" not in text, text


def test_what_helps_is_shown():
    """Numbers, names, partitions, and what a client or the system says."""
    assert logged("%s of %d: %r", "group", 3, TP("raw", 1)) == (
        "group of 3: TP(topic=raw, partition=1)"
    )
    assert logged("has %r", {TP("raw", 1)}) == "has [TP(topic=raw, partition=1)]"
    assert logged("%(a)s and %(b)r", {"a": 1, "b": b"22"}) == "1 and <2 bytes>"
    assert said(BrokerError("no answer")) == "BrokerError: no answer"
    assert "Timed out" in said(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert said(TimeoutError()) == "TimeoutError"


def test_a_template_that_does_not_fit_is_shown_as_it_is():
    assert logged("%d of %d", 1) == "%d of %d"


def test_it_is_one_line_of_some_length():
    """Faust draws tables; a collection may be long."""
    assert logged("Highwater:\n+---+\n| 1 |\n") == "Highwater: +---+ | 1 |"
    assert len(logged("x" * 10_000)) < 600
    assert logged("%s", list(range(1000))).endswith("19, and 980 more]")
    deep = [[[[[[SECRET.encode()]]]]]]
    assert logged("%s", deep) == "[[[[<list of 1>]]]]"


def test_a_task_whose_exception_nobody_asked_for():
    """asyncio puts the repr of the exception into its message."""
    heard = []

    class Handler(logging.Handler):
        def emit(self, record):
            heard.append(record)

    async def fails():
        raise ValueError(SECRET)

    async def forget():
        task = asyncio.ensure_future(fails())
        await asyncio.sleep(0)
        del task

    handler, logger = Handler(), logging.getLogger("asyncio")
    logger.addHandler(handler)
    try:
        asyncio.run(forget())
    finally:
        logger.removeHandler(handler)
    (record,) = heard
    assert SECRET in record.getMessage()
    assert message_of(record) == "Task exception was never retrieved"


def test_the_way_to_an_error_names_what_it_came_of():
    """Places in code, and types; no text."""
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(SECRET) from error
    except ValueError as error:
        found = ways(error)
    assert [each for each in found if each.startswith("of ")] == ["of KeyError:"]
    assert len(found) == 3
    assert all(
        each.endswith("in test_the_way_to_an_error_names_what_it_came_of")
        for each in (found[0], found[2])
    )
    assert "4711" not in str(found)
