"""``ldp-kafka validate``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp_kafka.cli.columns import Columns, with_columns
from ldp_kafka.cli.options import (
    FAILED,
    FILE,
    WRONG,
    as_json,
    example,
    load_topology,
    print_json,
)
from ldp_kafka.cli.problems import problem_json, say_unset

if TYPE_CHECKING:
    from ldp_kafka.runtime.sample.judge import Verdict
    from ldp_kafka.runtime.sample.parts import Part
    from ldp_kafka.topology import Topology

__all__ = ["validate"]

SAMPLE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command(epilog="""\b
Exit codes, with messages:
    0  all give events that are reported, or no more than --max-bad of them do not
    1  more would be dead letters, or come late; or a user is in several partitions
    2  none gives an event, or the topology is not valid

""" + example(
    "ldp-kafka validate topology.yaml other.yaml",
    "ldp-kafka validate topology.yaml --sample messages.jsonl",
    "ldp-kafka validate topology.yaml --sample readings.csv --user-column meter \\",
    "    --value-column kwh --time-column ts",
    "ldp-kafka validate topology.yaml --from-topic 1000",
    "kafka-console-consumer ... --max-messages 100 | ldp-kafka validate topology.yaml --sample -",
))  # fmt: skip
@click.argument("topologies", nargs=-1, required=True, type=FILE)
@click.option(
    "--sample",
    type=SAMPLE,
    metavar="FILE",
    help="Try these messages: a line each, or the elements of a JSON array, or one Arrow IPC"
    " stream; -: standard input. Or a table as replay sends it: CSV (.csv, .tsv) or Parquet.",
)
@click.option(
    "--from-topic",
    type=click.IntRange(1),
    metavar="N",
    help="Try up to N of the newest messages of input.topic, as many of each partition. It logs in"
    " as the edge, is in no consumer group, and changes nothing.",
)
@click.option(
    "--max-bad",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="The share of dead letters and late events, 0 to 1, up to which the exit code is 0.",
)
@click.option(
    "--timeout",
    default="20s",
    show_default=True,
    metavar="DURATION",
    help="Of --from-topic: give up when nothing comes for so long.",
)
@with_columns
@as_json
def validate(
    topologies: tuple[Path, ...],
    *,
    sample: Path | None,
    from_topic: int | None,
    max_bad: float,
    timeout: str,
    columns: Columns,
    json_: bool,
) -> int:
    """Check topology files: every problem with its file, line and key.

    With --sample or --from-topic, try one topology on real messages before anything runs: how many
    give an event; why and where the others would be dead letters, and what to do; what ids, times
    and values look like. Nothing is written, and no message is shown. What is said of them is
    computed from raw values: it is for the edge's own eyes.
    """
    if sample is not None and from_topic is not None:
        raise click.UsageError("give either --sample or --from-topic")
    tries = sample is not None or from_topic is not None
    if tries and len(topologies) > 1:
        raise click.UsageError("messages are tried with one topology")
    found: list[dict[str, Any]] = []
    code = 0
    for file in topologies:
        loaded, said = _check(file, quiet=json_)
        if loaded is None:
            code = WRONG
        elif tries:
            parts, name = _parts(loaded, sample, from_topic or 0, timeout, columns)
            said["sample"], code = _try(loaded, parts, name, max_bad, quiet=json_)
        found.append(said)
    if json_:
        print_json(found)
    return code


def _check(file: Path, *, quiet: bool) -> tuple[Topology | None, dict[str, Any]]:
    """The topology, where it is valid, and what is to be said of it as JSON."""
    from ldp_kafka.errors import TopologyError
    from ldp_kafka.runtime.kafka.client_options import check_topology
    from ldp_kafka.topology import unset

    try:
        topology = load_topology(file)
        check_topology(topology)
    except TopologyError as error:
        if not quiet:
            click.echo(str(error), err=True)
        problems = [problem_json(each) for each in error.problems]
        return None, {"file": str(file), "valid": False, "problems": problems}
    if not quiet:
        click.echo(f"{file}: valid; {topology.guarantee.describe(linked=topology.linked)}")
        say_unset(topology)
    return topology, {
        "file": str(file),
        "valid": True,
        "problems": [],
        "fingerprint": topology.fingerprint,
        "layout": topology.layout,
        "unset": [problem_json(each) for each in unset(topology)],
    }


def _parts(
    topology: Topology, sample: Path | None, number: int, timeout: str, columns: Columns
) -> tuple[Sequence[Part], str]:
    """The messages that are tried, and where they are from."""
    from ldp_kafka.runtime.demo.show import progress_bar
    from ldp_kafka.runtime.replay.rows import is_table, read_rows
    from ldp_kafka.runtime.sample.files import STDIN, read_part
    from ldp_kafka.runtime.sample.parts import Part
    from ldp_kafka.runtime.sample.topic import read_parts
    from ldp_kafka.topology.durations import parse_duration

    if sample is None:
        patience = parse_duration(timeout) / 1000
        with progress_bar("read", number) as progress:
            parts = read_parts(topology, number, patience=patience, progress=progress)
        return parts, f"{topology.input.topic}, newest messages"
    if is_table(sample):
        rows = read_rows(topology, sample, **columns)
        return [Part(rows.messages, rows.place, table=True, left_out=rows.left_out)], str(sample)
    return [read_part(sample)], "standard input" if sample == STDIN else str(sample)


def _try(
    topology: Topology, parts: Sequence[Part], name: str, max_bad: float, *, quiet: bool
) -> tuple[dict[str, Any], int]:
    """Say what workers would make of these messages; it as JSON, and the exit code."""
    from ldp_kafka.runtime.demo.show import progress_bar
    from ldp_kafka.runtime.sample import say
    from ldp_kafka.runtime.sample.judge import judge

    now = int(time.time() * 1000)
    with progress_bar("try", sum(len(part.messages) for part in parts)) as progress:
        verdict = judge(topology, parts, now_ms=now, progress=progress)
    if not quiet:
        for line in say.lines(topology, verdict, name):
            click.echo(line)
    return say.as_json(topology, verdict, name), _code(verdict, max_bad)


def _code(verdict: Verdict, max_bad: float) -> int:
    if not verdict.events:
        return WRONG
    return FAILED if verdict.lost_share > max_bad or verdict.split or verdict.wrong else 0
