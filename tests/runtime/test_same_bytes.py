"""What goes out is the same, byte for byte, as when it was recorded: a change of the code is no
change of the noise.

`same_bytes.json` holds, for every shipped topology and every method, digests of the fingerprint,
the reports, the releases and the dead letters of one raw log with late, bad and repeated events in
it; and for every row of `shapes.SHAPES` those of each topic and of each state that a stage writes.
Numbers of releases are compared to `DIGITS` digits: what is made of reports goes through BLAS,
whose last bit differs between processors; what draws noise does not. Record it anew, after a change
that is meant to change them, with ``python -m tests.runtime.test_same_bytes``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.topology import Topology, load, loads
from tests.runtime.shapes import SHAPES, relayed, sealed, shaped
from tests.runtime.test_methods import STREAMS, streams_of, topology_of
from tests.runtime.written import START, digest, of_devices, said, untidy

FILE = Path(__file__).with_name("same_bytes.json")
SHIPPED = sorted((Path(__file__).parents[2] / "topologies").glob("*.yaml"))
DEVICES = ("sw_direct", "capp", "lpu", "grr_direct")
KEY = bytes(range(32))
USERS, SLOTS = 60, 16


def shipped(path: Path) -> dict[str, object]:
    """Of one shipped topology."""
    topology = load(path)
    rng = np.random.default_rng(5)
    categories = topology.privacy.categories
    if categories is None:
        lo, hi = topology.privacy.domain
        # some are clamped
        values = lo + (hi - lo) * (1.2 * rng.beta(2, 5, (USERS, SLOTS)) - 0.1).round(3)
    else:
        values = rng.integers(0, categories, (USERS, SLOTS))
    first = 1 if topology.input.create else 0
    log = untidy(
        as_log(
            topology,
            messages(
                topology,
                from_arrays(topology, values, START),
                7 if topology.input.format == "arrow" else 1,
            ),
            first,
        ),
        first,
    )
    return said(
        topology, local.run(topology, edge_randomness(topology, KEY, "here"), log, together=5)
    )


MEANS = ("cgm_vector",)
"""Methods that had releases per user alone when they were recorded."""


def method(name: str) -> dict[str, object]:
    """Of one method, with all statistics that it has, its releases per user shrunk."""
    return of(
        topology_of(name, shrinkage="true", **{"statistics": "per_user"} if name in MEANS else {})
    )


def mean(name: str) -> dict[str, object]:
    """Of a crowd's mean, where it came later."""
    return of(topology_of(name, statistics="mean"))


def of(topology: Topology) -> dict[str, object]:
    """Of a log of the streams that every method has."""
    values = streams_of(topology)
    log = as_log(topology, messages(topology, from_arrays(topology, values, START), 9), 1)
    return said(
        topology,
        local.run(topology, edge_randomness(topology, KEY, "here"), untidy(log, 1), together=3),
    )


TOGETHER = {  # per_slot -> method and shape, statistics: values of a slot that are taken together
    "last": ("lbd, categories: 3", "frequencies"),
    "mean": ("lpa, domain: [10, 30]", "mean"),
    "max": ("budget_split, domain: [10, 30], dimension: 3", "mean, per_user"),
    "sum": ("capp, domain: [10, 30]", "mean"),
}


def together(how: str) -> dict[str, object]:
    """Of slots with several values, which are taken together: where nobody asks, where a
    coordinator does, and of lists.
    """
    shape, statistics = TOGETHER[how]
    parts, topology = (
        loads(
            f"""
topology: t-{how}
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{slot: {slot}, lateness: 1, partitions: 2, per_slot: {how}, hold: 2}}
privacy: {{method: {shape}, epsilon: 8.0, window: 4}}
output: {{statistics: [{statistics}]}}
""",
            "t.yaml",
        )
        for slot in ("1s", "3s")
    )
    values = streams_of(topology)
    logs = as_log(parts, messages(parts, from_arrays(parts, values, START), 9), 1)
    end = encode(Tick(START + 1000 * values.shape[1] + 10_000))
    whole = [[*log, Message(log[-1].offset + 1, -1, end)] for log in untidy(logs, 1)]
    return said(topology, local.run(topology, edge_randomness(topology, KEY, "here"), whole))


