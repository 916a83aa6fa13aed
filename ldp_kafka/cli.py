"""The command line: thin. Each command reads its arguments, calls one function of `runtime` or `topology`, and prints what it got."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ldp_kafka.errors import ConfigurationError, LdpKafkaError
from ldp_kafka.version import __version__

if TYPE_CHECKING:
    from ldp_kafka.topology import Topology

__all__ = ["cli", "main"]

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)
_WRONG, _FAILED = 2, 1


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 (it failed) or 2 (usage, or a configuration that cannot run)."""
    try:
        return int(cli.main(arguments, prog_name="ldp-kafka", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("stopped", err=True)
        return 130
    except LdpKafkaError as error:
        for line in str(error).splitlines():
            click.echo(f"error: {line}", err=True)
        return _WRONG if isinstance(error, ConfigurationError) else _FAILED
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        sys.stderr.close()
        return _FAILED


class Sections(click.Group):
    """Commands in the order in which they are needed, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        del ctx
        return list(self.commands)


def example(*lines: str) -> str:
    """An epilog that shows a command at work."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def as_json(command: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "json_", is_flag=True, help="Print JSON, for programs.")(command)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2))


@click.group(cls=Sections, context_settings={"help_option_names": ["-h", "--help"]}, epilog=example("ldp-kafka demo", "ldp-kafka validate topology.yaml"))
@click.version_option(__version__, prog_name="ldp-kafka")
def cli() -> None:
    """Local differential privacy for data streams, run as Kafka stream processors."""


@cli.command(
    epilog=example("ldp-kafka demo", "ldp-kafka demo app-usage --users 4000 --slots 60 --output out", "ldp-kafka demo --keep      # then look at the metrics")
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
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("demo-output"), show_default=True, help="Folder for the plot and the releases."
)
@click.option("--keep", is_flag=True, help="Keep the workers running until Ctrl-C, to look at their metrics.")
@as_json
def demo(name: str, *, users: int | None, slots: int | None, kind: str, output: Path, keep: bool, json_: bool) -> int:
    """Run a shipped topology on this machine, with its own broker and made-up users, and compare what is released with the truth.

    NAME is smart-meters-mean (the default) or app-usage.
    """
    from ldp_kafka.runtime.demo import SHAPES, run_demo

    if name not in SHAPES:
        raise click.UsageError(f"NAME must be one of {', '.join(SHAPES)}, got {name!r}")
    values = None
    if kind == "volume":
        from ldp_kafka.evaluation.data import volume_days

        if SHAPES[name] != "numeric":
            raise click.UsageError(f"--input volume is for numbers; {name} has categories")
        try:
            values = volume_days(2)
        except FileNotFoundError as error:
            raise ConfigurationError(str(error)) from None
    return run_demo(name, values, users=users, slots=slots, output=output, keep=keep, json_=json_)


@cli.command(epilog=example("ldp-kafka run topology.yaml", "ldp-kafka run topology.yaml --role perturb --metrics-port 9101"))
@click.argument("topology", type=FILE)
@click.option("--role", type=click.Choice(["perturb", "collect"]), help="One role, as in production; without it, a process for each.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Loopback port of the Prometheus metrics; 0: a free one, printed.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address they are served at; any other lets a network read them.")
@click.option("--until-idle", metavar="DURATION", help="End once nothing has been left to read for so long, such as 10s.")
def run(topology: Path, role: str | None, metrics_port: int | None, metrics_host: str, until_idle: str | None) -> int:
    """Run the workers of a topology until they are stopped."""
    from ldp_kafka.runtime.run import run as start
    from ldp_kafka.topology.sections import parse_duration

    idle = None if until_idle is None else parse_duration(until_idle)
    return start(_load(topology), role=role, metrics_port=metrics_port, metrics_host=metrics_host, until_idle_ms=idle)


@cli.command(epilog=example("ldp-kafka validate topology.yaml other.yaml"))
@click.argument("topologies", nargs=-1, required=True, type=FILE)
@as_json
def validate(topologies: tuple[Path, ...], json_: bool) -> int:
    """Check topology files: every problem with its file, line and key."""
    from ldp_kafka.errors import TopologyError

    found: list[dict[str, Any]] = []
    for file in topologies:
        try:
            topology = _load(file)
        except TopologyError as error:
            problems = [{"file": each.file, "line": each.line, "key": each.key, "message": each.reason} for each in error.problems]
            found.append({"file": str(file), "valid": False, "problems": problems})
            if not json_:
                click.echo(str(error), err=True)
        else:
            found.append({"file": str(file), "valid": True, "problems": [], "fingerprint": topology.fingerprint, "layout": topology.layout})
            if not json_:
                click.echo(f"{file}: valid; {topology.guarantee.describe()}")
    if json_:
        print_json(found)
    return 0 if all(each["valid"] for each in found) else _WRONG


@cli.command(epilog=example("ldp-kafka plan topology.yaml --users 100000"))
@click.argument("topology", type=FILE)
@click.option("--users", type=click.IntRange(1), default=1000, show_default=True, help="How many users to plan for.")
@as_json
def plan(topology: Path, users: int, json_: bool) -> None:
    """Say what a topology will do: its topics, traffic and state, what it promises, and how good its releases can be."""
    from ldp_kafka.topology import plan as make

    made = make(_load(topology), users)
    if json_:
        print_json(made.as_json())
    else:
        click.echo("\n".join(made.lines()))


@cli.command(epilog=example("ldp-kafka topics topology.yaml --dry-run", "ldp-kafka topics topology.yaml"))
@click.argument("topology", type=FILE)
@click.option("--dry-run", is_flag=True, help="Only say what it needs; nothing is asked or created.")
@as_json
def topics(topology: Path, dry_run: bool, json_: bool) -> None:
    """Create the topics that are missing and check those that exist, with their header records and first offsets."""
    loaded = _load(topology)
    done: list[str] = []
    if not dry_run:
        from ldp_kafka.runtime.setup import prepare

        done = prepare(loaded)
    if json_:
        print_json({"topology": loaded.name, "topics": [topic.as_json() for topic in loaded.topics()], "done": done})
        return
    from ldp_kafka.runtime.demo.show import topics_table

    topics_table(loaded.topics())
    for line in done:
        click.echo(line)
    if not dry_run:
        click.echo("all topics are as they must be" if not done else "all topics are as they must be now")


@cli.command(epilog=example(
    "ldp-kafka replay readings.csv --topology topology.yaml --user-column meter --value-column kwh --time-column ts",
    "ldp-kafka replay volume.csv --topology topology.yaml --slice 3000 --speed 3600",
    "ldp-kafka replay --generate lns --users 10000 --slots 100 --topology topology.yaml",
))  # fmt: skip
@click.argument("file", type=FILE, required=False)
@click.option("--topology", "-t", type=FILE, required=True, help="The topology whose raw topic is written.")
@click.option("--user-column", default="user", show_default=True)
@click.option("--value-column", default="value", show_default=True)
@click.option("--time-column", default="time", show_default=True, help="Epoch seconds or milliseconds, or ISO 8601.")
@click.option("--slice", "slice_", type=click.IntRange(1), metavar="USERS", help="Cut the value column into so many users, one value a slot.")
@click.option("--generate", type=click.Choice(["lns", "sin", "log"]), help="Binary streams of the LDP-IDS paper in place of a file.")
@click.option("--users", type=click.IntRange(1), default=10_000, show_default=True, help="Of --generate.")
@click.option("--slots", type=click.IntRange(1), help="Of --generate (default 800) and --slice (default: all there are).")
@click.option("--seed", type=int, default=0, show_default=True, help="Of --generate.")
@click.option("--start", metavar="TIME", help="Time of the first slot (ISO 8601, UTC); default: as in the file, or so that the last slot has just ended.")
@click.option("--speed", type=float, help="Seconds of event time in one second; default: as fast as can be.")
@click.option("--batch", type=click.IntRange(1), help="Events in one message: 1 is a JSON object, more an Arrow batch; default: by the topology's format.")
@as_json
def replay(topology: Path, json_: bool, speed: float | None, batch: int | None, **what: Any) -> None:
    """Write recorded or generated values to a topology's raw topic, in the order of event time.

    FILE is CSV with one header line, or Parquet. At the end every partition gets a tick, so that the last windows close.
    """
    from ldp_kafka.runtime import setup
    from ldp_kafka.runtime.demo.show import progress_bar
    from ldp_kafka.runtime.replay import UNREAD_BYTES, Unread, messages, send
    from ldp_kafka.runtime.replay.send import check_ahead

    loaded = _load(topology)
    source = _source(loaded, **what)
    check_ahead(loaded, source)
    addresses = setup.resolve(loaded)
    edge, collector = (setup.client_config(loaded, side, address) for side, address in zip(("edge", "collector"), addresses, strict=True))
    unread = Unread(loaded, edge, collector, UNREAD_BYTES) if loaded.edge_kafka.embedded or loaded.collector_kafka.embedded else None
    start = time.monotonic()
    with progress_bar("replay", source.events) as progress:
        sent = send(loaded, edge, messages(loaded, source, batch), speed=speed, unread=unread, progress=progress)
    seconds = time.monotonic() - start
    if json_:
        extent = {"users": len(source.users), "first_slot": source.first, "last_slot": source.last, "left_out": source.left_out}
        print_json({"topic": loaded.raw_topic, **sent._asdict(), **extent, "seconds": round(seconds, 3)})
        return
    click.echo(
        f"{sent.events:,} events of {len(source.users):,} users in slots {source.first} to {source.last}: {sent.messages:,} messages to {loaded.raw_topic} in {seconds:.1f} s"
    )
    if source.left_out:
        click.echo(f"{source.left_out:,} rows lack a user, a value or a time and were left out", err=True)
    if not loaded.input.create:
        click.echo(f"{loaded.raw_topic} is someone else's topic and got no ticks: its last slots stay open until later events come", err=True)


@cli.group(epilog=example("ldp-kafka key new edge.key"))
def key() -> None:
    """The edge's key, which every user's noise hangs on."""


@key.command("new", epilog=example("ldp-kafka key new edge.key", "LDP_KAFKA_EDGE_KEY_FILE=edge.key ldp-kafka run topology.yaml"))
@click.argument("file", type=FILE)
def key_new(file: Path) -> None:
    """Write 32 random bytes to FILE, which must not exist, readable by its owner only."""
    from ldp_kafka.runtime.keys import new_key

    new_key(file)
    click.echo(f"{file}: a new key. Keep it secret, and do not lose it: whoever has it can undo every report, and without it the workers cannot go on.")


@cli.group(epilog=example("ldp-kafka broker start --port 9092", "LDP_KAFKA_BOOTSTRAP=127.0.0.1:9092 ldp-kafka run topology.yaml"))
def broker() -> None:
    """A real Apache Kafka on this machine, for development and tests (Java 17 and Maven)."""


_directory = click.option("--directory", type=click.Path(file_okay=False, path_type=Path), help="Its data and logs; default: in the cache directory.")


@broker.command("start", epilog=example("ldp-kafka broker start --port 9092", "ldp-kafka broker start --kafka-version 3.9.2 --directory /tmp/kafka-3"))
@click.option("--kafka-version", default="4.3.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65534), default=0, help="0: the last one, or a free one.")
@click.option("--nodes", type=click.Choice(["1", "3"]), default="1", show_default=True)
@_directory
@as_json
def broker_start(kafka_version: str, port: int, nodes: str, directory: Path | None, json_: bool) -> None:
    """Start it and leave it running; what is already running is left alone."""
    from ldp_kafka.runtime import kafka_server
    from ldp_kafka.runtime.demo.show import waiting

    with waiting(f"Apache Kafka {kafka_version} starts"):
        _print_status(kafka_server.start(kafka_version, port, directory, nodes=int(nodes)), json_)


@broker.command("stop", epilog=example("ldp-kafka broker stop"))
@_directory
def broker_stop(directory: Path | None) -> None:
    """Stop it; its data stay."""
    from ldp_kafka.runtime import kafka_server
    from ldp_kafka.runtime.demo.show import waiting

    with waiting("Apache Kafka stops"):
        stopped = kafka_server.stop(directory)
    click.echo("stopped" if stopped else "none was running")


@broker.command("status", epilog=example("ldp-kafka broker status --json"))
@_directory
@as_json
def broker_status(directory: Path | None, json_: bool) -> int:
    """Say where it is; the exit code is 0 if it answers, else 1."""
    from ldp_kafka.runtime import kafka_server

    found = kafka_server.status(directory)
    if found is None:
        print_json(None) if json_ else click.echo("none was ever started here: ldp-kafka broker start")
        return _FAILED
    _print_status(found, json_)
    return 0 if found.ready else _FAILED


@cli.command(epilog=example("ldp-kafka schema > topology.schema.json"))
def schema() -> None:
    """Print the JSON Schema of topology files, for editors."""
    from ldp_kafka.topology import schema as read

    print_json(read())


def _load(file: Path) -> Topology:
    from ldp_kafka.topology import load

    return load(file)


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
    click.echo(f"Apache Kafka {found.version} at {found.bootstrap_servers}: {'ready' if found.ready else 'not running'}")
    for pid, log in zip(found.pids, found.logs, strict=True):
        click.echo(f"  process {pid if pid is not None else 'none'}, log {log}")


def _source(loaded: Topology, file: Path | None, generate: str | None, slice_: int | None, start: str | None, **what: Any) -> Any:
    """What `replay` was asked for, as a `Source`."""
    from ldp_kafka.runtime.replay import from_slots, read_file, recent_start
    from ldp_kafka.runtime.replay.files import read_slices

    if (file is None) == (generate is None):
        raise click.UsageError("give either FILE or --generate")
    start_ms = None if start is None else _time(start)
    if file is not None and slice_ is not None:
        return read_slices(loaded, file, slice_, what["value_column"], slots=what["slots"], start_ms=start_ms)
    if file is not None:
        return read_file(loaded, file, what["user_column"], what["value_column"], when=what["time_column"], start_ms=start_ms)
    from ldp_kafka.evaluation import streams

    if slice_ is not None:
        raise click.UsageError("--slice cuts a FILE; --generate makes --users itself")
    slots, users, seed = what["slots"] or streams.SLOTS, what["users"], what["seed"]
    shares = streams.lns(slots, seed=seed) if generate == "lns" else getattr(streams, str(generate))(slots)
    begin = recent_start(loaded, slots) if start_ms is None else start_ms
    return from_slots(loaded, streams.binary(shares, users, seed=seed + 1), users, slots, start_ms=begin)


def _time(text: str) -> int:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("must be a time such as 2026-03-01T00:00:00Z", param_hint="--start") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
