"""Ten thousand planted values, good and bad ones, through workers that are scraped, killed with
a core dump, restarted and refused: none of them, nor the integer that a state holds of it, is in
any byte of what they leave anywhere.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from ldp_kafka.randomness import Ids
from ldp_kafka.records import Events, Tick
from ldp_kafka.runtime.kafka.changelog import read_key
from ldp_kafka.runtime.recovery.keys import place_of
from ldp_kafka.runtime.wire.codec import encode
from tests.broker.flow import KEY, SLOT, START, Flow
from tests.broker.forks import REPO
from tests.keys import OTHER

USERS, SLOTS, HIGH = 2500, 4, 1000.0
BAD = 100
WITH_CORES = ("sh", "-c", 'ulimit -c "$(ulimit -H -c)"; exec "$@"', "sh")
TABLES = (("perturb", "perturb"), ("collect", "collect"), ("collect", "merge"))


class Planted:
    """Values that nobody else has: in hundreds, to fifteen digits, each different. Metrics are full
    of digits: of ten thousand shorter values one would be in them by chance.
    """

    def __init__(self) -> None:
        rnd = random.Random(20)
        numbers = rnd.sample(range(10**13, 10**14), USERS * SLOTS + 3 * BAD)
        self.values = [(10 * number + rnd.randrange(1, 10)) / 1e12 for number in numbers]
        self.good = np.array(self.values[: USERS * SLOTS]).reshape(SLOTS, USERS)
        self.bad = self.values[USERS * SLOTS :]

    def patterns(self, bound: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Of each value in eight bytes: as a float, and as the integers around the one that its
        method works on, both ways round.
        """
        values = np.array(self.values)
        whole = bound(values)
        found = [values.view(np.uint64)]
        found += [(whole + step).view(np.uint64) for step in (-1, 0, 1)]
        whole = np.concatenate(found)
        return np.unique(np.concatenate([whole, whole.byteswap()]))

    def words(self) -> set[bytes]:
        """Of each value the digits, with and without its point."""
        digits = {repr(value).encode() for value in self.values}
        return digits | {word.replace(b".", b"") for word in digits}

    def rounded(self) -> set[bytes]:
        """The values to six places, cut and rounded."""
        return {
            f"{value + shift:.6f}".encode() for value in self.values for shift in (0.0, -0.5e-6)
        }


def hits(
    places: dict[str, bytes], planted: Planted, bound: Callable[[np.ndarray], np.ndarray]
) -> dict[str, int]:
    """How many of the patterns and words are in the bytes of each place, and how many numbers there
    begin as a rounded value.
    """
    patterns, words, rounded = planted.patterns(bound), planted.words(), planted.rounded()
    lengths = sorted({len(word) for word in words})
    found = {}
    for name, held in places.items():
        data = np.frombuffer(held, np.uint8)
        count = 0
        for start in range(8):
            usable = data[start : start + (len(data) - start) // 8 * 8]
            count += int(np.isin(usable.view(np.uint64), patterns).sum())
        for length in lengths:
            if len(data) >= length:
                windows = np.lib.stride_tricks.sliding_window_view(data, length)
                digits = np.isin(windows, np.frombuffer(b"0123456789.", np.uint8)).all(axis=1)
                count += sum(windows[at].tobytes() in words for at in np.flatnonzero(digits))
        count += sum(number[:10] in rounded for number in re.findall(rb"[0-9.]{10,}", held))
        found[name] = count
    return found


class Shell:
    """A worker as somebody starts it who wants core files, in a folder of its own."""

    def __init__(self, flow: Flow, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [*WITH_CORES, sys.executable, "-m", "ldp_kafka", "run", str(flow.path), *words],
            stdout=flow.log,
            stderr=flow.log,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(REPO)},
        )


def scraped(flow: Flow) -> bytes:
    """Metrics of all workers that say where theirs are."""
    found = b""
    for line in flow.log_path.read_text(errors="replace").splitlines():
        if "metrics at " in line:
            try:
                with urlopen(line.split("metrics at ")[1], timeout=5) as answer:
                    found += answer.read()
            except OSError:
                continue
    return found


def feed(flow: Flow, planted: Planted, slot: int) -> None:
    """A slot: batches, single events, and events that are no good."""
    rows = np.arange(USERS)
    for partition in (0, 1):
        mine = rows[rows % 2 == partition]
        for part in np.array_split(mine, 4):
            times = (START + slot) * SLOT + part
            users = Ids.of([f"u{user}" for user in part])
            events = Events(users, times.astype(np.int64), planted.good[slot][part])
            flow.put(partition, encode(events))
    flow.producer.flush(10)


