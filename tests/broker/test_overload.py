"""Ten times more input than a worker can do, for 20 seconds (a minute where LDP_KAFKA_LONG=1): its
memory stays bounded, the lag it shows is the true one, nothing is lost, and it catches up.

The worker is stopped nearly all of the time meanwhile, so that a test can write ten times as much
as it folds, and the backlog it leaves can be worked off afterwards in the time of a test, by the
same worker with its feet free.
"""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest

from ldp_kafka.runtime.kafka import admin
from tests.broker.flow import SLOT, START, Flow
from tests.broker.watching import memory, until
from tests.depth import depth

USERS = 2000
# LEAST: events a second, or too few would wait to see them
SECONDS, TIMES, LEAST = depth(20, 60), 10, 30_000
RUNS, RESTS = 0.0125, 0.375  # seconds
# bytes: a worker may hold 10,000 messages until they are acknowledged, and Faust and librdkafka
# hold some thousands each in buffers
GROWTH = 48 * 2**20
# bytes at least that a message takes in a worker's memory: its value, the client's record of it,
# its offset and its time
A_MESSAGE = 220
# seconds that the lag shown may be old: it is asked for every five, by a worker that mostly stands
OLD = 8


class Input:
    """Single events of many users, slot by slot, into both partitions."""

    def __init__(self, flow):
        self.flow, self.count = flow, 0

    def put(self, n):
        for _ in range(n):
            t, user = divmod(self.count, USERS)
            event = {
                "user": f"u{user}",
                "value": float((7 * user + t) % 100),
                "time": (START + t) * SLOT + user,
            }
            self.flow.put(user % 2, json.dumps(event).encode())
            self.count += 1


@contextmanager
def mostly_stopped(process):
    """A worker that runs a thirtieth of the time."""
    done = threading.Event()

    def shake():
        while not done.is_set():
            process.send_signal(signal.SIGSTOP)
            time.sleep(RESTS)
            process.send_signal(signal.SIGCONT)
            time.sleep(RUNS)

    shaker = threading.Thread(target=shake)
    shaker.start()
    try:
        yield
    finally:
        done.set()
        shaker.join()
        process.send_signal(signal.SIGCONT)


def lag_shown(flow):
    """None where the worker has not been told yet."""
    port = re.search(r"perturb: metrics at http://127.0.0.1:(\d+)/", flow.log_path.read_text())[1]
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        found = re.search(r"^ldp_lag_messages{[^}]*} (\S+)$", answer.read().decode(), re.MULTILINE)
    return found and float(found[1])


class Look(NamedTuple):
    """What a broker said, and when."""

    time: float
    written: int
    acknowledged: int

    @property
    def left(self):
        return self.written - self.acknowledged


def look(flow):
    topology, config = flow.topology, {"bootstrap.servers": flow.boot}
    done = admin.committed(config, topology.group("perturb"), topology.raw_topic, range(2))
    ends = admin.extents(config, topology.raw_topic, range(2))
    return Look(
        time.monotonic(), sum(end for _, end in ends.values()), sum(n or 0 for n in done.values())
    )


def left(flow):
    """Messages that the group has not acknowledged."""
    return look(flow).left


def true_of(shown, looks):
    """Whether this many messages were left at some time of the last `OLD` seconds."""
    now = looks[-1]
    then = [each for each in looks if each.time <= now.time - OLD][-1:] or looks[:1]
    return then[0].written - now.acknowledged <= shown <= now.written - then[0].acknowledged


def drained(flow, limit):
    """Seconds until the group has acknowledged all."""
    begin = time.monotonic()
    while left(flow):
        assert time.monotonic() - begin < limit, f"{left(flow)} messages left after {limit} s"
        time.sleep(0.5)
    return time.monotonic() - begin


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_ten_times_too_much(kafka, tmp_path, prefix):
    with Flow(kafka, tmp_path, f"{prefix}-overload", session="20s", statistics="mean") as flow:
        worker = flow.start("perturb")
        events = Input(flow)
        events.put(20_000)
        assert flow.producer.flush(60) == 0  # else nothing may be left since nothing is there yet
        drained(flow, 120)
        # one that is stopped before it has asked once may not have an answer for a long time
        until(lambda: lag_shown(flow) is not None, 60)

        with mostly_stopped(worker):
            begin, before = time.monotonic(), left(flow)
            events.put(60_000)
            time.sleep(10)
            # what it can do now, events a second
            slow = (60_000 + before - left(flow)) / (time.monotonic() - begin)
            rate = max(TIMES * slow, LEAST)

            rest, largest, looks, told = memory(worker.pid), 0, [look(flow)], []
            begin, first = time.monotonic(), events.count
            while (now := time.monotonic() - begin) < SECONDS:
                events.put(int(rate * now) - (events.count - first))
                largest = max(largest, memory(worker.pid))
                if int(now) % 3 == 2:
                    shown = lag_shown(flow)
                    looks.append(look(flow))
                    told.append((shown, looks[:]))
                elif time.monotonic() - looks[-1].time > 0.5:
                    looks.append(look(flow))
                time.sleep(0.05)
            flow.producer.flush(30)
        sent = events.count - first
        assert sent >= 0.9 * rate * SECONDS, "the input was not as fast as it should have been"
        backlog = max(each.left for each in looks)
        assert backlog > 0.5 * sent, "the worker kept up: this was no overload"
        assert backlog * A_MESSAGE > 1.5 * GROWTH, (
            "too little waited to tell a worker that takes it all in from one that does not"
        )

        caught_up = drained(flow, 300)
        largest = max(largest, memory(worker.pid))
        assert largest - rest < GROWTH, f"{rest >> 20} MiB became {largest >> 20} MiB"
        for shown, looks in told:
            assert true_of(shown, looks), (shown, looks)
        # some of the times at least: the worker that tells it has little of the time
        assert len({shown for shown, _ in told}) > SECONDS / 10

        flow.start("collect")
        flow.finish(events.count // USERS)
        verdict = flow.settled(180)
        assert verdict.clean, verdict
        assert verdict.reports == events.count
        assert lag_shown(flow) == 0
        print(
            f"{slow:,.0f} events/s, {sent:,} sent in {SECONDS} s, {backlog:,} waited, caught up in"
            f" {caught_up:.0f} s; {rest >> 20} -> {largest >> 20} MiB"
        )
