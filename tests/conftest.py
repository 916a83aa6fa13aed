"""What holds for all tests: the long ones run only where they are asked for."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

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
    """Two for each core, and one more: many tests wait for processes of their own."""
    return 2 * (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session", autouse=True)
def _simulated_once() -> Iterator[None]:
    """What a plan simulates follows from its arguments alone, and takes a second: it is kept for
    all tests of this process.
    """
    from ldp_kafka.topology import planner

    with pytest.MonkeyPatch.context() as patched:
        for name in ("choose_delay", "compare"):
            patched.setattr(planner, name, cache(getattr(planner, name)))
        yield


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each process of several imports a share of the files before it collects all: pytest rewrites
    every assertion of a fresh clone, and finds what another process has rewritten and kept.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    start, ignored = session.startpath, session.config.option.ignore or ()
    files = [
        file.relative_to(start)
        for place in session.config.args
        for file in sorted((start / place).rglob("test_*.py"))
        if not any(file.is_relative_to(start / other) for other in ignored)
    ]
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    for file in files[number :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
        with suppress(Exception, pytest.skip.Exception):  # collecting says what is wrong
            import_module(".".join(file.with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that are marked ``long`` or ``papers`` where they are not asked for."""
    if LONG:
        return
    asked = config.option.markexpr
    for item in items:
        for mark, how in TIERS.items():
            if item.get_closest_marker(mark) and mark not in asked:
                item.add_marker(pytest.mark.skip(reason=f"needs {LATER}: {how}"))


LATER = "minutes or much memory"
TIERS = {"long": "set LDP_KAFKA_LONG=1", "papers": "poe papers"}
_skipped: list[tuple[str, str]] = []
"""Of each test and module: its id, and why it was skipped."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note why a test was skipped."""
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped.append((report.nodeid, report.longrepr[2].removeprefix("Skipped: ")))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note why a module was."""
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped.append((report.nodeid, report.longrepr[2].removeprefix("Skipped: ")))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last how many were skipped for want of which thing, and write down which where
    LDP_KAFKA_SKIPPED names a file: `pytest @FILE` runs them, where nothing is missing.
    """
    if hasattr(config, "workerinput") or not _skipped:
        return
    counts = Counter(why.partition(":")[0] for _, why in _skipped)
    said = ", ".join(f"{number} {why}" for why, number in counts.most_common())
    print(f"skipped, and why (-rs has the rest): {said}")
    if file := os.environ.get("LDP_KAFKA_SKIPPED"):
        ids = [name for name, why in _skipped if not why.startswith(f"needs {LATER}")]
        Path(file).write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
