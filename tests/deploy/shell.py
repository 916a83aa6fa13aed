"""A bash that is given one block of a page after another, as somebody would paste them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.deploy.code_blocks import ROOT

__all__ = ["Shell", "environment", "follow"]

DONE = "--- that block is done: "
QUIET = 10  # seconds without a line, after which who follows releases presses Ctrl-C
OURS = ("LDP_KAFKA_BOOTSTRAP", "LDP_KAFKA_EDGE_KEY", "LDP_KAFKA_EDGE_KEY_FILE")


def environment(folder: Path) -> dict[str, str]:
    """In which ``ldp-kafka`` is what is tested, and no other broker of this machine is seen."""
    program = folder / "bin" / "ldp-kafka"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
case " $* " in
*" --follow "*) exec {sys.executable} -m tests.deploy.shell {QUIET} "$@" ;;
esac
exec {sys.executable} -m ldp_kafka "$@"
"""
    )
    program.chmod(0o700)
    return {
        **{name: value for name, value in os.environ.items() if name not in OURS},
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_RUNTIME_DIR": str(folder),
    }


class Shell:
    """The bash, until it is left: then it ends what it has started."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder, self.count = folder, 0
        self.process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self._say("set -eo pipefail; trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.process.communicate("exit\n" if self.process.poll() is None else None, timeout=60)
        except subprocess.TimeoutExpired:  # it waits for what has no end
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def run(self, text: str) -> str:
        """What a block prints; AssertionError where one of its commands fails."""
        self.count += 1
        script = self.folder / "bin" / f"block-{self.count}"
        script.write_text(text)
        self._say(f"source {script} </dev/null; echo '{DONE}'$?")
        said = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if DONE in line:
                return said
            said += line
        raise AssertionError(f"it ended with {self.process.wait()}:\n{text}\n{said[-4000:]}")


def follow(quiet: float, arguments: list[str]) -> int:
    """Run ``ldp-kafka`` and press Ctrl-C once some releases have come and no more come."""
    # the same bytes as for a file: what somebody pipes
    with subprocess.Popen(
        [sys.executable, "-m", "ldp_kafka", *arguments], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        lines = 0
        while lines < 2 or select.select([process.stdout], [], [], quiet)[0]:
            line = os.read(process.stdout.fileno(), 65536)
            if not line:
                return process.wait() or 1  # it has no end
            lines += line.count(b"\n")
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        process.send_signal(signal.SIGINT)
        return {130: 0}.get(process.wait(), 1)


if __name__ == "__main__":
    sys.exit(follow(float(sys.argv[1]), sys.argv[2:]))
