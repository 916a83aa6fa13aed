"""A worker's log: one line each on standard error, as JSON or as text.

Our own lines are `events.Event`s; what Faust, librdkafka and Python log goes the same
way, without values (`foreign`) and not too often (`rates`). Nothing is written before `writing`,
and a process that has none says what ends it in plain words (`exits`).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from ldp_kafka.errors import InvariantError
from ldp_kafka.runtime.worker.events import TEXTS, Event
from ldp_kafka.runtime.worker.foreign import frames, message_of, said, ways, without_answers
from ldp_kafka.runtime.worker.rates import RateLimiter, shape

__all__ = [
    "FORMATS",
    "LIBRDKAFKA",
    "Entry",
    "Format",
    "Log",
    "as_json",
    "as_text",
    "catch_up",
    "ended",
    "hush",
    "verbose",
    "writing",
]

Format = Literal["json", "text"]
FORMATS: tuple[Format, ...] = ("json", "text")
EVENTS = "ldp_kafka.events"
"""The logger of our own lines."""
LIBRDKAFKA = logging.getLogger("librdkafka")
"""What clients of librdkafka are given to write to, when they are polled."""
LIBRDKAFKA.addFilter(without_answers)
_PATIENCE = 0.5  # seconds to wait for another thread's line, at the end


class Entry(NamedTuple):
    """A line."""

    time: float
    """Seconds since the epoch."""
    level: int
    topology: str
    role: str
    event: Event
    fields: Mapping[str, Any]


def as_json(entry: Entry) -> str:
    """One JSON object."""
    return json.dumps(
        {
            "time": _time(entry),
            "level": _level(entry),
            "topology": entry.topology,
            "role": entry.role,
            "event": entry.event.value.name,
            **entry.fields,
        },
        ensure_ascii=False,
    )


def as_text(entry: Entry) -> str:
    """Time, level, topology, role and event; then ``name=value``; what is said in words at the end,
    after a colon.
    """
    fields = dict(entry.fields)
    words = [str(fields.pop(name)) for name in TEXTS if fields.get(name)]
    pairs = [f"{name}={_value(value)}" for name, value in fields.items()]
    head = [_time(entry), _level(entry).upper(), entry.topology or "-", entry.role or "-"]
    line = " ".join([*head, entry.event.value.name, *pairs])
    return " | ".join(part.strip() for part in ": ".join([line, *words]).splitlines())


def _time(entry: Entry) -> str:
    moment = datetime.fromtimestamp(entry.time, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _level(entry: Entry) -> str:
    return logging.getLevelName(entry.level).lower()


def _value(value: Any) -> str:
    plain = isinstance(value, str) and value and not set(value) & set(' "=')
    return value if plain else json.dumps(value, ensure_ascii=False)


class Log:
    """What one role of one topology says.

    Parameters
    ----------
    topology, role : their names
    """

    def __init__(self, topology: str, role: str) -> None:
        self._topology, self._role = topology, role
        self._logger = logging.getLogger(EVENTS)

    def say(self, event: Event, *, partition: int | None = None, **more: Any) -> None:
        """Write a line. InvariantError where it has a field that lines of its name have not."""
        if strange := more.keys() - event.value.fields:
            raise InvariantError(f"lines {event.value.name} have no field {', '.join(strange)}")
        loud = event.value.level
        if self._logger.isEnabledFor(loud):
            place = {} if partition is None else {"partition": partition}
            entry = Entry(time.time(), loud, self._topology, self._role, event, {**place, **more})
            self._logger.log(loud, as_text(entry), extra={"entry": entry})


class Writer(logging.Handler):
    """Writes every line of a process.

    Parameters
    ----------
    log_format : one of `FORMATS`
    topology, role : of lines that are no event of ours
    verbose : with the way to every error
    limiter : of lines that are no event of ours
    """

    def __init__(
        self,
        log_format: Format,
        topology: str,
        role: str,
        *,
        verbose: bool = False,
        limiter: RateLimiter | None = None,
    ) -> None:
        super().__init__()
        self._form = as_json if log_format == "json" else as_text
        self._topology, self._role, self.verbose = topology, role, verbose
        self._limiter = RateLimiter() if limiter is None else limiter

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it."""
        try:
            self.catch_up()
            ours = getattr(record, "entry", None)
            if isinstance(ours, Entry):
                self.write(ours)
                return
            message = message_of(record)
            if self._limiter.admit((record.name, shape(message))):
                fields = {"logger": record.name, "message": message, **self._raised(record)}
                self.write(self.entry(Event.LOG, record.levelno, fields))
        except Exception:  # noqa: BLE001 - a line that cannot be written ends nothing
            self.handleError(record)

    def _raised(self, record: logging.LogRecord) -> dict[str, Any]:
        """What a line says of the exception that it is about."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return {}
        way = frames(error.__traceback__)
        return {
            "error": said(error),
            **({"at": way[-1]} if way else {}),
            **({"frames": ways(error)} if self.verbose else {}),
        }

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's
        """Of a line that cannot be written its logger alone: logging's own word for it shows all
        arguments.
        """
        fields = {"logger": record.name, "message": "a line could not be written"}
        self._write_at_once(self.entry(Event.LOG, record.levelno, fields))

    def catch_up(self, *, everything: bool = False) -> None:
        """Say how many lines were left out."""
        for of, count in self._limiter.over(everything=everything):
            logger, alike = of if isinstance(of, tuple) else ("", "all others")
            fields = {"count": count, "logger": logger, "message": alike}
            self.write(self.entry(Event.REPEATED, logging.WARNING, fields))

    def entry(self, event: Event, level: int, fields: Mapping[str, Any]) -> Entry:
        """A line of this process."""
        return Entry(time.time(), level, self._topology, self._role, event, fields)

    def write(self, entry: Entry) -> None:
        """In one piece: several processes write to one place. Where nobody reads the log any more,
        the work goes on.
        """
        with suppress(OSError):
            sys.stderr.write(f"{self._form(entry)}\n")
            sys.stderr.flush()

    def last(self, level: int, fields: Mapping[str, Any], *, at_once: bool) -> None:
        """The line before the process ends; ``at_once``: whatever other threads hold."""
        if not at_once:
            with self.held():
                self.catch_up(everything=True)
                self.write(self.entry(Event.END, level, fields))
            return
        # it is not given back: nobody writes after that line
        if self.lock is None or self.lock.acquire(timeout=_PATIENCE):
            self.catch_up(everything=True)
        self._write_at_once(self.entry(Event.END, level, fields))

    def _write_at_once(self, entry: Entry) -> None:
        """The same, past Python's own buffers and locks."""
        with suppress(OSError):
            os.write(2, f"{self._form(entry)}\n".encode())

    def held(self) -> AbstractContextManager[Any]:
        """No other thread writes meanwhile."""
        return nullcontext() if self.lock is None else self.lock


