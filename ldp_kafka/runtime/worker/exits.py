"""How a worker's process ends: with a reason, and never with a value."""

from __future__ import annotations

import asyncio
import gc
import os
import traceback
from collections import Counter
from typing import Any, NoReturn

from ldp_kafka.errors import ConfigurationError, LdpKafkaError

__all__ = ["HALT", "RETRY", "WRONG", "end", "leave", "standing"]

# exit codes; 2: it may not run as it is configured; 75 is EX_TEMPFAIL: start me again
HALT, WRONG, RETRY = (1, 2, 75)


def end(error: BaseException | str, code: int | None = None) -> NoReturn:
    """End the process now, with the reason and never a value: of an unknown exception its type and
    where it was raised, not its text.
    """
    if isinstance(error, LdpKafkaError):
        text, code = str(error), code or _code(error)
    elif isinstance(error, BaseException):
        frames = "".join(
            f"\n  {frame.filename}:{frame.lineno} in {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        )
        text = f"unexpected {type(error).__name__}{frames}"
    else:
        text = error
    os.write(2, f"ldp-kafka: {text}\n".encode())
    os._exit(code or HALT)


def _code(error: LdpKafkaError) -> int:
    if error.action == "retry":
        return RETRY
    return WRONG if isinstance(error, ConfigurationError) else HALT


def leave(text: str) -> NoReturn:
    """End the process now, in order, and say what was left out."""
    os.write(2, f"ldp-kafka: {text}\n".encode())
    os._exit(0)


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
