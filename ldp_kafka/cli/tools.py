"""Commands beside a topology: demo, key, broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ldp_kafka.cli.options import FAILED, FILE, FOLDER, as_json, example, load_topology, print_json
from ldp_kafka.errors import ConfigurationError

__all__ = ["broker", "demo", "key"]


@click.command(
    epilog=example(
        "ldp-kafka demo",
        "ldp-kafka demo app-usage --users 4000 --slots 60 --output out",
        "ldp-kafka demo --keep      # then look at the metrics",
    )
)
@click.argument("name", default="smart-meters-mean")
@click.option("--users", type=click.IntRange(10, 10_000), help="How many streams.  [default: 3000]")
@click.option("--slots", type=click.IntRange(4, 2000), help="How many slots.  [default: 48]")
@click.option(
    "--input",
    "kind",
    type=click.Choice(["synthetic", "volume"]),
    default="synthetic",
    show_default=True,
    help="volume: days of a traffic counter, from LDP_KAFKA_DATA.",
)
@click.option(
    "--output",
    type=FOLDER,
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the plot and the releases.",
)
@click.option(
    "--keep", is_flag=True, help="Keep the workers running until Ctrl-C, to look at their metrics."
)
@as_json
def demo(
    name: str,
    *,
    users: int | None,
    slots: int | None,
    kind: str,
    output: Path,
    keep: bool,
    json_: bool,
) -> int:
    """Run a shipped topology on this machine, with its own broker and made-up users, and compare
    what is released with the truth.

    NAME is smart-meters-mean (the default) or app-usage.
    """
    from ldp_kafka.runtime.demo import SHAPES, Given, run_demo

    if name not in SHAPES:
        raise click.UsageError(f"NAME must be one of {', '.join(SHAPES)}, got {name!r}")
    given = None
    if kind == "volume":
        from ldp_kafka.evaluation.data import SERIES, volume_days

        if SHAPES[name] != "numeric":
            raise click.UsageError(f"--input volume is for numbers; {name} has categories")
        try:
            given = Given(
                volume_days(2),
                "Traffic past one counter, mean of pairs of days",
                SERIES["volume"].unit,
            )
        except FileNotFoundError as error:
            raise ConfigurationError(str(error)) from None
    return run_demo(name, given, users=users, slots=slots, output=output, keep=keep, json_=json_)


@click.group(epilog=example("ldp-kafka key new edge.key"))
def key() -> None:
    """The edge's key, which decides every user's noise."""


@key.command(
    "new",
    epilog=example(
        "ldp-kafka key new edge.key", "LDP_KAFKA_EDGE_KEY_FILE=edge.key ldp-kafka run topology.yaml"
    ),
)
@click.argument("file", type=FILE)
def key_new(file: Path) -> None:
    """Write 32 random bytes to FILE, which must not exist, readable by its owner only."""
    from ldp_kafka.runtime.keys import new_key

    new_key(file)
    click.echo(
        f"{file}: a new key. Keep it secret: whoever has it can remove the noise from every report."
        " Keep a copy: without it the workers stop."
    )


@key.command(
    "rotate",
    epilog=example(
        "ldp-kafka key rotate topology.yaml            # says what it would do",
        "ldp-kafka key rotate topology.yaml --yes",
        "ldp-kafka key rotate meters.yaml tariffs.yaml --at 2027-01-01T00:00:00Z --yes",
    ),
)
@click.argument("topologies", type=FILE, nargs=-1, required=True)
@click.option(
    "--at",
    metavar="TIME",
    help=(
        "Event time, ISO 8601, from which on the new key is used.  [default: after the last event]"
    ),
)
@click.option("--yes", is_flag=True, help="Do it; without, only say what would be done.")
@as_json
def key_rotate(topologies: tuple[Path, ...], at: str | None, yes: bool, json_: bool) -> int:
    """Give the edge a new key from a time slot on. Name every topology that uses the key file.

    Slots before it keep the old key, and slots from it on have the new one. So no user and slot is
    drawn under both. The ledgers go on: no budget starts anew. The new key begins after the last
    event that the raw log holds, since everything that was reported is in there. Pseudonyms per
    user change with the key.

    Before: stop the workers of all of these topologies that have the key. After: copy it to all of
    their hosts, and start them. A worker with the old file halts. The old key stays in the file,
    since state and replays need it. To be rid of it, give the topology a new name and a new key,
    and retire the old name in a budget file (edge.budget_file, `until`).

    If the command is interrupted, workers halt until the same command is run again and finishes.
    """
    from ldp_kafka.accounting.words import moment
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.tools.rotate_key import rotate

    loaded = [load_topology(file) for file in topologies]
    with waiting("the state and the raw log are read"):
        made = rotate(loaded, at=None if at is None else _milliseconds(at), do=yes)
    if json_:
        print_json(
            {
                "file": str(made.file),
                "begins": moment(made.begins),
                "partitions": made.partitions,
                "done": made.done,
            }
        )
        return 0
    click.echo(
        f"{made.file}: the new key {'begins' if made.done else 'would begin'} at"
        f" {moment(made.begins)}; {made.partitions} partitions"
    )
    click.echo(
        "now copy the file to every host of these topologies, and start their workers"
        if made.done
        else "nothing was done: --yes does it"
    )
    return 0


def _milliseconds(text: str) -> int:
    """Since 1970-01-01 UTC."""
    from ldp_kafka.accounting.words import instant

    try:
        return instant(text)
    except ValueError:
        raise click.UsageError("--at must be a time like 2027-01-01T00:00:00Z") from None


@click.group(
    epilog=example(
        "ldp-kafka broker start --port 9092",
        "LDP_KAFKA_BOOTSTRAP=127.0.0.1:9092 ldp-kafka run topology.yaml",
    )
)
def broker() -> None:
    """A real Apache Kafka on this machine, for development and tests (Java 17 and Maven)."""


_directory = click.option(
    "--directory", type=FOLDER, help="Where its data and logs are; default: in the cache directory."
)


@broker.command(
    "start",
    epilog=example(
        "ldp-kafka broker start --port 9092",
        "ldp-kafka broker start --kafka-version 3.9.2 --directory /tmp/kafka-3",
    ),
)
@click.option("--kafka-version", default="4.3.1", show_default=True)
@click.option(
    "--port", type=click.IntRange(0, 65534), default=0, help="0: the last one, or a free one."
)
@click.option("--nodes", type=click.Choice(["1", "3"]), default="1", show_default=True)
@_directory
@as_json
def broker_start(
    kafka_version: str, port: int, nodes: str, directory: Path | None, json_: bool
) -> None:
    """Start it and leave it running; what is already running is left alone."""
    from ldp_kafka.runtime.brokers import local_kafka
    from ldp_kafka.runtime.demo.show import waiting

    with waiting(f"Apache Kafka {kafka_version} starts"):
        _print_status(local_kafka.start(kafka_version, port, directory, nodes=int(nodes)), json_)


@broker.command("stop", epilog=example("ldp-kafka broker stop"))
@_directory
def broker_stop(directory: Path | None) -> None:
    """Stop it; its data stay."""
    from ldp_kafka.runtime.brokers import local_kafka
    from ldp_kafka.runtime.demo.show import waiting

    with waiting("Apache Kafka stops"):
        stopped = local_kafka.stop(directory)
    click.echo("stopped" if stopped else "none was running")


@broker.command("status", epilog=example("ldp-kafka broker status --json"))
@_directory
@as_json
def broker_status(directory: Path | None, json_: bool) -> int:
    """Say where it is; the exit code is 0 if it answers, else 1."""
    from ldp_kafka.runtime.brokers import local_kafka

    found = local_kafka.status(directory)
    if found is None:
        (
            print_json(None)
            if json_
            else click.echo("none was ever started here: ldp-kafka broker start")
        )
        return FAILED
    _print_status(found, json_)
    return 0 if found.ready else FAILED


def _print_status(found: Any, json_: bool) -> None:
    if json_:
        print_json(
            {
                "version": found.version,
                "bootstrap_servers": found.bootstrap_servers,
                "ready": found.ready,
                "pids": found.pids,
                "logs": [str(log) for log in found.logs],
            }
        )
        return
    click.echo(
        f"Apache Kafka {found.version} at {found.bootstrap_servers}:"
        f" {'ready' if found.ready else 'not running'}"
    )
    for pid, log in zip(found.pids, found.logs, strict=True):
        click.echo(f"  process {pid if pid is not None else 'none'}, log {log}")