def devices(name: str) -> dict[str, object]:
    """Of devices that report by themselves: the reports of an edge, one a message, some twice, one
    of them changed.
    """
    topology = topology_of(name)
    run = local.run(
        topology,
        edge_randomness(topology, KEY, "here"),
        as_log(
            topology, messages(topology, from_arrays(topology, streams_of(topology), START), 9), 1
        ),
    )
    text = topology_text(name)
    mine = loads(text, "t.yaml")
    assert mine.fingerprint == topology.fingerprint
    partials: list[local.Record] = []
    made: list[local.Record] = []
    for at, log in enumerate(of_devices(run.reports)):
        stage = roles.make(mine, "collect", at)
        for record in stage.fold(stage.fresh(), log).records:
            (partials if record.topic == mine.partials_topic else made).append(record)
    merge = roles.make(mine, "merge", 0)
    made += merge.fold(merge.fresh(), local.log(partials)).records
    return {
        "fingerprint": mine.fingerprint,
        "made": [len(partials), len(made)],
        "all": digest(made, mine.releases_topic),
    }


def topology_text(name: str) -> str:
    """The topology of `devices`."""
    kind = topology_of(name)
    shape = "domain: [10, 30]" if kind.method.kind == "numeric" else "categories: 3"
    return f"""
topology: t-{name}
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
input: {{source: devices, slot: 1s, lateness: 0, partitions: 2}}
privacy: {{method: {name}, {shape}, epsilon: 8.0, window: 4}}
output: {{statistics: [{", ".join(kind.output.statistics)}], shrinkage: false}}
"""


OTHERS = {
    **{f"relay/{name}": (relayed, name) for name in ("perturb/relayed", "answer/relayed")},
    "seal/perturb/bounds": (sealed, "perturb/bounds"),
}
CASES = {
    **{f"topologies/{path.stem}": (shipped, path) for path in SHIPPED},
    **{f"methods/{name}": (method, name) for name in STREAMS},
    **{f"means/{name}": (mean, name) for name in MEANS},
    **{f"together/{how}": (together, how) for how in TOGETHER},
    **{f"devices/{name}": (devices, name) for name in DEVICES if name in STREAMS},
    **{f"shapes/{name}": (shaped, name) for name in SHAPES},
    **OTHERS,
}
OLDER = [case for case in CASES if case.split("/")[0] not in ("shapes", "relay", "seal")]


@pytest.mark.parametrize("case", OLDER)
def test_the_same_bytes(case):
    """As recorded before; and there were reports, releases and dead letters to compare."""
    make, of = CASES[case]
    found = make(of)
    # a curator makes no reports
    *others, dead = found["made"]
    assert dead and any(others) and (all(others) or load(of).curated)
    assert found == json.loads(FILE.read_text())[case]


@pytest.mark.parametrize("kind", dict.fromkeys(name.split("/")[0] for name in SHAPES))
def test_every_shape_writes_the_same_records_and_states(kind):
    """As recorded before, each row of this kind; each state had records in it."""
    recorded, others = json.loads(FILE.read_text()), {}
    for shape in [name for name in SHAPES if name.startswith(f"{kind}/")]:
        found, before = shaped(shape), recorded[f"shapes/{shape}"]
        keys = [key for key in {**found, **before} if found.get(key) != before.get(key)]
        others |= {shape: keys} if keys else {}
        states = [
            each for key in found if key.startswith("state of") for each in found[key].split()
        ]
        assert states and not any("0" in each.split(":")[1].split(",") for each in states)
    assert others == {}


@pytest.mark.parametrize("case", OTHERS)
def test_a_relay_and_a_seal_write_what_they_wrote(case):
    make, name = OTHERS[case]
    found = make(name)
    assert found == json.loads(FILE.read_text())[case]


def test_everything_recorded_is_compared():
    """Nothing that was recorded is left out."""
    assert json.loads(FILE.read_text()).keys() == CASES.keys()


if __name__ == "__main__":
    FILE.write_text(
        json.dumps({case: make(of) for case, (make, of) in CASES.items()}, indent=1) + "\n"
    )
