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
    """Why a record is no good: the code in a dead letter and in the metric's label, and its
    meaning.

    Examples
    --------
    >>> Reason("user") is Reason.USER, f"{Reason.NOT_FINITE}: {Reason.NOT_FINITE.meaning}"
    (True, 'not_finite: the value is NaN or infinite')
    """

    EMPTY = "empty", "the message has no value"
    TOO_LARGE = (
        "too_large",
        (
            "the message is larger than 2 MiB, or has more than 2**20 rows, or says the same long"
            " text too often, or has too many lists of another length"
        ),
    )
    NOT_JSON = "not_json", "the message is neither UTF-8 JSON nor an Arrow IPC stream"
    NOT_ARROW = (
        "not_arrow",
        "the message is not a valid Arrow IPC stream, or its body is compressed",
    )
    NOT_A_RECORD = "not_a_record", "the JSON is not an object"
    NOT_A_REPORT = "not_a_report", "the message is no report"
    WRONG_FIELDS = "wrong_fields", "a field is missing or of the wrong type"
    VERSION = "version", "the message is of another version"
    USER = (
        "user",
        "the user is missing, empty, longer than 256 bytes, or neither text nor a whole number",
    )
    VALUE = "value", "the value is missing or of the wrong type, or a list of another length"
    NOT_FINITE = "not_finite", "the value is NaN or infinite"
    CATEGORY = "category", "the value is none of the topology's categories"
    TIME = "time", "the time is missing, unreadable, before 1970 or after 6428"
    AHEAD = "ahead", "the time is further ahead of the message's own timestamp than max_ahead"
    FINGERPRINT = "fingerprint", "the report belongs to another topology"
    RANGE = "range", "the report lies outside the mechanism's outputs"
    PARTITION = "partition", "the user belongs to another partition (input.partitioning: murmur2)"
    RESTARTED = (
        "restarted",
        (
            "the report comes from a raw log that was begun anew: it has an offset that was"
            " counted, and closes what was not"
        ),
    )
    CLOSED = "closed", "the report is for a slot that its edge had closed"


class Dropped(_Code):
    """Why a request of the coordinator's is not forwarded to the edge's log: the code in the
    metric's label, and its meaning.
    """

    NOT_A_REQUEST = "not_a_request", "the message is no request, or a field of it is wrong"
    PHASE = "phase", "the request is for a phase in which users report unasked, or for none"
    REPEATED = "repeated", "its slot is not after the last one that was forwarded"
    AHEAD = "ahead", "its slot begins further ahead of its message's timestamp than max_ahead"


class BadRecord(LdpKafkaError, ValueError):  # noqa: N818 - it is the record that is bad
    """One record is no good.

    Parameters
    ----------
    reason : what goes to the dead letter and the metric
    """

    action = "drop"

    def __init__(self, reason: Reason) -> None:
        self.reason = Reason(reason)  # unpickled, it is given the code
        super().__init__(self.reason.value)
