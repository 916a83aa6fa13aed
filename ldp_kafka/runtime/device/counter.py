"""How many commits a device's database must have at least: what an older copy of it lacks.

The number lies beside the key, away from the database, and is written after each commit. Two places
take turns, each with a checksum, so that a power cut in the middle of a write leaves the number
before it.

The open counter is what one process at a time has of a device, whatever its database is called: the
file is locked (``flock``). The lock is of the open file: it outlives other opens and closes of the
file in its process, which SQLite's own locks do not, and ends with the process. A system that has
no ``flock`` has no devices.
"""

from __future__ import annotations

import fcntl
import os
from hashlib import sha256
from pathlib import Path
from typing import Self

from ldp_kafka.errors import ConfigurationError, StateError
from ldp_kafka.runtime.device.folder import sync_folder

__all__ = ["Counter"]

_PLACE = 16  # bytes: the number, and eight bytes of its hash


class Counter:
    """The open file, which nobody else can open as long as this one is open.

    Attributes
    ----------
    least : commits that the database must have

    Raises
    ------
    StateError : it is missing, damaged, in use, or on a file system that cannot lock it
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path.absolute(), -1
        try:
            self._file = os.open(path, os.O_RDWR)
        except OSError as error:
            raise StateError(
                f"{path}: {error.strerror}: the counter of this device's commits is missing, so an"
                " older copy of its database cannot be told from the last one: bring it back"
            ) from None
        try:
            self._lock()
            self.least = self._read()
        except BaseException:
            self.close()
            raise

    @classmethod
    def make(cls, path: Path) -> Self:
        """A new one, of no commits; ConfigurationError where it exists or cannot be written."""
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(file, _written(0) * 2)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from None
        sync_folder(path)
        return cls(path)

    def require(self) -> None:
        """StateError where it no longer says what was written here last, or is another file."""
        try:
            same = os.path.samestat(os.fstat(self._file), self._path.stat())
            if same and self._read() == self.least:
                return
        except OSError:
            pass  # it is gone, which the text says
        raise StateError(
            f"{self._path} was changed or replaced by something else while this client had it: end"
            " whatever else reports for this device, and open the client anew"
        )

    def count(self, commits: int) -> None:
        """On the disk when it returns; StateError where it could not be written, or as of
        `require`.
        """
        self.require()
        try:
            os.pwrite(self._file, _written(commits), commits % 2 * _PLACE)
            os.fsync(self._file)
        except OSError as error:
            raise StateError(
                f"{self._path} could not be written ({error.strerror}): open the client anew"
            ) from None
        self.least = commits

    def close(self) -> None:
        """Close the file; a second close changes nothing, whose number may be another's by then.
        The lock ends with it, except in a forked child: there it stays the parent's.
        """
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"{self._path} is in use: one process at a time may report for a device, and only"
                " with one database"
            ) from None
        except OSError as error:
            raise StateError(
                f"{self._path} cannot be locked ({error.strerror}): put the counter on a file"
                " system that has flock"
            ) from None

    def _read(self) -> int:
        content = os.pread(self._file, 2 * _PLACE, 0)
        halves = (content[:_PLACE], content[_PLACE:])
        found = [int.from_bytes(half[:8], "big") for half in halves if half == _again(half)]
        if len(content) != 2 * _PLACE or not found:
            raise StateError(
                f"{self._path} is damaged: how often this device has reported at least is not"
                " known: bring it back"
            )
        return max(found)


def _written(commits: int) -> bytes:
    number = commits.to_bytes(8, "big")
    return number + sha256(number).digest()[:8]


def _again(half: bytes) -> bytes:
    """What the number in it would be written as."""
    return _written(int.from_bytes(half[:8], "big"))
