"""``ldp-kafka state``: the workers' state as it lies in Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp_kafka.cli.options import FAILED, FILE, ROLE, as_json, example, load_topology, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ldp_kafka.runtime.keys import Keyring
    from ldp_kafka.runtime.recovery.inspection import Held
    from ldp_kafka.runtime.tools.state import Plan
    from ldp_kafka.topology import Topology
    from ldp_kafka.topology.roles import Role

__all__ = ["state"]

_role = click.option(
    "--role", type=ROLE, help="One role only; the other side's cluster is not asked."
)


@click.group(
    epilog=example(
        "ldp-kafka state inspect topology.yaml", "ldp-kafka state verify topology.yaml --json"
    )
)
def state() -> None:
    """Look at the workers' state in Kafka, in sums over users, or set a group back to it, or on
    behind a gap.
    """


@state.command(
    epilog=example(
        "ldp-kafka state inspect topology.yaml",
        "ldp-kafka state inspect topology.yaml --role perturb --json",
    )
)
@click.argument("topology", type=FILE)
@_role
@as_json
def inspect(topology: Path, role: str | None, json_: bool) -> None:
    """Show what the changelogs hold: epochs, checkpoint and committed offsets, watermarks, users,
    and the largest epsilon that any user has spent.

    An epoch is one assignment of a partition to a worker. Its checkpoint offset is the last offset
    of the log that its state includes. The next worker loads the epoch with the largest checkpoint
    offset among those whose records are complete. The edge's state is sealed: without its key only
    offsets, records and sizes are shown. The command only reads, and may run beside the workers.
    """
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.tools.state import read_state

    loaded = load_topology(topology)
    keyed = any(each.needs_key for each in _asked(loaded, role))
    key = _key_if_readable(loaded) if keyed else None
    with waiting("the changelogs are read"):
        found = read_state(loaded, None if role is None else [role], key=key)
    if json_:
        print_json({"topology": loaded.name, "partitions": [held.as_json() for held in found]})
    else:
        _show(found)
    if keyed and key is None:
        click.echo(
            "note: the edge's key cannot be read here, so what its state holds stays sealed",
            err=True,
        )


@state.command(
    epilog=example(
        "ldp-kafka state verify topology.yaml",
        "ldp-kafka state verify topology.yaml --role collect --json",
    )
)
@click.argument("topology", type=FILE)
@_role
@as_json
def verify(topology: Path, role: str | None, json_: bool) -> int:
    """Check every rule that a worker relies on when it loads its state; the exit code is 1 where
    one does not hold.

    The state to load is complete, and its checkpoint offset is not behind the committed offset. It
    was written under this topology and the edge's key, and no record of the edge was altered since.
    Every user is in its own shard, once, with a ledger that adds up and is within the budget. The
    log still holds everything after the checkpoint offset. The edge's part needs its key; where
    that is not at hand, --role collect looks at the collector's.
    """
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.keys import read_key
    from ldp_kafka.runtime.recovery.inspection import OF_A_KEY, RULES
    from ldp_kafka.runtime.tools.state import verify_state

    loaded = load_topology(topology)
    keyed = any(each.needs_key for each in _asked(loaded, role))
    key = read_key(loaded.edge.key_file) if keyed else None
    with waiting("the changelogs are read"):
        found = verify_state(loaded, None if role is None else [role], key=key)
    broken = [(held, violation) for held in found for violation in held.violations]
    rules = [rule for rule in RULES if rule not in OF_A_KEY or key is not None]
    if json_:
        said = [
            {"table": held.table, "partition": held.partition, **violation._asdict()}
            for held, violation in broken
        ]
        print_json(
            {"topology": loaded.name, "holds": not broken, "checked": rules, "violations": said}
        )
        return FAILED if broken else 0
    for held, violation in broken:
        click.echo(f"{held.table} partition {held.partition}: {violation.rule}: {violation.text}")
    if not broken:
        users = sum(held.users or 0 for held in found)
        click.echo(
            f"OK: all {len(rules)} checks passed, of {len(found)} partitions with {users:,} users"
            f" ({', '.join(rules)})"
        )
    return FAILED if broken else 0


@state.command(
    epilog=example(
        "ldp-kafka state rewind topology.yaml --role perturb",
        "ldp-kafka state rewind topology.yaml --role perturb --yes",
    )
)
@click.argument("topology", type=FILE)
@click.option("--role", type=ROLE, required=True, help="The role whose group is set back.")
@click.option("--yes", is_flag=True, help="Do it; without, only say what would be done.")
@as_json
def rewind(topology: Path, role: str, yes: bool, json_: bool) -> int:
    """Set a group's committed offsets back to the checkpoint offset of its state: the way out where
    a worker halts because its changelog is older than what was acknowledged.

    It is sound. Noise is a function of the key, the user, the slot, the value and the state, and
    the state follows from the log before it. So the events that are read again give the same
    reports, byte for byte: nothing is drawn twice, and no budget is spent twice. The collector
    counts a report batch once, by the offset of its raw message.

    It is refused where that would not hold: the log no longer holds what is to be read again, or
    was created anew; the state belongs to another topology or key; or the group still has members.
    Offsets are never set forward.

    Before: stop all workers of the role, and bring back the newest changelog that you have. After:
    start them, and check with `ldp-kafka state verify` and `ldp-kafka prove-once`. Without any
    complete state the role collect starts anew from a log that is still whole. The role perturb
    does not: only the state tells whether the key is still the same.
    """
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.keys import read_key
    from ldp_kafka.runtime.tools.state import rewind as set_back

    loaded = load_topology(topology)
    key = read_key(loaded.edge.key_file) if loaded.role(role).needs_key else None
    with waiting("the changelogs are read"):
        plan = set_back(loaded, role, do=yes, key=key)
    nothing = "no checkpoint offset is behind what was acknowledged"
    return _moved(loaded, loaded.group(role), plan, yes, json_, "back", nothing)


@state.command(
    epilog=example(
        "ldp-kafka state skip topology.yaml",
        "ldp-kafka state skip topology.yaml --yes",
    )
)
@click.argument("topology", type=FILE)
@click.option("--yes", is_flag=True, help="Do it; without, only say what would be done.")
@as_json
def skip(topology: Path, yes: bool, json_: bool) -> int:
    """Have the edge go on behind what the raw log has lost before it was read: the way out where
    retention has overtaken its workers. What is lost is lost: its slots have fewer reports.

    Users keep their ledgers and last slots, so no budget is spent twice, and no user and slot is
    reported on twice. That holds where all that was reported is in the state, as it is when the
    workers ended in order. Whether it is the collector's state tells: start the collector, and let
    it count all reports. Its word is taken for that, though nobody need trust it otherwise: where a
    worker may have crashed and the collector might lie, give the topology a new name instead.
    `ldp-kafka state inspect` shows the gap from then on.

    It is refused where reports were sent that the state does not have (a crash ended the last
    worker, and what it had read is lost), where a curator folds the log, where the state is not
    there or another's, and while the group has members.

    Before: stop all workers of the edge. After: start them.
    """
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.keys import read_key
    from ldp_kafka.runtime.tools.state import skip as go_on

    loaded = load_topology(topology)
    role, _ = loaded.reader(loaded.raw_topic)
    key = read_key(loaded.edge.key_file)
    with waiting("the changelogs are read"):
        plan = go_on(loaded, do=yes, key=key)
    nothing = "the log has lost nothing that was not read"
    return _moved(loaded, role.group, plan, yes, json_, "on", nothing)


def _moved(
    topology: Topology, group: str, plan: Plan, yes: bool, json_: bool, where: str, nothing: str
) -> int:
    """Say what became of a group's committed offsets; the exit code."""
    done = yes and bool(plan.moves) and not plan.refusals
    if json_:
        print_json(
            {
                "topology": topology.name,
                "group": group,
                "done": done,
                "moves": [move.as_json() for move in plan.moves],
                "refusals": plan.refusals,
            }
        )
        return FAILED if plan.refusals else 0
    for refusal in plan.refusals:
        click.echo(f"refused: {refusal}", err=True)
    if plan.refusals:
        return FAILED
    for move in plan.moves:
        click.echo(
            f"{move.topic} partition {move.partition}: group {group}"
            f" {'went' if done else 'would go'} {where} from {move.committed} to {move.to}"
        )
    if not plan.moves:
        click.echo(f"{nothing}: nothing to do")
    elif not done:
        click.echo("nothing was done: --yes does it")
    return 0


