"""``ldp-kafka replay``."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp_kafka.cli.columns import Columns, with_columns
from ldp_kafka.cli.options import FILE, as_json, example, load_topology, print_json

if TYPE_CHECKING:
    from ldp_kafka.topology import Topology

__all__ = ["replay"]


@click.command(epilog=example(
    "ldp-kafka replay data.csv -t meters.yaml --user-column m --value-column kwh --time-column ts",
    "ldp-kafka replay volume.csv --topology topology.yaml --slice 3000 --speed 3600",
    "ldp-kafka replay --generate lns --users 10000 --slots 100 --topology topology.yaml",
))  # fmt: skip
@click.argument("file", type=FILE, required=False)
@click.option(
    "--topology", "-t", type=FILE, required=True, help="The topology whose raw topic is written."
)
@with_columns
@click.option(
    "--slice",
    "slice_",
    type=click.IntRange(1),
    metavar="USERS",
    help="Cut the value column into so many users, one value a slot.",
)
@click.option(
    "--generate",
    type=click.Choice(["lns", "sin", "log"]),
    help="Binary streams of the LDP-IDS paper in place of a file.",
)
@click.option(
    "--users", type=click.IntRange(1), default=10_000, show_default=True, help="Of --generate."
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    help="Of --generate (default 800) and --slice (default: all there are).",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of --generate.")
@click.option(
    "--start",
    metavar="TIME",
    help=(
        "Time of the first slot (ISO 8601, UTC); default: as in the file, or so that the last slot"
        " has just ended."
    ),
)
@click.option(
    "--speed", type=float, help="Seconds of event time in one second; default: as fast as possible."
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    help=(
        "Events in one message: 1 is a JSON object, more an Arrow batch; default: by the topology's"
        " format."
    ),
)
@click.option(
    "--wait",
    metavar="DURATION",
    help="Wait so long, such as 60s, for a broker and a raw topic that are not there yet.",
)
@as_json
def replay(
    topology: Path,
    json_: bool,
    speed: float | None,
    batch: int | None,
    wait: str | None,
    columns: Columns,
    **what: Any,
) -> None:
    """Write recorded or generated values to a topology's raw topic, in the order of event time.

    FILE is CSV with one header line, in UTF-8, its cells parted by a comma, a semicolon, a tab or
    |, or Parquet. A row that cannot be read is named by its line. At the end every partition gets
    a tick, so that the last windows close. Where no release comes meanwhile, it says what the next
    one waits for, as `ldp-kafka status` does.
    """
    from ldp_kafka.errors import ConfigurationError
    from ldp_kafka.runtime.demo.show import progress_bar
    from ldp_kafka.runtime.kafka import setup
    from ldp_kafka.runtime.kafka.decisions import decided
    from ldp_kafka.runtime.replay import UNREAD_BYTES, Unread, messages, send
    from ldp_kafka.runtime.replay.send import check_ahead, check_past
    from ldp_kafka.runtime.status.watch import watching
    from ldp_kafka.topology.durations import parse_duration

    loaded = load_topology(topology)
    if loaded.flow.raw is None:
        raise ConfigurationError(
            f"{loaded.name} has no raw topic to replay into: its devices report by themselves"
            " (ldp_kafka.Client)"
        )
    source = _source(loaded, columns=columns, **what)
    check_ahead(loaded, source)
    check_past(loaded, source)
    addresses = _addresses(loaded, 0 if wait is None else parse_duration(wait))
    edge = setup.client_config(loaded, "edge", addresses[0])
    collector = setup.client_config(loaded, "collector", addresses[1])
    unread = Unread(loaded, edge, collector, UNREAD_BYTES) if _bounded(loaded) else None
    # a relay keeps the pace itself
    asked = loaded.flow.requests is not None and not loaded.input.relay
    paced = decided(loaded, collector) if asked else nullcontext()
    start = time.monotonic()
    with (
        watching(loaded, partial(click.echo, err=True), speed=speed or inf),
        paced as rounds,
        progress_bar("replay", source.events) as progress,
    ):
        sent = send(
            loaded,
            edge,
            messages(loaded, source, batch),
            speed=speed,
            unread=unread,
            decided=rounds,
            progress=progress,
        )
    seconds = time.monotonic() - start
    if json_:
        extent = {
            "users": len(source.users),
            "first_slot": source.first,
            "last_slot": source.last,
            "left_out": source.left_out,
        }
        print_json(
            {"topic": loaded.input.topic, **sent._asdict(), **extent, "seconds": round(seconds, 3)}
        )
        return
    click.echo(
        f"{sent.events:,} events of {len(source.users):,} users in slots {source.first} to"
        f" {source.last}: {sent.messages:,} messages to {loaded.input.topic} in {seconds:.1f} s"
    )
    if source.left_out:
        click.echo(
            f"{source.left_out:,} rows lack a user, a value or a time and were left out", err=True
        )
    if not loaded.input.create:
        click.echo(
            f"{loaded.input.topic} is someone else's topic and got no ticks: its last slots stay"
            " open until later events come",
            err=True,
        )


def _addresses(loaded: Topology, wait_ms: int) -> tuple[str, str]:
    """The bootstrap servers of both sides, once the topics are there that are written and looked
    at. BrokerError where one is not within so many milliseconds.
    """
    from ldp_kafka.errors import BrokerError
    from ldp_kafka.runtime.kafka import admin, setup

    needed = [("edge", loaded.input.topic, loaded.input.create)]
    if _bounded(loaded) and not loaded.curated:  # `run` makes the raw topic before it
        needed.append(("collector", loaded.reports_topic, True))
    until = time.monotonic() + wait_ms / 1000
    while True:
        try:
            found = setup.resolve(loaded)
            for (side, topic, ours), address in zip(needed, found, strict=False):
                config = setup.client_config(loaded, side, address)
                if admin.partitions_of(config, topic) is None:
                    raise BrokerError(
                        f"there is no topic {topic}: "
                        + (
                            "`ldp-kafka topics` or `ldp-kafka run` makes it"
                            if ours
                            else "its owner has to create it"
                        )
                    )
        except BrokerError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.2)
        else:
            return found


def _bounded(loaded: Topology) -> bool:
    """Whether a broker keeps everything in memory: then no more is sent than is read."""
    return loaded.edge_kafka.embedded or loaded.collector_kafka.embedded


def _source(
    loaded: Topology,
    file: Path | None,
    generate: str | None,
    slice_: int | None,
    start: str | None,
    columns: Columns,
    **what: Any,
) -> Any:
    """What `replay` was asked for, as a `Source`."""
    from ldp_kafka.runtime.replay import from_slots, read_file, recent_start
    from ldp_kafka.runtime.replay.files import read_slices

    if (file is None) == (generate is None):
        raise click.UsageError("give either FILE or --generate")
    start_ms = None if start is None else _time(start)
    if file is not None and slice_ is not None:
        return read_slices(
            loaded,
            file,
            slice_,
            columns["value"],
            slots=what["slots"],
            start_ms=start_ms,
            delimiter=columns["delimiter"],
            tell=columns["tell"],
        )
    if file is not None:
        return read_file(loaded, file, start_ms=start_ms, **columns)
    from ldp_kafka.evaluation import streams

    if slice_ is not None:
        raise click.UsageError("--slice cuts a FILE; --generate makes --users itself")
    slots, users, seed = what["slots"] or streams.SLOTS, what["users"], what["seed"]
    shares = (
        streams.lns(slots, seed=seed)
        if generate == "lns"
        else getattr(streams, str(generate))(slots)
    )
    begin = recent_start(loaded, slots) if start_ms is None else start_ms
    return from_slots(
        loaded, streams.binary(shares, users, seed=seed + 1), users, slots, start_ms=begin
    )


def _time(text: str) -> int:
    from ldp_kafka.accounting.words import instant

    try:
        return instant(text)
    except ValueError:
        raise click.BadParameter(
            "must be a time such as 2026-03-01T00:00:00Z", param_hint="--start"
        ) from None
