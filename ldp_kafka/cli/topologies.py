"""Commands on a topology: run, plan, topics, schema."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldp_kafka.cli.options import (
    CODES,
    FILE,
    ROLE,
    as_json,
    example,
    load_topology,
    print_json,
)
from ldp_kafka.cli.problems import problem_json, say_unset

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from ldp_kafka.runtime.worker.logs import Format
    from ldp_kafka.topology import Topology

__all__ = ["plan", "run", "schema", "topics"]


@click.command(
    epilog=CODES
    + "\n"
    + example(
        "ldp-kafka run topology.yaml",
        "ldp-kafka run topology.yaml --role perturb --metrics-port 9101",
        "ldp-kafka run topology.yaml --role perturb --metrics-port 9101 --restart",
    )
)
@click.argument("topology", type=FILE)
@click.option(
    "--role", type=ROLE, help="One role, as in production; without it, a process for each."
)
@click.option(
    "--restart",
    is_flag=True,
    help="With --role: keep the role in a process of its own, and start it again, with growing"
    " pauses, where it exits with 75 or a signal ends it. Without --role that is so anyway. Leave"
    " it out where systemd or Kubernetes starts it again.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Loopback port of the Prometheus metrics; 0: a free one, printed. It stays the same when"
    " a role is started again.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    help="Address of the metrics; any but loopback lets a network read them.",
)
@click.option(
    "--until-idle",
    metavar="DURATION",
    help="End once the workers have had nothing to read for so long, such as 10s.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of the log on standard error, a line each.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Log snapshots too, and the way to every error."
)
def run(
    topology: Path,
    role: str | None,
    restart: bool,
    metrics_port: int | None,
    metrics_host: str,
    until_idle: str | None,
    log_format: Format,
    verbose: bool,
) -> int:
    """Run the workers of a topology until they are stopped.

    Without --role, it says in one line what the next release waits for, as `ldp-kafka status` does,
    where none has come for two slots' time, or nothing comes in at all.
    """
    from ldp_kafka.runtime.worker.signals import leaving

    with leaving():
        from ldp_kafka.errors import TopologyError
        from ldp_kafka.runtime.worker.supervisor import refuse
        from ldp_kafka.runtime.worker.supervisor import run as start
        from ldp_kafka.topology.durations import parse_duration

        idle = None if until_idle is None else parse_duration(until_idle)
        try:
            loaded = load_topology(topology)
        except TopologyError as error:
            if log_format == "text":
                raise
            return refuse(error, role)
        with _watching(loaded) if role is None else nullcontext():
            return start(
                loaded,
                role=role,
                metrics_port=metrics_port,
                metrics_host=metrics_host,
                until_idle_ms=idle,
                log_format=log_format,
                verbose=verbose,
                restart=restart,
            )


def _watching(topology: Topology) -> AbstractContextManager[None]:
    """Says what the next release waits for, where none comes."""
    from ldp_kafka.runtime.status.watch import watching
    from ldp_kafka.runtime.worker.events import Event
    from ldp_kafka.runtime.worker.logs import Log

    log = Log(topology.name, "")
    return watching(topology, lambda line: log.say(Event.WAITS, message=line))


@click.command(epilog=example("ldp-kafka plan topology.yaml --users 100000"))
@click.argument("topology", type=FILE)
@click.option(
    "--users",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="How many users to plan for.",
)
@click.option(
    "--drift",
    type=click.FloatRange(0, 1),
    help="How far the crowd's statistic moves in a slot: a standard deviation, as a share of the"
    " domain or an absolute frequency; without it, several. The error of each protocol depends on"
    " it. Of methods that release windows, how far a stream moves; without it, 0.01.",
)
@as_json
def plan(topology: Path, users: int, drift: float | None, json_: bool) -> None:
    """Say what a topology will do: its guarantee, topics, traffic and state, and the error to
    expect. Of a crowd's statistic, how far each protocol would be off, and which to take; of
    windows the same of each method that releases them.

    The exit code is 2 where its budget file does not admit it: run would refuse it.
    """
    from ldp_kafka.topology import plan as make
    from ldp_kafka.topology import unset

    loaded = load_topology(topology)
    made = make(loaded, users, drift=drift)
    if json_:
        print_json({**made.as_json(), "unset": [problem_json(each) for each in unset(loaded)]})
    else:
        click.echo("\n".join(made.lines()))
        say_unset(loaded)
    if made.edge_budget is not None:
        made.edge_budget.require()


@click.command(
    epilog=example(
        "ldp-kafka topics topology.yaml --dry-run",
        "ldp-kafka topics topology.yaml",
        "ldp-kafka topics topology.yaml --acls --principal edge=User:meters \\",
        "    --principal collector=User:statistics --apply --login admin.conf",
    )
)
@click.argument("topology", type=FILE)
@click.option(
    "--dry-run", is_flag=True, help="List the topics; no broker is asked, nothing is created."
)
@click.option(
    "--acls",
    is_flag=True,
    help="Print the Kafka ACLs that the sides need, as commands of Kafka's own tool; no topic is"
    " made.",
)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="SIDE=TYPE:NAME",
    help="Who kafka.edge or kafka.collector logs in as, such as edge=User:meters. A side that is"
    " not named gets no ACLs.",
)
@click.option(
    "--apply", "apply_", is_flag=True, help="Make these ACLs too, each on its side's cluster."
)
@click.option(
    "--login",
    type=FILE,
    help="Client options of whoever may make topics and ACLs, a line NAME=VALUE each, in"
    " librdkafka's names; without it each side logs in as itself.",
)
@as_json
def topics(
    topology: Path,
    dry_run: bool,
    acls: bool,
    principals: tuple[str, ...],
    apply_: bool,
    login: Path | None,
    json_: bool,
) -> None:
    """Create the topics that are missing and check those that exist, with their header records and
    first offsets. With --acls: who may read and write them.
    """
    if not acls and (principals or apply_):
        raise click.UsageError("--principal and --apply belong to --acls")
    if dry_run and apply_:
        raise click.UsageError("--dry-run makes nothing, and --apply does")
    loaded = load_topology(topology)
    if acls:
        _acls(loaded, principals, login, apply_=apply_, json_=json_)
        return
    done: list[str] = []
    unbounded = ""
    if not dry_run:
        from ldp_kafka.runtime.kafka.client_options import read_login
        from ldp_kafka.runtime.kafka.setup import prepare

        given = None if login is None else read_login(login)
        done = prepare(loaded, login=given)
        unbounded = _unbounded(loaded, given)
    if json_:
        print_json(
            {
                "topology": loaded.name,
                "topics": [topic.as_json() for topic in loaded.topics()],
                "done": done,
                "unbounded": unbounded or None,
            }
        )
        return
    from ldp_kafka.runtime.demo.show import topics_table

    topics_table(loaded.topics())
    for line in done:
        click.echo(line)
    if not dry_run:
        click.echo(
            "all topics are as they must be" if not done else "all topics are as they must be now"
        )
    if unbounded:
        click.echo(f"warning: {unbounded}", err=True)


def _unbounded(topology: Topology, login: Mapping[str, str] | None) -> str:
    """Why a budget file counts what is retired for ever; empty where it does not, or there is none,
    or an embedded broker, which keeps nothing.
    """
    from ldp_kafka.runtime.kafka.setup import client_config, read_stamps

    if topology.edge.budget_file is None or topology.edge_kafka.embedded:
        return ""
    source = topology.input
    found = read_stamps(topology, client_config(topology, "edge", login=login))
    return found.unbounded(source.topic, source.max_ahead_ms)


def _acls(
    topology: Topology, texts: tuple[str, ...], login: Path | None, *, apply_: bool, json_: bool
) -> None:
    """Print the ACLs, and make them where that is asked for."""
    from ldp_kafka.topology import access, acls, commands, read_principals

    principals = read_principals(texts)
    found = acls(topology, principals)
    for side in sorted({each.login for each in access(topology)} - principals.keys()):
        click.echo(f"note: no ACLs for kafka.{side}, whose --principal is not given", err=True)
    if apply_:
        from ldp_kafka.runtime.kafka.client_options import read_login
        from ldp_kafka.runtime.kafka.rights import grant
        from ldp_kafka.runtime.kafka.setup import client_config

        given, sides = None if login is None else read_login(login), {acl.cluster for acl in found}
        grant(topology, found, {side: client_config(topology, side, login=given) for side in sides})
    if json_:
        print_json(
            {
                "topology": topology.name,
                "acls": [acl.as_json() for acl in found],
                "applied": apply_,
            }
        )
        return
    for line in commands(topology, found):
        click.echo(line)
    if apply_:
        click.echo(f"note: {len(found)} topics and groups have these ACLs now", err=True)


@click.command(
    epilog=example(
        "ldp-kafka schema > topology.schema.json", "ldp-kafka schema --edge > edge.schema.json"
    )
)
@click.option(
    "--edge", is_flag=True, help="Of budget files, which limit what several topologies lose."
)
def schema(edge: bool) -> None:
    """Print the JSON Schema of topology files, for editors."""
    from ldp_kafka.topology import schema as read

    print_json(read("edge" if edge else "topology"))
