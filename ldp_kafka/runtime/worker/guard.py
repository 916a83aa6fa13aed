"""Whether a worker's client and the recovery of its tables go on, looked at from outside."""

from __future__ import annotations

import threading
import time

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.kafka.presence import Presence
from ldp_kafka.runtime.worker.driver.app import App
from ldp_kafka.runtime.worker.driver.membership import dropped, heard
from ldp_kafka.runtime.worker.exits import end, standing
from ldp_kafka.runtime.worker.probes import Assignment

__all__ = ["guard"]

STILL = 60  # seconds in which nothing came of the tables that are recovered


def guard(app: App, presence: Presence) -> None:
    """Look from now on whether the client has given up its group, and whether the recovery of
    tables stands still though brokers are there, from a thread: none of Faust's timers runs before
    its first tables are there, which is when it may happen. Then the process ends (`exits.end`).
    """

    def keep() -> None:
        seen, still, troubled = None, 0, 0
        # looks are counted, not seconds: a process that slept has not looked
        while (found := dropped(app)) is None and max(still, troubled) < STILL:
            before, seen = seen, app.recovering
            trouble = heard(app)
            if presence.here:
                still = still + 1 if seen is not None and seen == before else 0
                well = not trouble and app.stands is Assignment.RECOVERED
                troubled = 0 if well else troubled + trouble
            time.sleep(1)
        end(
            found
            or BrokerError(
                f"the client has not joined its group in {STILL} tries: a new worker joins it"
                if troubled >= STILL
                else f"the recovery of tables stood still for {STILL} s: a new worker begins it"
                f" again; it waited here:{standing()}"
            )
        )

    threading.Thread(target=keep, daemon=True, name="guard").start()
