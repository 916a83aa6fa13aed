"""The command line with one thing broken on purpose: LDP_KAFKA_TEST_MUTANT names it. What the judge must find."""

from __future__ import annotations

import os
import sys

from ldp_kafka.randomness import Keyed, System
from ldp_kafka.runtime import fold, stages


class Fresh(Keyed):
    """Keyed ids, but noise that a replay draws again."""

    def at(self, users, slot, phase, bound):
        return System()


def break_it(name: str) -> None:
    if name == "fresh noise":
        stages.edge_randomness = lambda topology, key: Fresh(key, context=bytes.fromhex(topology.fingerprint))
    elif name == "no tenure":
        begin = fold.Partition.__post_init__

        def shared(self) -> None:
            self.tenure = "0"
            begin(self)
            self._old = []

        fold.Partition.__post_init__ = shared
    else:
        raise SystemExit(f"no mutant {name}")


if __name__ == "__main__":
    break_it(os.environ["LDP_KAFKA_TEST_MUTANT"])
    from ldp_kafka.__main__ import main

    sys.exit(main())
