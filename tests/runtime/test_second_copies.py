"""How a second copy of a report is told makes no difference to what is released: the same reports
of edges, told by their place in the edge's log, and of devices, told by their ids and some of them
sent twice, in one phase and in two.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ldp_kafka.records import Tick
from ldp_kafka.runtime import local, roles
from ldp_kafka.runtime.stages.collect_devices import CollectDevices, partition_of
from ldp_kafka.runtime.wire.records import encode_json
from ldp_kafka.runtime.wire.reports import read_reports, write_reports
from ldp_kafka.topology import loads
from tests.fold import cases
from tests.runtime.test_protocols_local import BEGIN, KINDS, SLOTS, TEXT, raw, streams
from tests.runtime.test_protocols_local import topology as topology_of

DEVICES = TEXT.replace("partitioning: murmur2, ", "source: devices, ").replace(
    "\n    per_slot: {per_slot}", ""
)
PLAIN = [("sw_direct", True), ("lpu", True)]


def texts(name, numeric):
    kind = "domain: [0, 10]" if numeric else "categories: 3, mechanism: grr"
    kind += ", mechanism: hybrid" if numeric and name != "sw_direct" else ""
    statistic = "mean" if numeric else "frequencies"
    return {"name": name, "kind": kind, "statistic": statistic, "lateness": 0, "hold": 2}


def sent(of, devices, reports):
    """The device log of each partition: the reports of a run, one a message, slot by slot and the
    first phase first; a third of them come again, right behind or at the slot's end.
    """
    rng, found = np.random.default_rng(7), {}
    for batch in (read_reports(record.value) for records in reports for record in records):
        for at in range(len(batch)):
            one = replace(
                batch.take(np.array([at])),
                fingerprint=devices.fingerprint,
                bound=-1,
                chunk=0,
                closed=None,
                settled=None,
            )
            turn = (int(one.slots[0]), one.phase)
            found.setdefault(turn, []).append((one.ids.tobytes(), write_reports(one)))
    logs = [[], []]
    for turn in sorted(found):
        again = [one for one in found[turn] if rng.random() < 1 / 3]
        for name, value in [*found[turn], *again]:
            logs[partition_of(name, 2)].append(value)
    for log in logs:
        log += [encode_json(Tick(BEGIN + (SLOTS + at) * cases.SLOT)) for at in range(6)]
    return logs


def released(devices, logs, kind=CollectDevices):
    """What the collector, the merger and the coordinator make of devices' logs."""
    flow, partials, releases, counts = devices.flow, [], [], {}
    for partition, log in enumerate(logs):
        made = roles.make(devices, "collect", partition)
        stage = kind(**vars(made)) if kind is not CollectDevices else made
        messages = [cases.Message(at, -1, value) for at, value in enumerate(log)]
        folded = stage.fold(stage.fresh(), messages)
        partials += [each for each in folded.records if each.topic == devices.partials_topic]
        counts = folded.counts
    merge = roles.make(devices, "merge", 0)
    records = merge.fold(merge.fresh(), local.log(partials)).records
    if flow.sums is not None:
        decides = roles.make(devices, "coordinate", 0)
        records = decides.fold(decides.fresh(), local.log(records)).records
    releases = [json.loads(each.value) for each in records if each.topic == devices.releases_topic]
    return said(releases), counts


def said(releases):
    """By slot, without what says under which guarantee."""
    return {each["slot"]: each | {"guarantee": None} for each in releases}


def both(name, numeric):
    """What a topic's run releases, and the log of the same reports from devices."""
    asked = (name, numeric) in KINDS
    of = (
        topology_of(name, numeric)
        if asked
        else loads(TEXT.format(**texts(name, numeric), per_slot="first"))
    )
    devices = loads(DEVICES.format(**texts(name, numeric)))
    run = local.run(of, cases.randomness(of), raw(streams(numeric), lateness=0))
    expected = said(json.loads(record.value) for record in run.releases)
    return expected, devices, sent(of, devices, run.reports)


@pytest.mark.parametrize(("name", "numeric"), [*PLAIN, *KINDS])
def test_devices_release_what_a_topic_does(name, numeric):
    expected, devices, logs = both(name, numeric)
    found, counts = released(devices, logs)
    assert counts["repeated"] > 0
    slots = found.keys() & expected.keys()
    assert len(slots) >= SLOTS - 1
    assert {at: found[at] for at in slots} == {at: expected[at] for at in slots}


class CountsAgain(CollectDevices):
    """Takes a repeated report for a new one."""

    def _known(self, state, mine, name):
        return None


class OneSum(CollectDevices):
    """Counts reports of the second phase among those of the first."""

    def _counted(self, state, batch):
        return self._phases[0], state.phases[0]


@pytest.mark.parametrize(("kind", "name"), [(CountsAgain, "lpu"), (OneSum, "lba")])
def test_a_broken_collector_is_found(kind, name):
    expected, devices, logs = both(name, True)
    found, _ = released(devices, logs, kind)
    assert any(found.get(at) != expected[at] for at in expected)
