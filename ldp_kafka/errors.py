"""One tree of errors; each class says what to do.

::

    LdpKafkaError
    ├── ConfigurationError    halt   (ValueError) what the user wrote cannot be run
    │   └── TopologyError     halt   names file, line and key of all that is wrong
    ├── StateError            halt   the state found does not belong to this topology, or is behind
    │                                what was acknowledged
    ├── InvariantError        halt   a bug: an internal invariant is violated; the process ends
    │                                before anything is acknowledged
    ├── BrokerError           retry  a broker did not answer, or refused
    ├── GapError              retry  an offset is missing from what was delivered; a new assignment
    │                                brings it
    └── BadRecord             drop   (ValueError) one record is no good: it becomes a dead letter
                                     with a reason, and the worker goes on

An error's text says what must hold and which parameter or field got it wrong. It never holds a
value of the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Literal, Self

__all__ = [
    "BadRecord",
    "BrokerError",
    "ConfigurationError",
    "Dropped",
    "GapError",
    "InvariantError",
    "LdpKafkaError",
    "Reason",
    "StateError",
    "TopologyError",
]

Action = Literal["halt", "retry", "drop"]


class LdpKafkaError(Exception):
    """Whatever ldp_kafka raises on purpose."""

    action: ClassVar[Action] = "halt"


class ConfigurationError(LdpKafkaError, ValueError):
    """What the user wrote cannot be run."""


class TopologyError(ConfigurationError):
    """A topology file is wrong: ``file:line: key: what must hold``, a line for each thing that is
    wrong with it.

    ``problems`` holds one error for each line of the text; ``file``, ``line``, ``key`` and
    ``reason`` are those of the first.
    """

    problems: tuple[TopologyError, ...]

    def __init__(
        self, message: str, *, file: str = "<topology>", line: int | None = None, key: str = ""
    ) -> None:
        self.file, self.line, self.key, self.reason = file, line, key, message
        self.problems = (self,)
        where = f"{file}:{line}" if line is not None else file
        super().__init__(f"{where}: {key}: {message}" if key else f"{where}: {message}")

    @classmethod
    def together(cls, problems: Iterable[TopologyError]) -> TopologyError:
        """One error that says all of them, in their order; at least one."""
        every = tuple(single for problem in problems for single in problem.problems)
        if len(every) == 1:
            return every[0]
        first = every[0]
        error = cls(first.reason, file=first.file, line=first.line, key=first.key)
        error.args = ("\n".join(str(problem) for problem in every),)
        error.problems = every
        return error


class StateError(LdpKafkaError):
    """The state found does not belong to this topology, or is behind what was acknowledged."""


class InvariantError(LdpKafkaError):
    """A bug: an internal invariant is violated."""


class BrokerError(LdpKafkaError):
    """A broker did not answer, or refused."""

    action = "retry"


class GapError(LdpKafkaError):
    """An offset is missing from what was delivered."""

    action = "retry"


class _Code(StrEnum):
    """A code and its meaning."""

    meaning: str

    def __new__(cls, code: str, meaning: str = "") -> Self:
        made = str.__new__(cls, code)
        made._value_, made.meaning = code, meaning
        return made


class Reason(_Code):
    """Why a record is no good: the code in a dead letter and in the metric's label, its meaning,
    and what to do about it. ``topologies/README.md`` lists all of them.

    Examples
    --------
    >>> Reason("user") is Reason.USER, f"{Reason.NOT_FINITE}: {Reason.NOT_FINITE.meaning}"
    (True, 'not_finite: the value is NaN, infinite, or beyond 1.8e308')
    """

    cure: str

    def __new__(cls, code: str, meaning: str = "", cure: str = "") -> Self:
        made = str.__new__(cls, code)
        made._value_, made.meaning, made.cure = code, meaning, cure
        return made

    @property
    def sentence(self) -> str:
        """Code, meaning and cure, for people."""
        return f"{self.value}: {self.meaning}; {self.cure}"

    EMPTY = (
        "empty",
        "the message has no value",
        "a topic of events needs one in each message: deletions (tombstones) belong elsewhere",
    )
    TOO_LARGE = (
        "too_large",
        (
            "the message is larger than 2 MiB, or has more than 1,048,576 rows (131,072 in an array"
            " of JSON), or says the same long text too often, or has too many lists of another"
            " length"
        ),
        "send several smaller messages",
    )
    NOT_JSON = (
        "not_json",
        "the message is neither UTF-8 JSON nor an Arrow IPC stream",
        (
            "write one JSON object a message, as plain UTF-8; Avro, Protobuf, CSV, compressed text,"
            " Arrow's file format and a schema registry's framing are not read"
        ),
    )
    NOT_ARROW = (
        "not_arrow",
        "the message is not a valid Arrow IPC stream, or its body is compressed",
        "write it in Arrow's streaming format (not its file format), uncompressed",
    )
    NOT_A_RECORD = (
        "not_a_record",
        "the message holds no record, or one of a type that does not belong here",
        (
            "write one JSON object a message, not a list (but with input.events) or a single"
            " value, into the topic for it"
        ),
    )
    EVENTS = (
        "events",
        "the message has no array at input.events",
        "let input.events name the array that the events are in ($: the message is one)",
    )
    NOT_A_REPORT = (
        "not_a_report",
        "the message is no report",
        "find out who else writes to the topic of reports, and take that right away",
    )
    WRONG_FIELDS = (
        "wrong_fields",
        "a field is missing or of the wrong type",
        "write such messages with ldp_kafka.encode, and read no other topic's with decode",
    )
    VERSION = (
        "version",
        "the message is of another version",
        "let writer and reader have the same version of ldp_kafka",
    )
    USER = (
        "user",
        (
            "the user is missing, empty, longer than 256 bytes, or neither text nor a whole number"
            " below 2**64 (17.0 has a point)"
        ),
        (
            "let input.user name the field that has the id, and send it in every event; write any"
            " other number as text"
        ),
    )
    VALUE = (
        "value",
        "the value is missing or of the wrong type, or a list of another length",
        (
            "let input.value name the field, and send a number (2.5; of text, such as one in"
            " quotes, only with input.coerce: numbers), or a category's name"
        ),
    )
    NOT_FINITE = (
        "not_finite",
        "the value is NaN, infinite, or beyond 1.8e308",
        "leave out what was not measured",
    )
    CATEGORY = (
        "category",
        "the value is none of the topology's categories",
        "send a name as privacy.categories has it, or where that is a number, one from 0 below it",
    )
    TIME = (
        "time",
        (
            "the time is missing, unreadable, before 1970 or after 6428, or, as a number, before"
            " March 1973"
        ),
        (
            "let input.time name the field, and input.time_unit the unit of its numbers, or send"
            " epoch seconds, milliseconds or ISO 8601"
        ),
    )
    AHEAD = (
        "ahead",
        "the time is further ahead of the message's own timestamp than max_ahead",
        "set the sender's clock, or raise input.max_ahead",
    )
    FINGERPRINT = (
        "fingerprint",
        "the report belongs to another topology",
        "give the edge and the collector the same file; a changed topology needs another name",
    )
    RANGE = (
        "range",
        "the report lies outside the mechanism's outputs",
        "find out who else writes to the topic of reports, and take that right away",
    )
    PARTITION = (
        "partition",
        "the user, or stream, belongs to another partition (input.partitioning: murmur2)",
        (
            "let producers key by the id, as it is read (in Unicode's NFC; of several fields the"
            " JSON array), with the murmur2 partitioner, over as many partitions"
        ),
    )
    STREAM = (
        "stream",
        "the stream is none of input.streams",
        (
            "correct the name where it is written, or run a topology of another name that has the"
            " stream in input.streams"
        ),
    )
    RESTARTED = (
        "restarted",
        (
            "the report comes from a raw log that was begun anew: its batch has a number that"
            " was counted, and closes what was not"
        ),
        "give the topology another name when its raw topic is deleted and made again",
    )
    CLOSED = (
        "closed",
        "the report is for a slot that its edge had closed",
        "send it earlier, or raise input.lateness",
    )


class Dropped(_Code):
    """Why a request of the coordinator's is not forwarded to the edge's log: the code in the
    metric's label, and its meaning.
    """

    NOT_A_REQUEST = "not_a_request", "the message is no request, or a field of it is wrong"
    PHASE = "phase", "the request is for a phase in which users report unasked, or for none"
    REPEATED = "repeated", "its slot is not after the last one that was forwarded"
    AHEAD = "ahead", "its slot begins further ahead of its message's timestamp than max_ahead"


class BadRecord(LdpKafkaError, ValueError):  # noqa: N818 - it is the record that is bad
    """One record is no good. Its text says why and what to do, and never what the record holds.

    Parameters
    ----------
    reason : what goes to the dead letter and the metric
    """

    action = "drop"

    def __init__(self, reason: Reason) -> None:
        self.reason = Reason(reason)  # unpickled, it is given the code
        super().__init__(self.reason)

    def __str__(self) -> str:
        return self.reason.sentence


def __dir__() -> list[str]:
    """The public names: what completion shows."""
    return sorted(__all__)
