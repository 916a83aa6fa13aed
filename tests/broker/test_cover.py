"""Presence is hidden on a real broker: workers' ticks close slots, and with each of them every user
reports, through a kill; what comes out is what `runtime.local` says of the raw log as it lies.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events
from ldp_kafka.runtime.wire.codec import encode
from ldp_kafka.runtime.wire.reports import read_reports
from tests.broker.flow import Flow
from tests.broker.watching import until

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {boot}}}
input: {{partitions: {partitions}, format: json, slot: 2s, lateness: 0}}
privacy: {{method: {method}, {shape}, cover: true, epsilon: 4.0, window: 4}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime: {{snapshot_messages: 60, snapshot_seconds: 0.5, shards: 4, session_timeout: {session}}}
"""
METHODS = {
    "sw_direct": ("domain: [0.0, 100.0]", "mean"),
    "sampling": ("segment: 2, domain: [0.0, 100.0]", "mean"),
    "lpu": ("categories: 3", "frequencies"),
}
USERS, SLOT = 12, 2000
HEARD = {0: range(USERS), 1: range(0, USERS, 2), 2: range(0), 3: range(1), 4: range(0)}
"""Who has an event in each of the first slots; later nobody does."""


def has_tick(log):
    return any(b'"tick"' in each.value for each in log)


def told(flow):
    """{slot: how many reports}, each id once."""
    found = {}
    for message in flow.read(flow.topology.reports_topic):
        made = read_reports(message.value())
        found |= {} if made is None else {one.id: one.slot for one in made.singles()}
    return Counter(found.values())


def test_all_users_report_in_each_slot(kafka, tmp_path, prefix):
    flows = [
        Flow(
            kafka,
            tmp_path,
            f"{prefix}-{name}",
            method=name,
            shape=shape,
            statistics=statistic,
            text=TEXT,
        )
        for name, (shape, statistic) in METHODS.items()
    ]
    try:
        for flow in flows:
            flow.start("perturb")
            flow.start("collect")
        for flow in flows:
            until(lambda flow=flow: all(map(has_tick, flow.raw())), 60)
        first = int(time.time() * 1000) // SLOT + 1
        for slot, heard in HEARD.items():
            time.sleep(max(0.0, ((first + slot) * SLOT + 200) / 1000 - time.time()))
            for flow in flows:
                for user in heard:
                    now = np.array([int(time.time() * 1000)])
                    value = (
                        np.array([user % 3]) if flow.topology.privacy.categories else 9.0 + now * 0
                    )
                    event = Events(Ids.of([f"u{user}"]), now, value)
                    flow.put(user % 2, encode(event))
                flow.producer.flush(10)
                if slot == 2:
                    flow.start(flow.kill(0))
        slots = range(first, first + 10)
        for flow in flows:
            method = flow.topology.method
            if method.name == "lpu":  # each user in one slot of a window
                until(lambda flow=flow: sum(told(flow)[at] for at in slots[4:8]) == USERS, 90)
            else:
                due = [at for at in slots if (at + 1) % method.stride == 0]
                until(lambda flow=flow, due=due: all(told(flow)[at] == USERS for at in due), 90)
            assert max(told(flow).values()) <= USERS
            assert min(told(flow)) >= first
        for flow in flows:
            flow.stop()
            verdict = flow.judge(flow.expected())
            wrong = {"second reports", "different reports", "two truths", "different releases"}
            assert not verdict.wrong.keys() & wrong and not verdict.exits, verdict
            assert verdict.events == sum(map(len, HEARD.values())) and verdict.reports >= 2 * USERS
    finally:
        for flow in flows:
            flow.close()
