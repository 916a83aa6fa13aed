"""The demo's run: broker, key, topics, workers, replay, releases."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

import ldp_kafka
from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker, publish
from ldp_kafka.runtime.demo import show
from ldp_kafka.runtime.demo.plot import plot
from ldp_kafka.runtime.demo.result import Result, again, compare, largest_spent
from ldp_kafka.runtime.demo.streams import DEFAULTS, Given, crowd, made_up
from ldp_kafka.runtime.kafka import setup
from ldp_kafka.runtime.kafka.reader import reading
from ldp_kafka.runtime.keys import new_key, read_key
from ldp_kafka.runtime.replay import Raw, Unread, as_log, from_arrays, messages, recent_start, send
from ldp_kafka.topology import Topology, load

__all__ = ["run_demo", "shipped"]

_SECONDS = 8.0  # that the replay is stretched over, so that there is something to watch
_BATCH = 2048
_DAY = 86_400_000  # milliseconds: the made-up users live by the clock, from midnight
_PATIENCE = 120.0
_SAMPLE, _COLUMNS = 12, 3  # slots and categories in the table: what fits a terminal
_URL = re.compile(r"http://[0-9.]+:[0-9]+/metrics")


class _Played(NamedTuple):
    """The releases of a demo's run, the addresses of its metrics, and how long it took."""

    releases: dict[int, bytes]
    urls: list[str]
    seconds: float


def shipped(name: str) -> Path:
    """The file of a shipped topology: in an installed package, or in the checkout.

    Raises
    ------
    ConfigurationError : there is none

    """
    package = Path(ldp_kafka.__file__).parent
    for folder in (package / "_topologies", package.parent / "topologies"):
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    raise ConfigurationError(f"this installation has no topology {name}.yaml")


def run_demo(
    name: str,
    given: Given | None = None,
    *,
    users: int | None,
    slots: int | None,
    output: Path,
    keep: bool = False,
    json_: bool = False,
) -> int:
    """Run a shipped topology and compare what it releases with the truth.

    Parameters
    ----------
    name
        of the topology
    given
        streams in place of made-up ones
    users, slots
        how many, of both; default: the demo's own, or all there are
    output
        folder for the picture and the releases
    keep
        keep the workers running until Ctrl-C
    json_
        print one JSON document in place of text

    """
    say: Callable[[str], None] = (lambda text: click.echo(text, err=True)) if json_ else click.echo
    with (
        tempfile.TemporaryDirectory(prefix="ldp-kafka-demo-") as folder,
        _environment(Path(folder)),
    ):
        key_file = Path(folder) / "edge.key"
        new_key(key_file)
        topology = load(shipped(name))
        default = DEFAULTS[name]
        if given is None:
            given = Given(
                made_up(topology, users or default.users, slots or default.slots),
                default.title,
                default.unit,
            )
        values = given.values[:users, :slots]
        source = from_arrays(
            topology, values, recent_start(topology, values.shape[1]) // _DAY * _DAY
        )
        raw = list(messages(topology, source, _BATCH))
        say(
            f"{topology.name}: {len(source.users):,} users, {values.shape[1]} slots of"
            f" {topology.input.slot_ms // 60_000} minutes, values from gateways in batches"
        )
        say(f"guarantee: {topology.guarantee.describe(linkable=topology.per_user)}")
        output.mkdir(parents=True, exist_ok=True)
        log = output / "workers.log"
        played = _play(topology, raw, source.first, values.shape[1], log, keep=keep, say=say)
        key = read_key(key_file)
        logs = as_log(topology, raw)
        spent = largest_spent(topology, key, logs)
        equal = again(topology, key, logs, played.releases)
    releases = {slot: json.loads(text) for slot, text in played.releases.items()}
    (output / "releases.jsonl").write_bytes(
        b"".join(played.releases[slot] + b"\n" for slot in sorted(played.releases))
    )
    result = compare(releases, crowd(topology, values), source.first)
    names = _names(topology)
    picture = output / f"{name}.png"
    caption = (
        f"{len(source.users):,} users. Guarantee:"
        f" {topology.guarantee.describe(linkable=topology.per_user)}. Largest epsilon spent in any"
        f" user's window: {spent:g} of {topology.privacy.epsilon:g}."
    )
    starts = [topology.slot_start(int(slot)) for slot in result.slots]
    drawn = plot(
        picture, result, starts, title=given.title, unit=given.unit, caption=caption, panels=names
    )
    summary = {
        "topology": topology.name,
        "users": len(source.users),
        "slots": len(result.slots),
        "seconds": round(played.seconds, 1),
        "covered": int(result.inside.sum()),
        "intervals": int(result.inside.size),
        "epsilon_spent": spent,
        "epsilon": topology.privacy.epsilon,
        "equal_without_kafka": equal,
        "guarantee": topology.guarantee.as_json(),
        "plot": str(picture) if drawn else None,
        "releases": str(output / "releases.jsonl"),
    }
    if json_:
        click.echo(json.dumps(summary, indent=2))
    else:
        _report(topology, result, starts, summary, given=given, names=names)
    return 0 if equal else 1


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """What the topology reads from the environment, for this process and the workers; put back at
    the end. A user's own broker is not meant here.
    """
    own = {
        "LDP_KAFKA_BOOTSTRAP": "embedded",
        "LDP_KAFKA_EDGE_KEY_FILE": str(folder / "edge.key"),
        "XDG_RUNTIME_DIR": str(folder),
    }
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _play(
    topology: Topology,
    raw: list[Raw],
    first: int,
    slots: int,
    log: Path,
    *,
    keep: bool,
    say: Callable[[str], None],
) -> _Played:
    """Everything that needs the broker."""
    with EmbeddedBroker() as broker, log.open("wb") as written:
        publish(topology.name, broker)
        setup.prepare(topology, broker)
        words = [sys.executable, "-m", "ldp_kafka", "run", topology.file]
        workers = subprocess.Popen(  # noqa: S603
            words, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT
        )
        try:
            with show.waiting("workers start"):
                urls = _addresses(workers, log)
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
    return _Played(releases, urls, seconds)


