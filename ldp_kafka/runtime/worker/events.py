"""Every line that a worker's log may hold: its name, how loud it is, what it says, and its fields.

The table of `deploy/README.md` is this one. Nothing of it is ever a user's value; what is an exact
function of raw data (how many users, how many late events) is in the log of the edge's roles alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

__all__ = ["COMMON", "TEXTS", "Event"]

COMMON: Mapping[str, str] = {
    "time": "ISO 8601, UTC",
    "level": "`debug`, `info`, `warning` or `error`",
    "topology": "its name",
    "role": "the role; empty in a parent of roles",
    "event": "the line's name",
    "partition": "of the role's log, where the line is about one",
}
"""Fields of every line."""

TEXTS = ("guarantee", "reason", "message")
"""Fields in words: as text they stand at a line's end."""


class Kind(NamedTuple):
    """What lines of one name have in common."""

    name: str
    level: int
    meaning: str
    fields: Mapping[str, str]
    """Beside `COMMON`."""


class Event(Enum):
    """What a worker says."""

    START = Kind(
        "start",
        logging.INFO,
        "A worker begins. It has asked no broker yet.",
        {
            "version": "of ldp-kafka",
            "fingerprint": "of the topology: what feeds the noise",
            "guarantee": "what the topology promises",
        },
    )
    RIGHTS = Kind(
        "rights",
        logging.WARNING,
        "A login may do more than it needs.",
        {"message": "which, and what to take away"},
    )
    BUDGET = Kind(
        "budget",
        logging.WARNING,
        "A budget file counts what is retired for ever.",
        {"message": "why, and what to set"},
    )
    ASSIGNED = Kind(
        "assigned",
        logging.INFO,
        "Its group has given it these partitions, in place of all that it had.",
        {"partitions": "by topic"},
    )
    REVOKED = Kind(
        "revoked",
        logging.DEBUG,
        "Its group takes all its partitions back, to give them out anew.",
        {"partitions": "by topic"},
    )
    READY = Kind(
        "ready",
        logging.INFO,
        "The tables of its partitions are there: messages flow.",
        {"seconds": "since they were assigned", "records": "of state that the tables hold"},
    )
    RECOVERED = Kind(
        "recovered",
        logging.INFO,
        "A partition's state is in memory. That is at the first message of an assignment.",
        {
            "topic": "the log",
            "seconds": "to read the tables of the assignment, and this state of them",
            "users": "in the state; null where it holds nothing of users",
            "offset": "of the log, the last one that the state has folded; -1 before the first",
        },
    )
    READ_AGAIN = Kind(
        "read_again",
        logging.WARNING,
        "An offset does not come, though a later one did: it is lost in the client, or slow. Its"
        " partition is read again from it.",
        {"topic": "the log", "offset": "that is missing"},
    )
    FIRST_RELEASE = Kind(
        "first_release",
        logging.INFO,
        "The first release of this process was written.",
        {
            "slot": "of a crowd's release, its number; null for windows",
            "seconds": "since the worker began",
        },
    )
    DEAD_LETTERS = Kind(
        "dead_letters",
        logging.WARNING,
        "Records could not be used and became dead letters; once a minute at most.",
        {"reasons": "how many by reason", "seconds": "in which they came"},
    )
    LATE = Kind(
        "late",
        logging.WARNING,
        "Events came after their slot was closed (edge); once a minute at most.",
        {"events": "how many", "seconds": "in which they came"},
    )
    CLOCK = Kind(
        "clock",
        logging.WARNING,
        "An event that was far ahead of its record's timestamp closed the slots of all others:"
        " these are late by it alone (edge); once a minute at most.",
        {
            "events": "how many are late by it",
            "seconds": "in which they came",
            "message": "what to do",
        },
    )
    SECOND_REPORTS = Kind(
        "second_reports",
        logging.WARNING,
        "Users reported twice in a slot: what is guaranteed does not hold for them (collector);"
        " once a minute at most.",
        {
            "reports": "how many, in a sample; of devices all",
            "seconds": "in which they came",
            "message": "what it may be, and what to do",
        },
    )
    IDLE = Kind(
        "idle",
        logging.WARNING,
        "These partitions get no events. Each holds every release back while others go on.",
        {
            "topic": "the log",
            "partitions": "that are idle",
            "seconds": "without an event, at least",
        },
    )
    BUSY = Kind(
        "busy",
        logging.INFO,
        "None of its partitions of this log is idle any more.",
        {"topic": "the log"},
    )
    WAITS = Kind(
        "waits",
        logging.INFO,
        "No release has come for two slots' time (from the parent of all roles).",
        {"message": "for how long, and what the next one waits for, as `ldp-kafka status` says it"},
    )
    SNAPSHOT = Kind(
        "snapshot",
        logging.DEBUG,
        "A partition's state was written.",
        {
            "topic": "the log",
            "records": "written",
            "bytes": "of them",
            "seconds": "to write them",
        },
    )
    OUTAGE = Kind(
        "outage",
        logging.WARNING,
        "A broker gives no answer. It is asked again.",
        {"reason": "its first word about it"},
    )
    OUTAGE_OVER = Kind(
        "outage_over",
        logging.INFO,
        "The broker answers again.",
        {"seconds": "since the first question that had no answer"},
    )
    RESTART = Kind(
        "restart",
        logging.WARNING,
        "The parent starts a role again (role: which).",
        {
            "code": "its exit code; below 0 the signal that ended it",
            "seconds": "until then",
            "count": "of its restarts so far",
        },
    )
    END = Kind(
        "end",
        logging.INFO,
        "The process ends; `error` where its exit code is not 0.",
        {
            "code": "the exit code",
            "reason": "why it ends",
            "frames": "of what nobody expected: where it was raised; with `-v` of every error",
        },
    )
    LOG = Kind(
        "log",
        logging.WARNING,
        "What Faust, librdkafka and others say, from warnings on.",
        {
            "logger": "whose",
            "message": "its first 500 characters, without bytes and without reprs",
            "error": "the exception's type; its text where it is a Kafka client's or the system's",
            "at": "where it was raised",
            "frames": "with `-v`: the way there",
        },
    )
    REPEATED = Kind(
        "repeated",
        logging.WARNING,
        "So many more lines like one that was written three times in a minute were left out.",
        {"count": "how many", "logger": "whose", "message": "alike, `#` for numbers"},
    )
