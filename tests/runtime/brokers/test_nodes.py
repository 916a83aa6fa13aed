"""A node counts as running for as long as it has its ports."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldp_kafka.runtime.brokers.nodes import process_of
from ldp_kafka.runtime.brokers.ports import taken_ports

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

# A server whose first thread has ended while another has not, as in the middle of a kill.
_HALF_ENDED = """
import ctypes, socket, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def _state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]


def test_a_node_runs_until_its_last_thread_has_ended(tmp_path):
    """Killed, it is no zombie with ports in the eyes of who starts it again."""
    properties = str(tmp_path / "server.properties")
    with subprocess.Popen(
        [sys.executable, "-c", _HALF_ENDED, properties], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            (tmp_path / "server.pid").write_text(f"{server.pid}\n")
            port = int(server.stdout.readline())
            while _state(server.pid) != "Z":
                time.sleep(0.01)
            assert Path(f"/proc/{server.pid}/cmdline").read_bytes() == b""
            assert port in taken_ports(port, 1)
            assert process_of(tmp_path) == server.pid
        finally:
            server.kill()
        while process_of(tmp_path):
            time.sleep(0.01)
        assert _state(server.pid) == "Z"  # not waited for yet, and ended all the same
        assert port not in taken_ports(port, 1)
    assert process_of(tmp_path) is None


def test_a_node_is_known_by_its_properties(tmp_path):
    """A process number that was given out again is not the node."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()", "other"], stdin=subprocess.PIPE
    ) as other:
        (tmp_path / "server.pid").write_text(f"{other.pid}\n")
        assert process_of(tmp_path) is None
        other.communicate(b"\n")
    (tmp_path / "server.pid").write_text("no number")
    assert process_of(tmp_path) is None
