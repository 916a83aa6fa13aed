"""How a worker's process ends: with a reason, and never with a value."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import threading
from collections import Counter
from typing import Any, NoReturn

from ldp_kafka.errors import ConfigurationError, InvariantError, LdpKafkaError
from ldp_kafka.plugins import raised_in_plugin
from ldp_kafka.runtime.worker import logs
from ldp_kafka.runtime.worker.foreign import frames

__all__ = ["HALT", "RETRY", "WRONG", "end", "fail", "gone", "leave", "standing"]

# exit codes; 2: it may not run as it is configured; 75 is EX_TEMPFAIL: start me again
HALT, WRONG, RETRY = (1, 2, 75)


def end(error: BaseException | str, code: int | None = None) -> NoReturn:
    """End the process now, with the reason and never a value: of an unknown exception its type and
    where it was raised, not its text.
    """
    number = HALT
    try:
        text, number, raised = _said(error, code)
        if not logs.ended(text, number, raised, at_once=True):
            way = [] if raised is None else frames(raised.__traceback__)
            os.write(2, "\n  ".join([f"ldp-kafka: {text}", *way, ""]).rstrip(" ").encode())
    finally:
        os._exit(number)  # whatever becomes of the log


def fail(error: Exception, code: int | None = None) -> int:
    """Say why the process ends, as `end` does, where it ends by itself; its exit code."""
    text, code, raised = _said(error, code)
    logs.ended(text, code, raised)
    return code


def _said(error: BaseException | str, code: int | None) -> tuple[str, int, BaseException | None]:
    """Of an end: the reason, the exit code, and whose way is to be said: a bug's; with ``-v`` that
    of every error.
    """
    if isinstance(error, LdpKafkaError) and not raised_in_plugin(error):
        bug = isinstance(error, InvariantError) or logs.verbose()
        return str(error), code or _code(error), error if bug else None
    if isinstance(error, BaseException):
        return f"unexpected {type(error).__name__}", code or HALT, error
    return error, code or HALT, None


def _code(error: LdpKafkaError) -> int:
    if error.action == "retry":
        return RETRY
    return WRONG if isinstance(error, ConfigurationError) else HALT


def leave(text: str) -> NoReturn:
    """End the process now, in order, and say what was left out."""
    try:
        if not logs.ended(text, 0, at_once=True):
            os.write(2, f"ldp-kafka: {text}\n".encode())
    finally:
        os._exit(0)


def gone(code: int, seconds: float = 5.0) -> None:
    """End the process within so many seconds, whatever other threads still ask of a broker: its
    last line is written.

    It ends before the interpreter is taken down. In that a client of librdkafka waits for its own
    threads, and if they wait for a broker, no thread of Python's is left to end the process.
    """
    last = threading.Timer(seconds, os._exit, (code,))
    last.daemon = True
    last.start()
    atexit.register(_leave_interpreter, code)


def _leave_interpreter(code: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def standing() -> str:
    """Where every coroutine of every event loop of this process waits, a line each: for the log of
    one that hangs. Places in code, never a value.
    """
    tasks = [each for each in gc.get_objects() if issubclass(type(each), asyncio.Task)]
    places = Counter(_place(task.get_coro()) for task in tasks if not task.done())
    return "".join(f"\n  {count} x {place}" for place, count in sorted(places.items()))


def _place(waits: Any) -> str:
    """Coroutines that wait for each other, and where the innermost stands."""
    names, place = [], type(waits).__name__
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        code = frame.f_code
        names.append(code.co_qualname)
        place = f"{code.co_filename}:{frame.f_lineno} in {' > '.join(names)}"
        waits = waits.cr_await
    return place
