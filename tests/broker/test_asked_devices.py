"""Devices that run the protocols of LDP-IDS on a real broker, each with a key of its own: one is
off for a while, one comes late. A judge recomputes every report from values, keys and requests, and
every sum, decision and release from the reports.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack, closing

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.device.client import Client
from ldp_kafka.runtime.keys import edge_randomness, read_key
from ldp_kafka.runtime.log import Message
from ldp_kafka.runtime.stages.requests import read_request
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.parsing import parse_json
from ldp_kafka.runtime.wire.records import decode_json
from ldp_kafka.runtime.wire.reports import read_reports
from ldp_kafka.topology import loads
from tests.broker.flow import Flow
from tests.broker.judge import rounds
from tests.broker.traces import releases
from tests.keys import KEY
from tests.rounds import numbers

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}", client: {{log_level: "0"}}}}
input: {{source: devices, partitions: {partitions}, slot: 1m, lateness: 0, hold: 2}}
privacy: {{method: {method}, {shape}, epsilon: 8.0, window: 4}}
output: {{statistics: [{statistics}]}}
runtime: {{snapshot_seconds: 1, session_timeout: {session}}}
"""
SLOT = 60_000
PATIENCE = 120  # seconds: eight workers start beside the chaos harness
FIRST = 1_600_000_000_000 // SLOT // 4 * 4  # lsp reports in slots that its window divides
DEVICES, SLOTS, HOLD, WINDOW = 30, 12, 2, 4
OFF = {0: range(4, 9), 1: range(6), 2: range(5, 9)}
"""Slots in which a device is not there: two are off for a while, one comes late."""
DEPLOYMENT = "here"
SHAPES = {
    "frequencies": "categories: 3, mechanism: grr",
    "mean": "domain: [0, 2]",
}


def streams():
    """(DEVICES, SLOTS) of 0, 1 and 2, most of which change together."""
    rng = np.random.default_rng(11)
    level = np.array([0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 1, 1])
    return np.where(
        rng.random((DEVICES, SLOTS)) < 0.85, level, rng.integers(0, 3, (DEVICES, SLOTS))
    )


class Fleet:
    """Devices over their own files, each with a consumer and a producer of its own."""

    def __init__(self, flow, folder):
        self.flow, self.clients = flow, {}
        # Slots are decided from the first one with a report on. Where the first phase asks a part
        # of the users, keys can come to nobody's turn in the first slot: (7 / 8)^29, 2 % of them.
        for attempt in range(5):
            self.folder = folder / str(attempt)
            self.folder.mkdir(parents=True)
            for number in range(DEVICES):
                Client.provision(flow.path, deployment=DEPLOYMENT, **self.files(number))
            there = (n for n in range(DEVICES) if 0 not in OFF.get(n, ()))
            closes = encode(Tick((FIRST + 2) * SLOT))
            if any(reports(self, number, [event(number, 0, 0), closes]) for number in there):
                return
        raise AssertionError("nobody has anything to report in the first slot")

    def files(self, number):
        return {"database": self.folder / f"{number}.db", "key_file": self.folder / f"{number}.key"}

    def there(self, at):
        """The clients of the devices that are there in a slot; the others are closed."""
        for number in range(DEVICES):
            off = at in OFF.get(number, ())
            if off and number in self.clients:
                assert self.clients.pop(number).close(20) is None
            elif not off and number not in self.clients:
                self.clients[number] = Client(
                    self.flow.path, user=f"u{number}", **self.files(number)
                )
        return self.clients

    def close(self):
        for client in self.clients.values():
            client.close(20)

    def until_asked(self, slot):
        """Every device that is there has read the request of this slot, and sent its answer."""
        end = time.time() + PATIENCE
        for client in self.clients.values():
            while client._answers.last < slot:
                assert time.time() < end, client.problem
                client.poll(0.05)
            assert client.flush(20) == 0


def tick(flow, slot):
    for number in range(flow.topology.input.partitions):
        flow.producer.produce(
            flow.topology.reports_topic, encode(Tick(slot * SLOT)), partition=number
        )
    assert flow.producer.flush(20) == 0


def asked(flow, count):
    """The first ``count`` requests, waited for."""
    end = time.time() + PATIENCE
    while True:
        values = [m.value() for m in flow.read(flow.topology.requests_topic)]
        # a coordinator that takes over asks again
        found = list(dict.fromkeys(v for v in values if parse_json(v).get("type") == "request"))
        if len(found) >= count:
            return found
        assert time.time() < end, (
            f"{len(found)} requests, not {count}: {flow.log_path.read_text()[-3000:]}"
        )
        time.sleep(0.1)


