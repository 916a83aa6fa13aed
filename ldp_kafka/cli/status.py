"""``ldp-kafka status``."""

from __future__ import annotations

from pathlib import Path

import click

from ldp_kafka.cli.options import FAILED, FILE, as_json, example, load_topology, print_json

__all__ = ["status"]

_CODES = """\b
Exit codes:
    0  it runs: up to date, or waits for what may come by itself: events, ticks,
       workers that have still to read
    1  somebody has to do something: brokers, topics or workers are missing, every
       message is a dead letter, one clock closed the slots of all others, or users
       are in several partitions
    2  used wrongly, or nothing here may ask the brokers of either side
"""


@click.command(
    epilog=_CODES
    + "\n"
    + example(
        "ldp-kafka status meters.yaml",
        "ldp-kafka status meters.yaml --json | jq -r .waits_for.line",
        "ldp-kafka status meters.yaml --login reader.conf",
    )
)
@click.argument("topology", type=FILE)
@click.option(
    "--login",
    type=FILE,
    help="Client options of whoever looks, a line NAME=VALUE each, in librdkafka's names; without"
    " it, those of kafka.edge and of kafka.collector, each on its own side.",
)
@as_json
def status(topology: Path, login: Path | None, json_: bool) -> int:
    """Say why there is no release, or none since: what the next one waits for, in the last line.

    Above it: brokers, topics, groups with what they have not read, how far each partition of the
    input has come, dead letters with their cure, and the last release. A side whose login is not
    here, or may not read something, is said and left out.

    It joins no consumer group, and reads the last messages of each topic only. It shows offsets,
    counts, slots and reasons, never a value, an id or a time of a user's event. Counts of the
    edge's messages are exact, without noise: keep them at the edge.
    """
    from ldp_kafka.runtime.demo.show import release_table, waiting
    from ldp_kafka.runtime.kafka.client_options import read_login
    from ldp_kafka.runtime.status.reading import read_facts
    from ldp_kafka.runtime.status.view import parts_of
    from ldp_kafka.runtime.status.waits import BROKEN, waits_for

    loaded = load_topology(topology)
    options = None if login is None else read_login(login)
    with waiting("the brokers are asked"):
        facts = read_facts(loaded, options)
    verdict = waits_for(facts)
    if json_:
        found = facts.as_json()
        print_json({"topology": loaded.name, "waits_for": verdict._asdict(), **found})
    else:
        for part in parts_of(facts):
            for line in part.lines:
                click.echo(line)
            if part.rows:
                release_table(part.head, part.rows)
            click.echo()
        click.echo(f"{loaded.name}: {verdict.line}")
    return FAILED if verdict.state == BROKEN else 0
