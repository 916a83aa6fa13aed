"""``ldp-kafka releases``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click

from ldp_kafka.cli.options import FILE, example, load_topology

__all__ = ["releases"]

OUT = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command(epilog=example(
    "ldp-kafka releases meters.yaml",
    "ldp-kafka releases meters.yaml --since 1d --plot releases.png",
    "ldp-kafka releases meters.yaml --follow",
    "ldp-kafka releases meters.yaml --statistic mean --csv releases.csv",
    "ldp-kafka releases meters.yaml --moves-above 5",
    "ldp-kafka releases meters.yaml --follow --json | jq -c '[.start, .value]'",
))  # fmt: skip
@click.argument("topology", type=FILE)
@click.option("--follow", "-f", is_flag=True, help="Go on with the releases to come, until Ctrl-C.")
@click.option(
    "--since",
    metavar="TIME|DURATION",
    help="Slots that start at a time (2026-03-01T00:00:00Z; UTC) or later, or so long before the"
    " end of the newest release (30m, 2h, 1d).  [default: all]",
)
@click.option(
    "--statistic",
    "statistics",
    multiple=True,
    metavar="NAME",
    help="One of those that the topology releases; may be given again.  [default: all]",
)
@click.option("--csv", type=OUT, metavar="FILE", help="Write rows, one a number; -: stdout.")
@click.option("--parquet", type=FILE, metavar="FILE", help="Write the same rows as Parquet.")
@click.option(
    "--json", "json_", is_flag=True, help="Print the records as they lie in the topic, one a line."
)
@click.option(
    "--connect",
    is_flag=True,
    help="Print rows as JSON with their schema, one a line, as Kafka Connect's JDBC sink takes"
    " them.",
)
@click.option(
    "--plot", type=FILE, metavar="FILE", help="Draw them with their error bars: png, svg or pdf."
)
@click.option(
    "--moves-above",
    type=float,
    metavar="NUMBER",
    help="Count, of each user or stream, the moves from one slot to the next that are larger.",
)
@click.option(
    "--login",
    type=FILE,
    help="Client options of a reader, a line NAME=VALUE each, in librdkafka's names; without it,"
    " those of kafka.collector.",
)
def releases(
    topology: Path,
    *,
    follow: bool,
    since: str | None,
    statistics: tuple[str, ...],
    csv: Path | None,
    parquet: Path | None,
    json_: bool,
    connect: bool,
    plot: Path | None,
    moves_above: float | None,
    login: Path | None,
) -> None:
    """Show what a topology has released, with error bars; or write it as CSV, Parquet, JSON or a
    picture.

    It reads the topic of releases from its beginning to where it ends now, and on with --follow.
    A release that a worker wrote again after a crash comes once. Reading is in no consumer group
    and disturbs nobody.
    """
    from ldp_kafka.runtime.demo.show import progress_bar
    from ldp_kafka.runtime.releases.deliver import Wanted, deliver
    from ldp_kafka.runtime.releases.files import STDOUT
    from ldp_kafka.runtime.releases.reading import read_releases

    forms = (
        ("csv", csv),
        ("json", STDOUT if json_ else None),
        ("connect", STDOUT if connect else None),
    )
    lines = tuple((name, path) for name, path in forms if path is not None)
    wanted = Wanted(lines, parquet, plot, moves_above)
    loaded = load_topology(topology)
    with ExitStack() as stack:
        bars: list[Callable[[int], None]] = []

        def progress(at: int, total: int) -> None:
            """One bar, which is gone before anything is printed."""
            if not bars:
                bars.append(stack.enter_context(progress_bar("releases", total)))
            bars[0](at)
            if at >= total:
                stack.close()

        quiet = follow or wanted.to_stdout
        with read_releases(
            loaded,
            since=since,
            follow=follow,
            statistic=statistics,
            login=login,
            progress=None if quiet else progress,
            away=_say_away,
        ) as found:
            deliver(loaded, found, wanted, _say)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _say_away(reason: str) -> None:
    click.echo(f"note: waiting for the broker: {reason}", err=True)
