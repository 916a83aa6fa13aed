"""One tree of errors; each class says what to do.

::

    LdpKafkaError
    ├── ConfigurationError    halt   (ValueError) what the user wrote cannot be run
    │   └── TopologyError     halt   names file, line and key of all that is wrong
    ├── StateError            halt   the state found does not belong to this topology, or is behind
    │                                what was acknowledged
    ├── InvariantError        halt   something that cannot be, is: the process ends before anything
    │                                is acknowledged
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
from typing import ClassVar, Literal

__all__ = [
    "BadRecord",
    "BrokerError",
    "ConfigurationError",
    "GapError",
    "InvariantError",
    "LdpKafkaError",
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
    """Something that cannot be, is."""


class BrokerError(LdpKafkaError):
    """A broker did not answer, or refused."""

    action = "retry"


class GapError(LdpKafkaError):
    """An offset is missing from what was delivered."""

    action = "retry"


class BadRecord(LdpKafkaError, ValueError):  # noqa: N818 - it is the record that is bad
    """One record is no good.

    Parameters
    ----------
    reason : a code from a fixed list (``runtime.wire.events.REASONS``): what goes to the dead
        letter and the metric
    """

    action = "drop"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
