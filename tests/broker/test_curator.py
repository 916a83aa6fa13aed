"""A curator on a real broker: what it releases is what `runtime.local` says of the raw log as it
lies, byte for byte, each slot of a stream once, whatever became of its workers.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import defaultdict
from urllib.request import urlopen

import numpy as np
import pytest
from faust import App

from ldp_kafka.accounting.words import moment
from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events
from ldp_kafka.runtime import roles
from ldp_kafka.runtime.kafka.changelog import compacted
from ldp_kafka.runtime.partitioning import partitions_of
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.wire.codec import encode
from tests.broker.flow import SLOT, START, Flow, users_of
from tests.broker.forks import Life
from tests.broker.test_no_value_leaves import Planted, hits, of_topic
from tests.broker.test_state_tools import put_back, said
from tests.broker.watching import until
from tests.keys import OTHER

TEXT = """
topology: {name}
kafka: {{bootstrap_servers: {boot}}}
input: {{partitions: {partitions}, format: json, slot: 60s, lateness: 1, closing: events,
  {more}}}
privacy:
  {{trust: curator, level: event, method: {method}, epsilon: 4.0, {shape}}}
output: {{statistics: [{statistics}]}}
edge: {{key_file: {key}}}
runtime:
  {{snapshot_messages: 60, snapshot_seconds: 0.5, shards: 4, session_timeout: {session}}}