_writer: Writer | None = None
"""Of this process."""


@contextmanager
def writing(
    log_format: Format, topology: str, role: str, *, verbose: bool = False
) -> Iterator[None]:
    """Have all of this process's lines written meanwhile.

    Parameters
    ----------
    log_format : one of `FORMATS`
    topology, role : their names; the role is empty in the parent of all roles
    verbose : snapshots and revocations too, and the way to every error
    """
    global _writer  # noqa: PLW0603 - a process has one standard error
    before, _writer = _writer, Writer(log_format, topology, role, verbose=verbose)
    root, own = logging.getLogger(), logging.getLogger(EVENTS)
    levels = root.level, own.level
    hook = threading.excepthook
    root.addHandler(_writer)
    root.setLevel(logging.WARNING)
    own.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.captureWarnings(capture=True)
    threading.excepthook = _of_thread
    try:
        yield
    finally:
        with _writer.held():
            _writer.catch_up(everything=True)
        root.removeHandler(_writer)
        root.setLevel(levels[0])
        own.setLevel(levels[1])
        logging.captureWarnings(capture=False)
        threading.excepthook = hook
        _writer = before


def _of_thread(given: threading.ExceptHookArgs) -> None:
    """An exception that ended a thread."""
    info = (given.exc_type, given.exc_value or given.exc_type(), given.exc_traceback)
    name = given.thread.name if given.thread else "a thread"
    logging.getLogger("threading").error("%s has ended", name, exc_info=info)


def hush() -> None:
    """Have nobody say what is no news: that a snapshot takes longer than its timer."""
    logging.getLogger("mode.timers").setLevel(logging.ERROR)


def verbose() -> bool:
    """Whether this process's log has all that there is."""
    return _writer is not None and _writer.verbose


def catch_up() -> None:
    """Say how many lines were left out in minutes that are over."""
    if _writer is not None:
        with _writer.held():
            _writer.catch_up()


def ended(
    reason: str, code: int, error: BaseException | None = None, *, at_once: bool = False
) -> bool:
    """Say why the process ends; False where it has no log.

    Parameters
    ----------
    code : its exit code
    error : whose way is to be said
    at_once : the process ends now, whatever other threads do
    """
    if _writer is None:
        return False
    fields: dict[str, Any] = {"code": code, "reason": reason}
    if error is not None:
        fields["frames"] = ways(error)
    _writer.last(logging.ERROR if code else logging.INFO, fields, at_once=at_once)
    return True
