"""Someone else's topic on a real broker, relayed by workers that are killed: every event once, no
report twice, and the same decisions and releases as the protocol makes of the same streams.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.kafka import admin
from ldp_kafka.runtime.kafka.admin import TopicSpec
from ldp_kafka.runtime.kafka.rights import check_rights
from ldp_kafka.runtime.kafka.setup import client_config, prepare
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.replay.messages import messages
from ldp_kafka.runtime.replay.send import send
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.runtime.wire.arrow import ARROW
from ldp_kafka.topology import Right, access, load, loads
from tests.broker.alone import Alone
from tests.broker.flow import KEY, Flow
from tests.broker.relays import TEXT as JSON
from tests.broker.relays import Copier, copied, event, left, put, ticks
from tests.broker.secured import secured_broker
from tests.broker.traces import compared, jumping, releases
from tests.broker.watching import stopped, until

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: "{boot}"}}
input: {{topic: {name}.theirs, relay: true, partitions: {partitions}, format: arrow, slot: 1m,
  lateness: 1, hold: 3, idle: 2s, partitioning: murmur2}}
privacy: {{method: {method}, {shape}, epsilon: 2.0, window: 4}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime: {{shards: 8, snapshot_seconds: 1, session_timeout: {session}}}
"""
REKEYED = TEXT.replace("relay: true", "relay: rekey, sources: 2")
SLOT = 60_000
FIRST = 1_600_000_000_000 // SLOT // 4 * 4
USERS, CATEGORIES = 2_000, 3
LONG = 300  # seconds


def users(partition):
    """More than enough ids that belong into one of two partitions."""
    names = [f"u{n:05d}" for n in range(3 * USERS)]
    return [
        name for name, home in zip(names, partitions_of(names, 2), strict=True) if home == partition
    ]


def streams(seed, slots):
    """(USERS, slots) categories."""
    return jumping(np.random.default_rng(seed), USERS, slots, CATEGORIES)


@contextmanager
def relayed(boot, tmp_path, prefix, method, slots, text=TEXT):
    """A topology, the topic that it relays, and what is to be written there."""

    def ready(topology, _):
        new = TopicSpec(topology.input.topic, topology.input.partitions)
        admin.ensure({"bootstrap.servers": boot}, [new])
        return prepare(topology)

    flow = Flow(
        boot,
        tmp_path,
        f"{prefix}-{method}",
        method=method,
        shape=f"categories: {CATEGORIES}",
        statistics="frequencies",
        text=text,
        ready=ready,
    )
    source = from_arrays(flow.topology, streams(1, slots), FIRST * SLOT, users(0)[:USERS])
    with flow:
        yield flow, source


def write(flow, source):
    """As its owner would: no tick, at no pace."""
    theirs = loads(flow.path.read_text().replace("relay: rekey, sources: 2", "relay: true"))
    send(theirs, client_config(flow.topology, "edge"), messages(theirs, source, 256))


def close(flow, slots):
    """What comes after the last slot: an event of a stranger a good while later, which closes it.
    Without it the last slots stay open, since nobody writes ticks into someone else's topic.
    """
    at = (FIRST + slots + 5) * SLOT
    write(flow, from_arrays(flow.topology, np.ones((1, 1), np.int64), at, users(0)[USERS:][:1]))


def same(flow, source, slots, values):
    """What was released is what the protocol makes of the streams, and no report came twice."""
    compared(flow, releases(flow)[:slots], source, values, FIRST, FIRST + slots)


def each_once(flow):
    """Every record of the other topic is in ours, once and in its order; and nobody has written
    there but its owner.
    """
    config = {"bootstrap.servers": flow.boot, "log_level": 0}
    written = [0] * flow.topology.input.partitions
    for message in flow.read(flow.topology.input.topic):
        assert message.value().startswith(ARROW)
        written[message.partition()] += 1
    assert copied(flow.topology, config) == [list(range(count)) for count in written]
    assert written[0] > 50 and written[1] == 0


@pytest.mark.parametrize("method", ["lpa", "lpu", "lpa-rekey"])
def test_a_backlog_with_an_idle_partition_and_kills(kafka, tmp_path, prefix, method):
    """Fifty slots lie in the topic before the first start, all of them in one of two partitions.
    Where a coordinator asks, they are copied at the pace of its decisions, so that no request comes
    too late. Whoever relays is killed in the middle, twice.
    """
    slots, (method, _, rekeys) = 50, method.partition("-")
    text = REKEYED if rekeys else TEXT
    with relayed(kafka, tmp_path, prefix, method, slots, text) as (flow, source):
        write(flow, source)
        close(flow, slots)
        for role in [role.name for role in flow.topology.roles] * 2:
            flow.start(role)
        killed, end = 0, time.time() + LONG
        while len(found := releases(flow)) < slots and time.time() < end:
            flow.revive()
            if killed < 2 and len(found) > 12 * (killed + 1):
                for _ in range(2):  # one of them relays
                    roles = [role for role, _ in flow.workers]
                    flow.start(flow.kill(roles.index("perturb")))
                killed += 1
            time.sleep(0.3)
        assert killed == 2 or method == "lpu"
        assert all(code == 75 for _, code in flow.exits), flow.log_path.read_text()
        same(flow, source, slots, streams(1, slots))
        if not rekeys:
            each_once(flow)


