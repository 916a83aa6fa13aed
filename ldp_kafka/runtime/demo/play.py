"""The demo's run: broker, topics, workers, replay, releases."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ldp_kafka.errors import BrokerError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.brokers.run_files import publish
from ldp_kafka.runtime.demo import show
from ldp_kafka.runtime.kafka import setup
from ldp_kafka.runtime.kafka.deployment import read_deployment
from ldp_kafka.runtime.kafka.reader import reading
from ldp_kafka.runtime.replay import Raw, Unread, send
from ldp_kafka.topology import Topology

__all__ = ["Played", "play"]

_SECONDS = 8.0  # that the replay is stretched over, so that there is something to watch
_PATIENCE = 120.0
_URL = re.compile(r"http://[0-9.]+:[0-9]+/metrics")


class Played(NamedTuple):
    """The releases of a demo's run, the addresses of its metrics, how long it took, and what its
    noise was bound to.
    """

    releases: dict[int, bytes]
    urls: list[str]
    seconds: float
    deployment: str


def play(
    topology: Topology,
    raw: list[Raw],
    first: int,
    slots: int,
    log: Path,
    *,
    keep: bool,
    say: Callable[[str], None],
) -> Played:
    """Everything that needs the broker."""
    with EmbeddedBroker() as broker, log.open("wb") as written:
        publish(topology.name, broker)
        setup.prepare(topology, broker)
        deployment = read_deployment(topology, {"bootstrap.servers": broker.bootstrap_servers})
        words = [sys.executable, "-m", "ldp_kafka", "run", topology.file]
        workers = subprocess.Popen(  # noqa: S603
            words, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT
        )
        try:
            with show.waiting("workers start"):
                urls = _addresses(workers, log, len(topology.roles))
            for url in urls:
                say(f"metrics: {url}")
            begin = time.monotonic()
            releases = _follow(
                topology,
                broker.bootstrap_servers,
                raw,
                range(first, first + slots),
                workers=workers,
                log=log,
            )
            seconds = time.monotonic() - begin
            if keep:
                say("the workers go on until Ctrl-C")
                _until_interrupted(workers)
        finally:
            workers.send_signal(signal.SIGTERM)
            try:
                workers.wait(30)
            except subprocess.TimeoutExpired:
                workers.kill()
                workers.wait()
    return Played(releases, urls, seconds, deployment)


def _addresses(workers: subprocess.Popen[bytes], log: Path, roles: int) -> list[str]:
    """Where so many roles show their metrics: each says so when it starts."""
    end = time.monotonic() + _PATIENCE
    while len(found := _URL.findall(log.read_text(errors="replace"))) < roles:
        _alive(workers, log)
        if time.monotonic() > end:
            raise BrokerError(
                f"the workers did not start within {_PATIENCE:g} s; their log is {log}"
            )
        time.sleep(0.1)
    return list(dict.fromkeys(found))


def _follow(
    topology: Topology,
    address: str,
    raw: list[Raw],
    slots: range,
    *,
    workers: subprocess.Popen[bytes],
    log: Path,
) -> dict[int, bytes]:
    """Replay in a thread, and collect the release of every slot."""
    config = {"bootstrap.servers": address}
    done, failed = [0], list[BaseException]()
    speed = len(slots) * topology.input.slot_ms / 1000 / _SECONDS

    def replay() -> None:
        try:
            send(
                topology,
                config,
                raw,
                speed=speed,
                unread=Unread(topology, config, config),
                progress=lambda events: done.__setitem__(0, events),
            )
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            failed.append(error)

    thread = threading.Thread(target=replay, daemon=True, name="replay")
    releases: dict[int, bytes] = {}
    starts = dict.fromkeys(range(topology.input.partitions), 0)
    fast = {"fetch.wait.max.ms": 50}
    bars = [
        ("events replayed", sum(message.events for message in raw)),
        ("slots released", len(slots)),
    ]
    with (
        reading(config, topology.releases_topic, starts, **fast) as consumer,
        show.bars(bars) as update,
    ):
        thread.start()
        since = time.monotonic()
        while len(releases) < len(slots):
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    slot = json.loads(message.value())["slot"]
                    releases.setdefault(slot, message.value())
                    since = time.monotonic()
            update(0, done[0])
            update(1, len(releases))
            if failed:
                raise failed[0]
            _alive(workers, log)
            if time.monotonic() - since > _PATIENCE:
                raise BrokerError(f"no release for {_PATIENCE:g} s; the workers' log is {log}")
    thread.join(30)
    return {slot: text for slot, text in releases.items() if slot in slots}


def _alive(workers: subprocess.Popen[bytes], log: Path) -> None:
    if (code := workers.poll()) is not None:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
        raise BrokerError(f"the workers ended with exit code {code}; the end of {log}:\n{end}")


def _until_interrupted(workers: subprocess.Popen[bytes]) -> None:
    try:
        workers.wait()
    except KeyboardInterrupt:
        return