def event(number, at, value):
    """What a device measures in a slot, as a message of a raw topic."""
    slot = np.array([(FIRST + at) * SLOT])
    return encode(Events(Ids.of([f"u{number}"]), slot, np.array([value])))


def reports(fleet, number, values):
    """What a device has to report, with what it costs, by the edge's own fold of messages."""
    topology = loads(fleet.flow.path.read_text().replace("source: devices, ", ""))
    randomness = edge_randomness(topology, read_key(fleet.files(number)["key_file"]), DEPLOYMENT)
    stage = roles.make(topology, "perturb", 0, randomness)
    folded = stage.fold(stage.fresh(), [Message(at, -1, value) for at, value in enumerate(values)])
    batches = [
        read_reports(record.value)
        for record in folded.records
        if record.topic == topology.reports_topic
    ]
    return [(one, batch.cost) for batch in batches if batch for one in batch.singles()]


def expected(fleet, table, steps):
    """{(id, phase): what it says} of each device, by the edge's own fold of its values and of the
    requests, where each came; and whether it can be asked at all.
    """
    found = {}
    for number in range(DEVICES):
        values = []
        for at in range(SLOTS + HOLD + 2):
            values.append(encode(Tick((FIRST + at) * SLOT)))
            if at < SLOTS and at not in OFF.get(number, ()):
                values.append(event(number, at, table[number, at]))
            values += steps[at]
        for one, cost in reports(fleet, number, values):
            found[one.id, one.phase] = (number, one.slot, one.value, cost)
    return found


@pytest.mark.parametrize(
    ("method", "statistic"),
    [
        ("lba", "mean"),
        ("lpa", "frequencies"),
        ("lbd", "frequencies"),
        ("lpd", "mean"),
    ],
)
def test_devices_that_are_asked(kafka, tmp_path, prefix, method, statistic):
    table = streams()
    flow = flow_of(kafka, tmp_path, prefix, method, statistic)
    with ExitStack() as stack:
        stack.callback(flow.close)
        for role in [role.name for role in flow.topology.roles] * 2:
            flow.start(role)
        fleet = stack.enter_context(closing(Fleet(flow, tmp_path / "homes")))
        pending, done = None, 0  # a slot that is asked for reports; slots that have a request
        steps = []
        for at in range(SLOTS + HOLD + 2):
            there = fleet.there(min(at, SLOTS - 1))
            if done:  # a value may end the wait of an older one: what was asked for comes first
                fleet.until_asked(FIRST + done - 1)
            for number, client in there.items() if at < SLOTS else ():
                client.report(table[number, at].item(), (FIRST + at) * SLOT)
            for client in there.values():
                assert client.flush(20) == 0
            tick(flow, FIRST + at)
            steps.append([])
            if pending is not None and pending + 1 + HOLD <= at:
                pending = None
            while pending is None and done < at:
                request = asked(flow, done + 1)[done]
                found = read_request(request)
                assert found.slot == FIRST + done
                steps[-1].append(request)
                pending = done if found.epsilon else None
                done += 1
            if done:
                fleet.until_asked(FIRST + done - 1)
        judge(flow, fleet, table, steps)


def flow_of(boot, tmp_path, prefix, method, statistic):
    return Flow(
        boot,
        tmp_path,
        f"{prefix}-{method}-{statistic}",
        method=method,
        shape=SHAPES[statistic],
        statistics=statistic,
        text=TEXT,
    )


