"""Certificates that are renewed while a worker runs.

librdkafka reads the files of certificates and keys when a client is made, and never again. Its
connections go on with what it has read, until one has to be made anew: by then its certificate may
be over, or the broker's be signed by an authority that it does not know. Then a new process reads
the new files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ldp_kafka.errors import BrokerError

__all__ = ["Certificates"]


class Certificates:
    """The files that the clients of a worker have read.

    Parameters
    ----------
    configs : of its clients
    """

    def __init__(self, configs: Iterable[Mapping[str, Any]]) -> None:
        self._files = {
            str(value)
            for config in configs
            for name, value in config.items()
            if name.startswith("ssl.") and name.endswith(".location")
        }
        self._read = self._look()

    def _look(self) -> dict[str, tuple[int, int, int] | None]:
        return {name: _version(name) for name in sorted(self._files)}

    def check(self) -> None:
        """To be asked where a broker is not reached. BrokerError where a file has changed since."""
        now = self._look()
        new = [name for name, read in self._read.items() if now[name] not in (read, None)]
        if new:
            raise BrokerError(
                f"a broker is not reached, and {', '.join(new)} was renewed since this process has"
                " read it: a new process reads it"
            )


def _version(name: str) -> tuple[int, int, int] | None:
    """What tells a file from the one that takes its place; None where there is none."""
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
