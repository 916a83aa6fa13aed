"""Changelogs of windows as the program writes them, kept for programs that come after it.

`version_4.json` was written by the last program that named a pane's slot in the key's text. It
holds a raw log, and of curators and of delay methods at the edge the changelog after the first part
of it, a half of the next snapshot as a crash may leave it, and digests of all that the program
made of the rest of the log from either. ``python -m tests.runtime.recovery.changelogs FILE`` writes
such a file.
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

from ldp_kafka.runtime import roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.topology import Topology, loads
from tests.fold.cases import HERE, KEY
from tests.fold.epochs import folded, opened, saved
from tests.runtime.stages.pane_cases import wild_streams
from tests.runtime.written import digest

TEXT = """
topology: kept
input: {{slot: 1m, lateness: 1, partitions: 1, max_ahead: 1d, per_slot: mean}}
privacy: {{{trust}, level: event, method: {method}, epsilon: 2.0, delay: 4, setting: {setting},
  domain: [0, 10]}}
output: {{statistics: [{statistics}]}}
runtime: {{shards: 3}}
"""
CURATOR, EDGE = ("trust: curator", "per_stream"), ("trust: edge", "per_user")
CASES = {
    "curate sliding": ("segment_mean", "sliding", *CURATOR),
    "curate batch": ("naive", "batch", *CURATOR),
    "perturb sliding": ("segment_mean", "sliding", *EDGE),
    "perturb batch": ("naive", "batch", *EDGE),
}
PARTS = 0.5, 0.65  # of the log: until the snapshot, and until the next one


def topology_of(case: str) -> Topology:
    """Of one case."""
    method, setting, trust, statistics = CASES[case]
    return loads(TEXT.format(trust=trust, method=method, setting=setting, statistics=statistics))


def stage_of(case: str):
    """The first stage of one case, bound to the tests' key."""
    topology = topology_of(case)
    [(_, agent), *_] = topology.flow.readers()
    return roles.make(topology, agent, 0, edge_randomness(topology, KEY, HERE))


def made(case: str, log: Sequence[Message]) -> dict[str, object]:
    """What the file holds of one case."""
    stage, first, then = stage_of(case), *(int(part * len(log)) for part in PARTS)
    epoch = opened(stage, want=log[0].offset, token="a" * 16)
    for message in log[:first]:  # a snapshot of all, and then of what has changed
        folded(epoch, [message])
        if message.offset % 7 == 0:
            saved(epoch)
    whole = dict(saved(epoch))
    rest = folded(epoch, log[first:then])
    shards = list(epoch.snapshot().shards.items())
    torn = dict(shards[: -(-len(shards) // 2)])
    rest += folded(epoch, log[then:])
    epoch = opened(stage, want=log[first].offset, committed=True, held={**whole, **torn})
    again = folded(epoch, log[first:])
    return {
        "whole": _written(whole),
        "torn": _written(torn),
        "rest": [len(rest), digest(by_topic(rest))],
        "rest after the crash": [len(again), digest(by_topic(again))],
    }


def by_topic(records):
    """Records in the order of each topic: no more is promised of those that a fold gives."""
    return sorted(records, key=lambda record: record.topic)


def _written(table) -> dict[str, str]:
    """A changelog, its keys as Faust writes them."""
    return {json.dumps(key): b64encode(value).decode() for key, value in table.items()}


def log_of(kept) -> list[Message]:
    """The raw log of a file."""
    return [Message(offset, stamp, b64decode(value)) for offset, stamp, value in kept["log"]]


def main(file: Path) -> None:
    """Write a file."""
    log = wild_streams(3)
    values = [[each.offset, each.timestamp, b64encode(each.value).decode()] for each in log]
    cases = {case: made(case, log) for case in CASES}
    file.write_text(json.dumps({"log": values, "cases": cases}, indent=0) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
