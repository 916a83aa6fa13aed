"""The command line with one thing broken on purpose: LDP_KAFKA_TEST_MUTANT names it. What the judge must find.

LDP_KAFKA_TEST_STOP names a file: a worker that finds it while it writes a snapshot takes it away and stops itself there (SIGSTOP), after the flush and before the first shard.
It breaks nothing: a machine may pause between any two instructions.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ldp_kafka.randomness import Keyed, System
from ldp_kafka.runtime import fold


def break_it(name: str) -> None:
    if name == "fresh noise":
        Keyed.at = lambda *_: System()  # keyed ids, but noise that a replay draws again
    elif name == "no tenure":
        begin = fold.Partition.__post_init__

        def shared(self) -> None:
            self.tenure = "0"
            begin(self)
            self._old = []

        fold.Partition.__post_init__ = shared
    elif name != "none":
        raise SystemExit(f"no mutant {name}")


def stop_at(place: Path) -> None:
    """Stop in the middle of a snapshot."""
    persist = fold.persist

    async def stopping(snapshot, *, flush, put, acknowledge) -> None:
        async def flushed() -> None:
            await flush()
            if snapshot.shards and place.exists():  # noqa: ASYNC240
                place.unlink()  # noqa: ASYNC240
                os.kill(os.getpid(), signal.SIGSTOP)

        await persist(snapshot, flush=flushed, put=put, acknowledge=acknowledge)

    fold.persist = stopping  # before the worker's module takes its name


if __name__ == "__main__":
    break_it(os.environ["LDP_KAFKA_TEST_MUTANT"])
    if os.environ.get("LDP_KAFKA_TEST_STOP") and "perturb" in sys.argv:  # the collector writes snapshots too
        stop_at(Path(os.environ["LDP_KAFKA_TEST_STOP"]))
    from ldp_kafka.__main__ import main

    sys.exit(main())