def _asked(topology: Topology, role: str | None) -> Sequence[Role]:
    return topology.roles if role is None else [topology.role(role)]


def _key_if_readable(topology: Topology) -> Keyring | None:
    """The edge's key; None where it cannot be read here."""
    from ldp_kafka.errors import ConfigurationError
    from ldp_kafka.runtime.keys import read_key

    try:
        return read_key(topology.edge.key_file)
    except ConfigurationError:
        return None


def _show(found: Sequence[Held]) -> None:
    from ldp_kafka.runtime.demo.show import release_table

    head = (
        "table",
        "partition",
        "epochs",
        "chosen",
        "checkpoint",
        "committed",
        "log",
        "watermark",
        "closed",
        "users",
        "slots",
        "shards",
        "bytes",
        "spent of budget",
    )
    release_table(head, [_row(held) for held in found])
    for held in found:
        for first, last in held.skipped or ():
            click.echo(f"{held.table} partition {held.partition}: skipped offsets {first}..{last}")
        for violation in held.violations:
            click.echo(
                f"{held.table} partition {held.partition}: {violation.rule}: {violation.text}"
            )


def _row(held: Held) -> list[str]:
    from ldp_kafka.accounting.words import nats

    complete = sum(epoch.complete for epoch in held.epochs)
    epochs = str(complete) if complete == len(held.epochs) else f"{complete} of {len(held.epochs)}"
    position = held.position
    chosen = held.chosen
    return [
        held.table,
        str(held.partition),
        epochs,
        "-" if chosen is None else chosen.name,
        _or_none(None if chosen is None else held.offset),
        _or_none(position.committed),
        f"{position.start}..{position.end}",
        "-" if held.watermark is None else _time(held.watermark),
        _or_none(held.closed),
        _or_none(held.users),
        _or_none(held.slots),
        str(held.shards),
        f"{held.bytes:,}",
        "-" if held.budget is None else f"{nats(held.spent or 0)} of {nats(held.budget)}",
    ]


def _or_none(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _time(milliseconds: int) -> str:
    from ldp_kafka.accounting.words import moment

    return moment(milliseconds - milliseconds % 1000)