def feed_bad(flow: Flow, planted: Planted) -> None:
    """Values as text, far outside the domain, in broken JSON, as the id of nobody."""
    when = START * SLOT
    for at in range(BAD):
        text, big, broken = planted.bad[3 * at : 3 * at + 3]
        for value in (
            {"user": "u1", "value": repr(text), "time": when},
            {"user": "u1", "value": [text], "time": when},
            {"user": "u1", "value": big, "time": repr(big)},
            {"user": {"a": big}, "value": 1.0, "time": when},
        ):
            flow.put(at % 2, json.dumps(value).encode())
        flow.put(at % 2, f'{{"user": "u1", "value": {broken!r}, "time": '.encode())
    flow.producer.flush(10)


def of_topic(flow: Flow, name: str) -> bytes:
    """Keys, values and headers of all that is in a topic."""
    return b"".join(
        (m.key() or b"") + (m.value() or b"") + b"".join(v or b"" for _, v in m.headers() or ())
        for m in flow.read(name)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="core files as Linux writes them")
def test_none_of_ten_thousand_values(kafka, tmp_path, prefix):
    planted = Planted()
    assert len(planted.values) > 10_000
    flow = Flow(
        kafka,
        tmp_path,
        f"{prefix}-leaves",
        method="pegasus_local",
        shape=f"domain: [0.0, {HIGH}]",
        statistics="per_user",
    )
    topology, folder = flow.topology, tmp_path / "cwd"
    folder.mkdir()
    with flow:
        flow.start("collect")
        worker = Shell(flow, folder, "--role", "perturb").process
        feed(flow, planted, 0)
        feed_bad(flow, planted)
        flow.until_acknowledged()
        metrics = scraped(flow)
        feed(flow, planted, 1)
        worker.send_signal(signal.SIGABRT)
        assert worker.wait(30) == -signal.SIGABRT
        worker = Shell(flow, folder, "--role", "perturb").process
        feed(flow, planted, 2)
        flow.until_acknowledged()
        metrics += scraped(flow)
        worker.terminate()
        assert worker.wait(30) == 0
        feed(flow, planted, 3)
        key = flow.path.with_suffix(".key")
        key.write_bytes(OTHER)
        assert Shell(flow, folder, "--role", "perturb").process.wait(30) == 1
        key.write_bytes(KEY)
        for number in (0, 1):
            flow.put(number, encode(Tick((START + SLOTS + 3) * SLOT)))
        flow.producer.flush(10)
        worker = Shell(flow, folder, "--role", "perturb").process
        flow.until_acknowledged()
        metrics += scraped(flow)
        worker.terminate()
        assert worker.wait(30) == 0

        assert b"ldp_dead_letters_total" in metrics
        places = {"metrics": metrics, "log": flow.log_path.read_bytes()}
        places |= {
            name: of_topic(flow, name)
            for name in (
                topology.dead_letters_topic,
                topology.collector_dead_letters_topic,
                *(topology.changelog(role, agent) for role, agent in TABLES),
            )
        }
        places |= {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert not [name for name in places if "core" in Path(name).name], "a core file"
        bound = topology.method.bound
        assert not any(found := hits(places, planted, bound).values()), found

        # what is looked for is what would be there: in what came in, and in the state under its
        # seal
        raw = of_topic(flow, topology.raw_topic)
        table = topology.changelog("perturb", "perturb")
        seal = flow.noise().seal
        opened = b"".join(
            seal.open(place_of(read_key(m.key())), m.value()) for m in flow.read(table) if m.value()
        )
        assert len(flow.read(topology.dead_letters_topic)) == 5 * BAD
        found = hits({"raw": raw, "state": opened}, planted, bound)
        assert found["raw"] > 10_000
        assert found["state"] > USERS


def test_a_process_that_nobody_hardens_leaves_a_core_file(tmp_path):
    """Else the test above could not fail: the same signal, the same limit, a command of ours and
    none.
    """
    pattern = Path("/proc/sys/kernel/core_pattern")
    if not pattern.exists() or pattern.read_text().strip() not in ("core", "core.%p"):
        pytest.skip("core files of this machine lie elsewhere")
    codes = {
        "plain": "import os; os.abort()",
        "ours": "import os; from ldp_kafka.cli import main; main(['--version']); os.abort()",
    }
    left = {}
    for name, code in codes.items():
        folder = tmp_path / name
        folder.mkdir()
        subprocess.run(
            [*WITH_CORES, sys.executable, "-c", code],
            cwd=folder,
            check=False,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(REPO)},
        )
        left[name] = len(list(folder.glob("core*")))
    if not resource.getrlimit(resource.RLIMIT_CORE)[1]:
        pytest.skip("this machine forbids core files")
    assert left == {"plain": 1, "ours": 0}
