"""How a worker's process ends: with a reason, and never with a value."""

from __future__ import annotations

import os
import traceback
from typing import NoReturn

from ldp_kafka.errors import LdpKafkaError

__all__ = ["HALT", "RETRY", "WRONG", "end"]

# exit codes; 2: it may not run as it is configured; 75 is EX_TEMPFAIL: start me again
HALT, WRONG, RETRY = (1, 2, 75)


def end(error: BaseException | str, code: int | None = None) -> NoReturn:
    """End the process now, with the reason and never a value: of an unknown exception its type and
    where it was raised, not its text.
    """
    if isinstance(error, LdpKafkaError):
        text, code = str(error), code or (RETRY if error.action == "retry" else HALT)
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
