"""``python -m tests.bench``: every figure in one table, ratios measured side by side; needs Java 17
and Maven, or LDP_KAFKA_BOOTSTRAP, for all but ``--only core``, ``libraries``, ``seal``,
``windows`` and ``curators``.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.bench import core, curators, libraries, profiling, seal, windows
from tests.bench.measure import Figure, say, table

ALONE = "core", "libraries", "seal", "windows", "curators"  # what needs no broker
BROKER = "worker", "protocols", "cost", "state", "latency", "curator-latency"
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--only",
        choices=[*ALONE, *BROKER, "soak"],
        help="one part; the soak is run only where it is asked for",
    )
    parser.add_argument(
        "--minutes", type=float, default=120.0, help="of the soak (120; with --quick always 1)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="little input and few rounds: whether it works, not how fast it is",
    )
    parser.add_argument(
        "--profile", action="store_true", help="where a fold's time goes, and nothing else"
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the figures there, every round of them",
    )
    given = parser.parse_args(words)
    if AUTOGROUP.exists() and AUTOGROUP.read_text().strip() == "1":
        say(f"{AUTOGROUP} is 1: work in another session can hold a broker up for seconds")
    figures = (
        profiling.measure(quick=given.quick)
        if given.profile
        else measure(given.only, quick=given.quick, minutes=given.minutes)
    )
    print(table(figures))
    if given.json:
        given.json.write_text(json.dumps([figure.as_json() for figure in figures], indent=1) + "\n")
    return 0


def measure(only: str | None, *, quick: bool, minutes: float) -> list[Figure]:
    figures = core.measure(quick=quick) if only in (None, "core") else []
    if only in (None, "libraries"):
        figures += libraries.measure(quick=quick)
    if only in (None, "seal"):
        figures += seal.measure(quick=quick)
    if only in (None, "windows"):
        figures += windows.measure(quick=quick)
    if only in (None, "curators"):
        figures += curators.measure(quick=quick)
    if only in ALONE:
        return figures
    from tests.bench import broker, cost, curator_latency, latency, protocols, soak, state, worker

    with ExitStack() as stack:
        boot = stack.enter_context(broker.broker())
        if only in (None, "worker"):
            figures += worker.measure(boot, quick=quick)
        if only in (None, "protocols"):
            figures += protocols.measure(boot, quick=quick)
        if only in (None, "cost"):
            figures += cost.measure(boot, quick=quick)
        if only in (None, "state"):
            figures += state.memory(quick=quick) + state.recovery(boot, quick=quick)
        if only in (None, "latency"):
            figures += latency.measure(boot, quick=quick)
        if only in (None, "curator-latency"):
            figures += curator_latency.measure(boot, quick=quick)
        if only == "soak":
            figures += soak.measure(boot, 1.0 if quick else minutes)
    return figures


if __name__ == "__main__":
    sys.exit(main())