def _addresses(workers: subprocess.Popen[bytes], log: Path) -> list[str]:
    """Where both roles show their metrics: they say so when they start."""
    end = time.monotonic() + _PATIENCE
    while len(found := _URL.findall(log.read_text(errors="replace"))) < 2:
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


def _names(topology: Topology) -> tuple[str, ...]:
    privacy = topology.privacy
    if privacy.categories is None:
        return ()
    return privacy.category_names or tuple(str(number) for number in range(privacy.categories))


def _report(
    topology: Topology,
    result: Result,
    starts: list[int],
    summary: dict[str, Any],
    *,
    given: Given,
    names: tuple[str, ...],
) -> None:
    sample = np.unique(np.linspace(0, len(starts) - 1, _SAMPLE).round().astype(int)).tolist()
    when = [time.strftime("%a %H:%M", time.gmtime(start / 1000)) for start in starts]
    if names:
        shown = np.sort(
            np.argsort(result.truth.std(axis=0))[::-1][:_COLUMNS]
        ).tolist()  # those in which there is something to see
        head = ("slot (UTC)", *(names[c] for c in shown))
        rows = [
            (
                when[t],
                *(
                    f"{result.truth[t, c]:.2f}: {result.released[t, c]:.2f} ±"
                    f" {result.half[t, c]:.2f}"
                    for c in shown
                ),
            )
            for t in sample
        ]
        what = f"{len(shown)} of {len(names)} categories as truth: released ± 95 %"
    else:
        head = ("slot (UTC)", "truth", "released", "± 95 %", "covered")
        cells = zip(result.truth, result.released, result.half, result.inside, strict=True)
        lines = [
            (f"{truth:,.0f}", f"{released:,.0f}", f"{half:,.0f}", "yes" if inside else "no")
            for truth, released, half, inside in cells
        ]
        rows = [(when[t], *lines[t]) for t in sample]
        what = given.unit
    click.echo(f"\n{given.title}, {len(sample)} of {len(starts)} slots; {what}")
    show.release_table(head, rows)
    click.echo()
    click.echo(
        f"coverage:    {summary['covered']} of {summary['intervals']} true values lie inside their"
        " 95 % interval"
    )
    click.echo(
        f"privacy:     largest epsilon spent by any user in {topology.method.run} slots:"
        f" {summary['epsilon_spent']:g} of {summary['epsilon']:g}"
    )
    click.echo(
        "replay-safe: computed again without Kafka, the releases are"
        f" {'the same, byte for byte' if summary['equal_without_kafka'] else 'NOT the same'}"
    )
    click.echo(f"plot:        {summary['plot'] or 'none (pip install ldp-kafka[plots])'}")
    click.echo(f"releases:    {summary['releases']}")
