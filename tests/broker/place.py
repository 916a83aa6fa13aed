"""Where a broker's or a worker's files lie while the harness fills the disk: a small tmpfs where
this process may mount one, else a directory whose users get a limit on file sizes.
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterable
from pathlib import Path

RESERVE = 4096  # bytes that a file may have under the limit


class Place:
    """A directory with so many MiB in all, if it can be had.

    Filling it is an ordinary file that takes all that is left: whoever writes next is told ENOSPC.
    Without the right to mount, processes are limited to files of 4 KiB in its place (RLIMIT_FSIZE,
    EFBIG), which hits what they write anywhere.
    """

    def __init__(self, path: Path, mib: int) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(path)],
            capture_output=True,
            check=False,
        )
        self.mounted = mounted.returncode == 0
        self._limited: dict[int, tuple[int, int]] = {}

    @property
    def how(self) -> str:
        """What fills it."""
        return "ENOSPC on a small tmpfs" if self.mounted else "EFBIG by RLIMIT_FSIZE"

    def fill(self, pids: Iterable[int]) -> None:
        """No byte more."""
        if not self.mounted:
            for pid in pids:
                self._limited[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (RESERVE, self._limited[pid][1]))
            return
        with (self.path / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        ballast.write(b"\0" * size)
                except OSError:
                    continue

    def free(self) -> None:
        """As it was."""
        (self.path / "ballast").unlink(missing_ok=True)
        for pid, limit in self._limited.items():
            try:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)
            except ProcessLookupError:
                continue
        self._limited.clear()

    def close(self) -> None:
        """Unmount."""
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.path)], check=False)
