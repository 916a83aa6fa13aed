"""What others say, as it may stand in our log: one line, without a user's value.

Faust, its client and Python's own asyncio put whatever they have at hand into their messages: reprs
of messages with key and value, exceptions with texts that nobody has looked at. Here each argument
is shown by what it is: numbers and strings as they are, bytes and objects by their kind, exceptions
by their type, with their text only where it comes from a Kafka client or the system.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from ldp_kafka.errors import LdpKafkaError
from ldp_kafka.plugins import raised_in_plugin

__all__ = ["chain", "frames", "message_of", "said", "shown", "ways", "without_answers"]

LENGTH = 500  # characters of a message
ITEMS = 20  # of a collection
DEEP = 4  # collections in collections
_ANSWER = re.compile(
    r"(?s)(Failed to (?:retrieve OIDC token from \"[^\"]*\"|acquire SASL OAUTHBEARER token)): .*?"
    r"( \([0-9]+\))?\Z"
)
"""In a line of librdkafka's, a token endpoint's own words, and its status."""
FIRST_LINE = frozenset({"asyncio", "py.warnings"})
"""Loggers whose further lines are reprs and source text."""
_BYTES = re.compile(r"""\bb'(?:[^'\\]|\\.)*(?:'|$)|\bb"(?:[^"\\]|\\.)*(?:"|$)""", re.DOTALL)
_CLIENTS = frozenset({"confluent_kafka", "cimpl"})
"""Packages whose exceptions' texts are about brokers."""


def said(error: BaseException) -> str:
    """An exception in a line: its type, and its text where that holds no value.

    >>> said(ValueError("could not convert string to float: '37.5'"))
    'ValueError'
    >>> said(ConnectionRefusedError(111, "Connection refused"))
    'ConnectionRefusedError: [Errno 111] Connection refused'
    """
    kind = type(error)
    known = isinstance(error, (LdpKafkaError, OSError)) and not raised_in_plugin(error)
    if not known and kind.__module__.partition(".")[0] not in _CLIENTS:
        return kind.__name__
    text = one_line(str(error))
    return f"{kind.__name__}: {text}" if text else kind.__name__


def one_line(text: str) -> str:
    """Without bytes and line breaks, and not too long."""
    short = " ".join(_BYTES.sub("b'...'", text).split())
    return short if len(short) <= LENGTH else f"{short[:LENGTH]}..."


class _Shown(str):
    """A string that is its own repr: templates have ``%s`` and ``%r``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def shown(value: Any, deep: int = DEEP) -> Any:
    """An argument of a message as it may be shown."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _Shown(_text(value, deep))


def _text(value: Any, deep: int) -> str:
    kind = type(value).__name__
    if isinstance(value, BaseException):
        return said(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if isinstance(value, (tuple, list, set, frozenset, Mapping)):
        if not deep:
            return f"<{kind} of {len(value)}>"
        if isinstance(value, Mapping):
            parts = [f"{shown(k, deep - 1)}: {shown(v, deep - 1)}" for k, v in value.items()]
        elif fields := getattr(value, "_fields", ()):
            pairs = zip(fields, value, strict=True)
            return f"{kind}({', '.join(f'{n}={shown(v, deep - 1)}' for n, v in pairs)})"
        else:
            parts = [str(shown(each, deep - 1)) for each in value]
        if len(parts) > ITEMS:
            parts = [*parts[:ITEMS], f"and {len(parts) - ITEMS} more"]
        return f"[{', '.join(parts)}]"
    return f"<{kind}>"


def message_of(record: logging.LogRecord) -> str:
    """The message of a line that somebody else logs."""
    template = shown(record.msg)
    text = str(template)
    if record.args and isinstance(template, str):
        given = record.args
        args: Any = (
            {name: shown(each) for name, each in given.items()}
            if isinstance(given, Mapping)
            else tuple(map(shown, given))
        )
        try:
            text = template % args
        except (TypeError, ValueError, KeyError):  # %d of an object, say: the template says enough
            text = template
    if record.name in FIRST_LINE:
        text = text.partition("\n")[0]
    return one_line(text)


def without_answers(record: logging.LogRecord) -> bool:
    """A filter of librdkafka's lines, which repeat whatever a token endpoint answers: nobody knows
    what that holds.
    """
    text = record.getMessage()
    said = _ANSWER.sub(r"\1\2", text)
    if said != text:
        record.msg, record.args = said, ()
    return True


def frames(where: TracebackType | None) -> list[str]:
    """The way to where an exception was raised: places in code, never a value."""
    return [
        f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(where)
    ]


def chain(crash: BaseException | None) -> Iterator[BaseException]:
    """An exception, what it came of, and so on. One that is raised again while what came of it is
    handled is its own cause: Faust has such.
    """
    seen: set[int] = set()
    while crash is not None and id(crash) not in seen:
        yield crash
        seen.add(id(crash))
        crash = crash.__cause__ or crash.__context__


def ways(error: BaseException) -> list[str]:
    """The way to an exception and to what it came of, the last first."""
    found: list[str] = []
    for each in chain(error):
        way = frames(each.__traceback__)
        found += [f"of {type(each).__name__}:", *way] if found else way
    return found