class Relayers(Alone):
    """Processes that do nothing but relay."""

    def __init__(self, flow):
        super().__init__(flow.path, "relay")
        self.flow = flow
        self.config = {"bootstrap.servers": flow.boot, "log_level": 0}

    def copied(self):
        return copied(self.flow.topology, self.config)


def test_killed_again_and_again(kafka, tmp_path, prefix):
    """Behind some record, which may have arrived or not, and before anything of a run is
    committed: the next one goes on exactly there.
    """
    with (
        relayed(kafka, tmp_path, prefix, "lpu", 40) as (flow, source),
        Relayers(flow) as all_,
    ):
        write(flow, source)
        for dies in (1, 7, 100):
            assert all_.start(dies).wait(LONG) == -signal.SIGKILL
        last = all_.start()
        until(lambda: left(flow.topology, all_.config) == 0, LONG)
        each_once(flow)
        last.terminate()
        assert last.wait(60) == 0


def test_a_zombie_repeats_and_loses_nothing(kafka, tmp_path, prefix):
    """Stopped with records in its hands, and woken when another has copied all: what it still had
    comes late. The first of each record stay in their order.
    """
    with (
        relayed(kafka, tmp_path, prefix, "lpu", 40) as (flow, source),
        Relayers(flow) as all_,
    ):
        write(flow, source)
        total = len(flow.read(flow.topology.input.topic))
        zombie = all_.start(total // 2, signal.SIGSTOP)
        until(lambda: len(all_.copied()[0]) > 0 or stopped(zombie.pid), LONG)
        other = all_.start()
        until(lambda: left(flow.topology, all_.config) == 0, LONG)
        assert all_.copied()[0] == list(range(total))
        zombie.send_signal(signal.SIGCONT)
        time.sleep(5)
        close(flow, 40)
        until(lambda: left(flow.topology, all_.config) == 0, LONG)
        assert list(dict.fromkeys(all_.copied()[0])) == list(range(total + 1))
        for process in (zombie, other):
            process.terminate()
            assert process.wait(60) == 0


def test_it_relays_with_exactly_its_rights(can_start, tmp_path):
    """Those that the ACLs of the topology give: of someone else's topic no right to write. One that
    is taken away ends it, and is named.
    """
    with secured_broker(tmp_path) as secured:
        everywhere = {"bootstrap.servers": secured.plain[0], "log_level": 0}
        (tmp_path / "edge.key").write_bytes(KEY)
        (tmp_path / "edge.key").chmod(0o600)
        text = JSON.format(
            name="m", boot="BOOT", key="edge.key", session="6s", method="lpa", idle="2s", more=""
        )
        path = tmp_path / "m.yaml"
        path.write_text(text.replace('kafka: {bootstrap_servers: "BOOT"}\n', secured.block()))
        flow = load(path)
        admin.ensure(everywhere, [TopicSpec(flow.input.topic, 2)])
        secured.ready(path)
        configs = {
            side: {**client_config(flow, side), "log_level": 0} for side in ("edge", "collector")
        }
        assert check_rights(flow, flow.role("perturb"), configs) == []
        edge = [right for each in access(flow) if each.login == "edge" for right in each.rights]
        read = Right("topic", flow.input.topic, ("READ",))
        group = Right("group", "m-relay", ("READ",))
        write = Right("topic", flow.raw_topic, ("WRITE",))
        assert {each.operations for each in edge if each.name == flow.input.topic} == {
            ("READ", "DESCRIBE_CONFIGS")
        }
        slots = flow.input.ahead
        put(flow, everywhere, 0, *(event(slot) for slot in range(slots)))
        with Copier(flow, configs["edge"], configs["collector"]) as copier:
            until(lambda: left(flow, everywhere) == 0, LONG)
            until(lambda: ticks(flow, everywhere)[1] == [slots - 1], LONG)
        assert copied(flow, everywhere) == [list(range(slots)), []] and not copier.ended
        for right in (read, group, write):
            with secured.without("edge", right):
                with pytest.raises(ConfigurationError, match=f"{right.resource} {right.name}"):
                    check_rights(flow, flow.role("perturb"), configs)
                put(flow, everywhere, 0, event(0))
                with Copier(flow, configs["edge"], configs["collector"]) as copier:
                    until(lambda: copier.ended, LONG)
                (told,) = copier.ended
                assert isinstance(told, ConfigurationError) and right.name in str(told)
