"""No command leaves its memory on a disk: workers and tools hold raw values and the key."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["forbid_core_dumps"]

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """No core file of this process, nor of children that do not ask for one; on Linux no other
    process of the same user may read its memory either.

    The limit alone does not do on Linux: where ``core_pattern`` is a pipe, what is behind the pipe
    gets the whole memory and is only told of the limit.
    """
    try:
        import resource
    except ImportError:  # no POSIX: no core files
        return
    # The hard limit stays: whoever calls a command from Python may start other programs afterwards
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
