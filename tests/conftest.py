"""What holds for all tests: the long ones run only where they are asked for."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from hypothesis import settings

from tests.depth import LONG

# how long an example takes says how busy the machine is
settings.register_profile("ldp_kafka", deadline=None)
settings.load_profile("ldp_kafka")

# a shell has its background jobs ignore Ctrl-C, and so would all that tests start and end with it
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for processes of their own."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``long`` unless LDP_KAFKA_LONG=1."""
    if LONG:
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(
                pytest.mark.skip(reason="takes minutes or much memory: set LDP_KAFKA_LONG=1")
            )
