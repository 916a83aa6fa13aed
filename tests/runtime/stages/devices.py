"""A collector that is fed with what devices send, and logs of devices: some late, some twice, some
wrong.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from ldp_kafka.records import Reports, Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.collect_devices import partition_of
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import write_reports
from tests.runtime.device.lives import SLOT, TEXT, loads
from tests.runtime.stages.test_collector import partial

HOLD, BUDGET = 3, 3_000_000
ONE = TEXT.replace("lateness: 1000", "lateness: 1")
ASKED = TEXT.replace("lateness: 1000", f"lateness: 1, hold: {HOLD}")
MEAN, PER_USER, BITS = (
    ONE % ("sw_direct", "domain: [0, 100]", "mean"),
    ONE % ("capp", "domain: [0, 100]", "mean, per_user"),
    ONE % ("lpu", "mechanism: oue, categories: 40", "frequencies"),
)
AVERAGED = ONE % ("sw_direct", "domain: [0, 100]", "mean, per_user")
AVERAGED = AVERAGED.replace("per_user]", "per_user], smooth: {moving_average: 3}")
GRR = "mechanism: grr, categories: 5"
LBA, LPA = (ASKED % (name, GRR, "frequencies") for name in ("lba", "lpa"))
OUE = ASKED % ("lba", "mechanism: oue, categories: 40", "frequencies")
TEXTS = {"mean": MEAN, "per-user": PER_USER, "bits": BITS, "lba": LBA, "lpa": LPA, "oue": OUE}
TEXTS["averaged"] = AVERAGED


def name_of(number, at=1, partitions=2):
    """An id that lies in partition ``at``; ids of other numbers are spread over the parts of a
    slot.
    """
    name = bytearray(np.random.default_rng(number).bytes(16))
    name[7] += (
        (at - partition_of(bytes(name), partitions)) % partitions
        if name[7] < 254
        else -(1 if partition_of(bytes(name), partitions) != at else 0)
    )
    assert partition_of(bytes(name), partitions) == at
    return bytes(name)


class Fed:
    """The stage of partition 1, its state and its log; its source is another number."""

    def __init__(self, text=MEAN, source=3):
        self.topology = loads(text)
        self.stage = replace(roles.make(self.topology, "collect", 1), source=source)
        self.state, self.offset, self.counts = self.stage.fresh(), 0, {}

    def report(self, number, slot, index=7, **changes):
        """A device's message; the same number and slot are the same report."""
        method = self.topology.method
        blank = method.blank(1)
        values = np.array([index]) if blank.ndim == 1 else np.full_like(blank, index)
        single = single_of(self.topology, name_of(1000 * number + slot), slot, values)
        if self.topology.output.moving_average > 1:
            single = replace(single, series=np.full((1, 2), number, np.uint64))
        return write_reports(replace(single, **changes))

    def put(self, *values, at=None):
        """Messages, folded together, at a slot of the broker's clock (default: far ahead)."""
        time = 10**12 if at is None else at * SLOT
        folded = self.stage.fold(
            self.state, [Message(self.offset + i, time, value) for i, value in enumerate(values)]
        )
        self.offset += len(values)
        self.counts = folded.counts
        return folded.records

    def partials(self, *values, at=None):
        """The (slot, number of reports) of the partials that messages gave."""
        records = self.put(*values, at=at)
        assert all(
            record.topic == self.topology.partials_topic and record.key == b"3"
            for record in records
        )
        assert all(partial(record).source == 3 for record in records)
        return [
            (found.slot, found.support[0] if found.support else None)
            for found in map(partial, records)
        ]

    def refused(self, value, at=None):
        """The reason of the dead letter of a message that changes nothing."""
        before = (
            self.stage.meta(self.state),
            self.stage.dump(self.state, self.stage.shards_of(self.state)),
        )
        [record] = self.put(value, at=at)
        assert (
            self.stage.meta(self.state),
            self.stage.dump(self.state, self.stage.shards_of(self.state)),
        ) == before
        assert record.topic == self.topology.collector_dead_letters_topic
        body = json.loads(record.value)
        assert (body["topic"], body["partition"], body["offset"]) == (
            "d.device-reports",
            1,
            self.offset - 1,
        )
        return body["reason"]


def single_of(topology, name, slot, values):
    """One report as a device makes it."""
    ids = np.frombuffer(name, np.uint64).reshape(1, 2)
    series = ids if topology.per_user else None  # each report by a user of its own
    return Reports(
        ids,
        np.array([slot]),
        values,
        topology.method.scale,
        topology.fingerprint,
        -1,
        None,
        series=series,
    )


class Asked(Fed):
    """The same of devices that are asked."""

    def __init__(self, text=LBA):
        super().__init__(text)

    def answer(self, number, slot, cost=BUDGET // 2, index=3, **changes):
        """A device's report of the second phase; the same number and slot have the same id."""
        form = self.topology.method.form(1, cost)
        blank = form.blank(1)
        values = np.array([index]) if blank.ndim == 1 else np.full_like(blank, index)
        single = single_of(self.topology, name_of(7000 * number + slot), slot, values)
        return write_reports(replace(single, phase=1, cost=cost, scale=form.scale, **changes))

    def told(self, *values, at=None):
        """(slot, phase, cost, reports) of the partials that messages gave."""
        found = [partial(record) for record in self.put(*values, at=at)]
        return [
            (one.slot, one.phase, one.cost, one.support[0] if one.support else None)
            for one in found
        ]


def fed_of(text):
    """Whichever a topology needs."""
    return (Asked if "hold" in text else Fed)(text)


def script(seed, text, n=60):
    """The stage, and a log: devices report slot after slot, are asked, some late, some twice, some
    for another cost; ticks.
    """
    rng, fed, log = np.random.default_rng(seed), fed_of(text), []
    asked, costs = isinstance(fed, Asked), [BUDGET // 2, BUDGET // 2, 700_000]
    few = asked or text == BITS
    low, high = (0, 2) if few else fed.topology.method.index_range
    for at in range(n):
        slot = 50 + at // 6 + int(rng.integers(-2 - asked, 3))
        number, kind = int(rng.integers(5)), rng.integers(12)
        index = int(np.random.default_rng([number, slot]).integers(low, high))
        if kind == 0:
            value = encode(Tick(slot * SLOT))
        elif kind == 1:
            value = b"{"
        elif kind < 6 or not asked:
            value = fed.report(number, slot, index)
        else:
            cost = BUDGET if text == LPA else int(rng.choice(costs))
            value = fed.answer(number, slot, cost, index)
        log.append(Message(at, (50 + at // 6) * SLOT, value))
    return fed.stage, log