"""
STREAMS, DELAY = 40, 4
ROOT = "delta: 1.0e-5, bands: 6"
CASES = [
    ("segment_mean", "batch", "first"),
    ("discontin_group", "sliding", "mean"),
    ("pegasus_delay", "sliding", "first"),
    ("contin_group", "batch", "sum"),
    ("matrix", "", "sum"),
]
IDLE = "idle: 1s"


def flow_of(
    kafka, tmp_path, prefix, method, setting, per_slot="first", partitions=4, more="", text=TEXT
):
    windows = f"delay: {DELAY}, setting: {setting}"
    return Flow(
        kafka,
        tmp_path,
        prefix,
        method=method,
        shape=f"{windows if setting else ROOT}, domain: [0.0, 1000.0]",
        statistics="per_stream",
        partitions=partitions,
        text=text,
        more=f"per_slot: {per_slot}{more and ', '}{more}",
    )


def changelog(flow: Flow) -> str:
    return flow.topology.changelog("curate", "curate")


def until_folded(flow: Flow) -> None:
    """Until the curator has acknowledged its whole log."""
    flow.until_acknowledged()


def scraped(flow: Flow) -> str:
    """The metrics of the worker that was started last."""
    place = re.findall(r"metrics at (\S+)", flow.log_path.read_text(errors="replace"))[-1]
    with urlopen(place, timeout=5) as answer:
        return answer.read().decode()


def shown(metrics: str, name: str) -> float:
    """The value of a metric without labels of its own."""
    [found] = re.findall(rf"^{name}{{[^}}]*}} (\S+)$", metrics, re.MULTILINE)
    return float(found)


def judged(flow: Flow, least: int, limit: float = 90.0):
    expected = flow.expected()
    flow.wait(expected, limit)
    verdict = flow.judge(expected)
    assert verdict.clean and verdict.releases > least, verdict
    assert not verdict.exits, "no worker ended by itself"
    return expected


@pytest.mark.parametrize(("method", "setting", "per_slot"), CASES, ids=map("-".join, CASES))
def test_windows_through_crashes(kafka, tmp_path, prefix, method, setting, per_slot):
    """Ten streams a partition, two partitions a worker. One worker dies half way and comes back.
    Then all die with windows open, and what comes next is a tick alone: all that is released of
    these windows was in the changelog.
    """
    flow, rnd = flow_of(kafka, tmp_path, prefix, method, setting, per_slot), random.Random(3)
    with flow:
        flow.start("curate"), flow.start("curate")
        for t in range(20):
            flow.slot(rnd, t, STREAMS, late=0.2)
            time.sleep(0.2)
            if t == 9:
                flow.start(flow.kill(0))
        until_folded(flow)
        known = {record.key for record in flow.expected().releases}
        for _ in range(2):
            flow.kill(0)
        flow.finish(20)
        flow.start("curate"), flow.start("curate")
        expected = judged(flow, 10 * STREAMS)
        flow.stop()
    last = {record.key for record in expected.releases} - known
    assert len(last) > STREAMS, "no window was open when the workers died"
    assert expected.counts["late"] > 5 and expected.counts["events"] > 10 * STREAMS
    assert {record.partition for record in expected.releases} == {0, 1, 2, 3}


def test_a_kill_in_the_middle_of_a_sliding_window(kafka, tmp_path, prefix):
    """The panes of open slots lie in the changelog as Faust's codec of a windowed table reads them,
    one window a slot. All workers are killed then, and nothing is lost or released twice.
    """
    flow, rnd = flow_of(kafka, tmp_path, prefix, "naive", "sliding", "mean"), random.Random(5)
    app = App("reader", store="memory://", env={}, web_enabled=False)
    table = app.Table("curate", key_type=str, value_type=bytes, partitions=4)
    table.tumbling(1)

    def panes() -> dict[int, set[tuple[str, tuple[float, float]]]]:
        """By partition the keys of panes that the changelog holds."""
        held: dict[int, dict[object, bytes | None]] = defaultdict(dict)
        for each in flow.read(changelog(flow)):
            read = app.serializers.loads_key(str, each.key(), serializer=table.key_serializer)
            held[each.partition()][table._to_key(read)] = each.value()
        return {
            number: {key for key, value in found.items() if value and isinstance(key, tuple)}
            for number, found in held.items()
        }

    with flow:
        flow.start("curate"), flow.start("curate")
        for t in range(8):
            flow.slot(rnd, t, STREAMS)
        until_folded(flow)
        open_ = panes()
        for _ in range(2):
            flow.kill(0)
        assert sorted(open_) == [0, 1, 2, 3]
        for number, keys in open_.items():
            ranges = {found for _, found in keys}
            assert {int(name.split("/")[0]) for name, _ in keys} == {number}
            assert ranges and all([found] == table.window.ranges(found[0]) for found in ranges)
            assert {int(slot) - START for slot, _ in ranges} <= {5, 6, 7}
        flow.start("curate"), flow.start("curate")
        for t in range(8, 14):
            flow.slot(rnd, t, STREAMS)
        flow.finish(14)
        judged(flow, 10 * STREAMS)
        until_folded(flow)
        until(lambda: not any(panes().values()), 30)  # what has closed was deleted
        flow.stop()


def test_an_idle_partition_and_the_metrics(kafka, tmp_path, prefix):
    """One worker, once through. A partition that gets nothing is ticked for by its owner, so that
    its windows close too; and what the worker counts is what the fold counts.
    """
    flow = flow_of(kafka, tmp_path, prefix, "segment_mean", "batch", partitions=2, more=IDLE)
    rnd, topic = random.Random(5), flow.topology.releases_topic
    with flow:
        flow.start("curate")
        for t in range(12):
            flow.slot(rnd, t, STREAMS, idle=range(3, 100), late=0.2, tick=False)
            time.sleep(0.2)
        until(lambda: any(m.partition() == 1 for m in flow.read(topic)))
        assert any(b'"tick"' in message.value for message in flow.raw()[1])
        until_folded(flow)
        assert shown(scraped(flow), "ldp_open_slots") == open_slots(flow) > 0
        flow.finish(12)
        expected = judged(flow, 2 * STREAMS)
        metrics = scraped(flow)
        flow.stop()
    for name in ("events", "late", "duplicates", "clamped", "windows", "releases"):
        assert shown(metrics, f"ldp_{name}_total") == expected.counts[name], name
    assert expected.counts["late"] > 0 and expected.counts["windows"] > 2 * STREAMS
    assert shown(metrics, "ldp_open_slots") == 0


def test_slots_close_by_the_clock_of_its_workers(kafka, tmp_path, prefix):
    """No event of a later slot and no tick of a producer is there: a worker's ticks close the slots
    of all partitions, through a kill. An event ahead makes nothing late, and a stream that never
    has an event is 0 in each slot since the start.
    """
    names, slot_ms = [f"u{at}" for at in range(12)], 2000
    start = int(time.time() * 1000) // slot_ms * slot_ms
    more = f"streams: [{', '.join(names)}], start: '{moment(start)}'"
    text = TEXT.replace("slot: 60s", "slot: 2s").replace(
        "closing: events", "closing: ticks, partitioning: murmur2"
    )
    flow = flow_of(kafka, tmp_path, prefix, "naive", "sliding", "sum", 2, more=more, text=text)
    home, topic = partitions_of(names, 2).tolist(), flow.topology.releases_topic
    first = start // slot_ms

    def told() -> set[tuple[str, int]]:
        bodies = [json.loads(each.value()) for each in flow.read(topic)]
        return {(one["user"], one["slot"] - first) for one in bodies if "user" in one}

    with flow:
        flow.start("curate")
        for turn in range(8):
            now = int(time.time() * 1000)
            for at, name in enumerate(names[:-1]):
                ahead = 3 * slot_ms if at == 0 else 0
                times = np.array([now + ahead])
                flow.put(home[at], encode(Events(Ids.of([name]), times, np.array([1.0 + at]))))
            flow.producer.flush(10)
            time.sleep(0.5)
            if turn == 4:
                flow.start(flow.kill(0))
        last = int(time.time() * 1000) // slot_ms - first
        until(lambda: {slot for _, slot in told()} >= set(range(last + 1)), 60)
        flow.stop()
        verdict, expected = flow.judge(flow.expected()), flow.expected()
        found = told()
    assert not verdict.wrong.keys() & {"different releases", "second releases"}, verdict
    assert not verdict.exits, verdict
    assert {(name, slot) for name in names for slot in range(last + 1)} <= found
    assert min(slot for _, slot in found) == 0
    assert expected.counts["events"] == 8 * 11 and not expected.counts.get("late")


def open_slots(flow: Flow) -> int:
    """Of the partition that has most, by the straight fold."""
    agent, most = flow.topology.flow.agent("curate"), []
    for number, log in enumerate(flow.raw()):
        stage = roles.make(flow.topology, agent, number, flow.noise())
        most.append(stage.fold(stage.fresh(), log).gauges["open_slots"])
    return int(max(most))


def test_no_value_leaves_the_curator(kafka, tmp_path, prefix):
    """Ten thousand planted values through workers that are killed, halt over another key and come
    back: none of them, nor the integer that a state holds of it, is in any byte of what they leave,
    but for the releases.
    """
    planted, partitions = Planted(), 2
    flow = flow_of(kafka, tmp_path, prefix, "contin_group", "batch", "mean", partitions)
    topology, values = flow.topology, planted.good.ravel()
    parts = np.array_split(values, 8)
    key = flow.path.with_suffix(".key")
    right = key.read_bytes()
    with flow:
        flow.start("curate")
        for t, part in enumerate(parts):
            for number, mine in enumerate(np.array_split(part, partitions)):
                users = users_of(topology, number, partitions * len(mine), f"s{number}.")
                flow.put(
                    number,
                    encode(Events(Ids.of(users), (START + t) * SLOT + np.arange(len(mine)), mine)),
                )
            for bad in planted.bad[20 * t : 20 * t + 20]:
                flow.put(
                    0,
                    json.dumps(
                        {"user": "s1", "value": f"{bad:.6f}", "time": START * SLOT}
                    ).encode(),
                )
            flow.producer.flush(10)
            if t == 3:
                until_folded(flow)
                metrics = scraped(flow)
                flow.kill(0)
                key.write_bytes(OTHER)
                process = flow.start("curate")
                assert process.wait(60) == 1
                flow.workers.clear()
                key.write_bytes(right)
                flow.start("curate")
        until_folded(flow)
        opened = b"".join(
            flow.noise().seal.open(place_of(name), value)
            for name, value in compacted({"bootstrap.servers": kafka}, changelog(flow)).items()
        )
        flow.finish(len(parts))
        judged(flow, 1000)
        metrics += scraped(flow)
        flow.stop()
        places = {
            name: of_topic(flow, name) for name in (topology.dead_letters_topic, changelog(flow))
        }
        raw = of_topic(flow, topology.raw_topic)
        buried = len(flow.read(topology.dead_letters_topic))
    places |= {"metrics": metrics.encode(), "log": flow.log_path.read_bytes()}
    bound = topology.windowed.bound
    assert not any(found := hits(places, planted, bound).values()), found
    assert buried == 20 * len(parts)
    found = hits({"raw": raw, "state": opened}, planted, bound)
    assert found["raw"] > 10_000 and found["state"] > 1000, found


def test_the_ways_out_of_a_curator(kafka, tmp_path, prefix, capsys):
    """An old changelog, which the worker halts over, and `state rewind`; a new key between two
    slots, with windows open that have slots under both; and in the end everything is in order.
    """
    flow, rnd = flow_of(kafka, tmp_path, prefix, "segment_mean", "sliding"), random.Random(8)
    path, config = str(flow.path), {"bootstrap.servers": kafka}
    ask = ("state", "rewind", path, "--role", "curate")
    with flow:
        flow.start("curate")
        for t in range(7):
            flow.slot(rnd, t, STREAMS)
        until_folded(flow)
        code, out, err = said(capsys, "state", "verify", path)
        assert code == 0, out + err
        old = compacted(config, changelog(flow))
        for t in range(7, 12):
            flow.slot(rnd, t, STREAMS)
        until_folded(flow)
        code, _, err = said(capsys, "key", "rotate", path, "--yes")
        assert code == 1 and "has 1 members: stop its workers first" in err
        flow.stop()
        put_back(flow, changelog(flow), old)
        code, out, _ = said(capsys, "state", "verify", path)
        assert code == 1 and out.count(": current: ") == 4, out
        flow.slot(rnd, 12, STREAMS)
        process = flow.start("curate")
        assert process.wait(60) == 1
        flow.workers.clear()
        assert "`ldp-kafka state rewind`" in flow.log_path.read_text()
        code, out, err = said(capsys, *ask)
        assert code == 0 and "nothing was done" in out, err
        code, out, err = said(capsys, *ask, "--yes")
        assert code == 0 and out.count("went back") == 4, err
        code, out, err = said(capsys, "state", "verify", path)
        assert code == 0, out + err

        code, out, err = said(capsys, "key", "rotate", path, "--yes", "--json")
        assert code == 0, err
        assert json.loads(out)["begins"] == moment((START + 13) * SLOT)
        code, out, err = said(capsys, "state", "verify", path)
        assert code == 0 and f"{STREAMS} users" in out, out + err
        flow.start("curate"), flow.start("curate")
        for t in range(13, 20):
            flow.slot(rnd, t, STREAMS)
        flow.finish(20)
        judged(flow, 10 * STREAMS)
        until_folded(flow)
        code, out, _ = said(capsys, "state", "inspect", path, "--json")
        parts = json.loads(out)["partitions"]
        assert code == 0 and sum(part["users"] for part in parts) == STREAMS
        assert {part["slots"] for part in parts} == {0}
        assert [part["violations"] for part in parts] == [[]] * len(parts)
        flow.stop()


def test_commands_for_a_curator(kafka, tmp_path, prefix, capsys):
    """What has nothing to look at says why; the others do what they do elsewhere."""
    flow = flow_of(kafka, tmp_path, prefix, "discontin_group", "batch", partitions=2)
    path, key = str(flow.path), str(flow.path.with_suffix(".key"))
    why = "its curator sees values, and releases them"
    csv = tmp_path / "values.csv"
    rnd = random.Random(2)
    rows = [
        f"s{at},{rnd.uniform(0, 1000):.3f},{(START + t) * SLOT}"
        for t in range(10)
        for at in range(9)
    ]
    csv.write_text("\n".join(["user,value,time", *rows]))
    with flow:
        for words in (
            ("validate", path),
            ("plan", path),
            ("topics", path),
            ("topics", path, "--acls", "--principal", "edge=User:a"),
        ):
            assert said(capsys, *words)[0] == 0, words
        for words in (
            ("prove-once", path),
            ("prove-once", path, "--key-file", key),
            ("run", path, "--role", "perturb"),
            ("run", path, "--role", "collect"),
            ("state", "verify", path, "--role", "collect"),
            ("state", "rewind", path, "--role", "perturb"),
        ):
            code, _, err = said(capsys, *words)
            assert code == 2 and why in err, (words, err)
        assert said(capsys, "state", "verify", path)[0] == 0  # of nothing
        code, out, err = said(capsys, "replay", str(csv), "-t", path, "--json")
        assert code == 0 and json.loads(out)["events"] == 90, err
        process = Life(["run", path, "--until-idle", "3s"], flow.log_path)
        assert process.wait(120) == 0
        expected = judged(flow, 60)
        assert expected.counts["events"] == 90