def judge(flow, fleet, table, steps):
    """Nothing else has left a device, nobody is over the budget, and all follows from it."""
    topology = flow.topology
    messages = flow.read(topology.reports_topic)
    reports = {}
    for message in messages:
        if parse_json(message.value()).get("type") != "report":
            continue
        batch = read_reports(message.value())
        [one] = batch.singles()
        assert reports.setdefault((one.id, one.phase), (one.slot, one.value, batch.cost)) == (
            one.slot,
            one.value,
            batch.cost,
        )
    wanted = expected(fleet, table, steps)
    assert {at: told[1:] for at, told in wanted.items()} == reports
    terms = topology.method.protocol.terms
    spent = defaultdict(int)
    for (_, phase), (number, slot, _, cost) in wanted.items():
        spent[number, slot] += cost if phase else terms.first
    for number in range(DEVICES):
        for slot in range(FIRST, FIRST + SLOTS):
            assert sum(spent[number, slot + back] for back in range(WINDOW)) <= terms.budget
    assert sum(phase for _, phase in wanted) >= 10, "hardly anybody was asked"
    # who was off when a value was asked for answers when it is back: spent, and not counted
    asked_at = {read_request(value).slot: at for at, step in enumerate(steps) for value in step}
    late = [
        told
        for (_, phase), told in wanted.items()
        if phase and asked_at[told[1]] in OFF.get(told[0], ())
    ]
    letters = [parse_json(m.value()) for m in flow.read(topology.collector_dead_letters_topic)]
    reasons = [letter["reason"] for letter in letters if letter["type"] == "dead_letter"]
    assert reasons == ["closed"] * len(late)
    sums = [m.value() for m in flow.read(topology.sums_topic)]
    told = {}
    for value in sums:
        one = decode_json(parse_json(value))
        if one is not None and one.support is not None:
            told[one.slot, one.phase, one.cost] = np.array(one.support)
    assert {at: each.tolist() for at, each in merged(topology, messages).items()} == {
        at: each.tolist() for at, each in told.items()
    }
    made = rounds.decided(flow)
    for topic in (topology.requests_topic, topology.releases_topic):
        values = {value for _, value in rounds.written(flow, topic)}
        assert values == {record.value for record in made if record.topic == topic}
    published = [decode_json(parse_json(value)) for value in values]
    slots = sorted({release.slot for release in published})
    assert slots[:SLOTS] == list(range(FIRST, FIRST + SLOTS))
    strategies = {release.strategy for release in published}
    assert strategies == {"publish", "approximate"}


def merged(topology, messages):
    """The sums of each phase of a slot over all partitions, as collect stages have them."""
    found = {}
    for number in range(topology.input.partitions):
        stage = roles.make(topology, "collect", number)
        log = [Message(m.offset(), -1, m.value()) for m in messages if m.partition() == number]
        for record in stage.fold(stage.fresh(), log).records:
            if record.topic != topology.partials_topic:
                continue
            one = decode_json(parse_json(record.value))
            if one.support is not None:
                at = (one.slot, one.phase, one.cost)
                found[at] = found.get(at, 0) + np.array(one.support)
    return found


ALONE = [("lbu", "mean"), ("lsp", "frequencies"), ("lpu", "frequencies"), ("lpu", "mean")]


@pytest.mark.parametrize(("method", "statistic"), ALONE)
def test_devices_that_nobody_asks(kafka, tmp_path, prefix, method, statistic, monkeypatch):
    """Their reports are what an edge would make of the same values and keys; and where all have one
    key, the releases are what `ldp_kafka.protocol(...).run` makes of the same streams.
    """
    flow, table = flow_of(kafka, tmp_path, prefix, method, statistic), streams()
    with ExitStack() as stack:
        stack.callback(flow.close)
        for role in [role.name for role in flow.topology.roles] * 2:
            flow.start(role)
        secret = KEY
        monkeypatch.setattr(
            "ldp_kafka.runtime.device.provisioning.new_key",
            lambda path: path.write_bytes(secret) and path.chmod(0o600),
        )
        folder = tmp_path / "homes"
        folder.mkdir()
        fleet = Fleet(flow, folder)
        clients = {
            number: stack.enter_context(Client(flow.path, user=f"u{number}", **fleet.files(number)))
            for number in range(DEVICES)
        }
        for at in range(SLOTS):
            for number, client in clients.items():
                client.report(table[number, at].item(), (FIRST + at) * SLOT)
            for client in clients.values():
                assert client.flush(30) == 0
        tick(flow, FIRST + SLOTS)
        privacy = flow.topology.privacy
        shape = (
            {"categories": privacy.categories}
            if privacy.domain is None
            else {"domain": privacy.domain}
        )
        trace = lk.protocol(
            method, epsilon=privacy.epsilon, window=WINDOW, oracle=privacy.mechanism, **shape
        ).run(
            table if privacy.domain is None else table.astype(float),
            edge_randomness(flow.topology, secret, DEPLOYMENT),
            users=[f"u{number}" for number in range(DEVICES)],
            first_slot=FIRST,
        )
        end = time.time() + PATIENCE
        while len(found := releases(flow)[:SLOTS]) < SLOTS:
            assert time.time() < end
            time.sleep(0.2)
    assert [release["slot"] for release in found] == list(range(FIRST, FIRST + SLOTS))
    for name, wanted in (("value", trace.values), ("standard_error", trace.standard_error)):
        said = numbers([release[name] for release in found], wanted)
        np.testing.assert_allclose(said, wanted, rtol=1e-12)
    assert trace.reports.sum() > SLOTS
