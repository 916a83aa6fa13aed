"""``ldp-kafka state``: the workers' state as it lies in Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp_kafka.cli.options import FAILED, FILE, ROLE, as_json, example, load_topology, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ldp_kafka.runtime.recovery.inspection import Held
    from ldp_kafka.topology import Topology

__all__ = ["state"]

_role = click.option(
    "--role",
    type=ROLE,
    help="Of one role only: of the other side's cluster nothing needs to be known.",
)


@click.group(
    epilog=example(
        "ldp-kafka state inspect topology.yaml", "ldp-kafka state verify topology.yaml --json"
    )
)
def state() -> None:
    """The workers' state as it lies in Kafka: sums over users, never what is of one of them."""


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
    """Show what the changelogs hold: epochs, checkpoint and committed offsets, watermarks, users, and
    the most that any user has spent.

    An epoch is one term of ownership of a partition. The worker that comes next loads the complete
    checkpoint with the greatest offset. This command runs beside the workers and disturbs nobody.
    """
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.tools.state import read_state

    loaded = load_topology(topology)
    with waiting("the changelogs are read"):
        found = read_state(loaded, None if role is None else [role])
    if json_:
        print_json({"topology": loaded.name, "partitions": [held.as_json() for held in found]})
    else:
        _show(found)


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

    The chosen state is complete and has all that was acknowledged; it was written under this
    topology and, where the key can be read here, under this key; every user lies in its own shard,
    once, with a ledger that adds up and is within the budget; the log still holds what comes after
    it.
    """
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.recovery.inspection import RULES
    from ldp_kafka.runtime.tools.state import verify_state

    loaded = load_topology(topology)
    asked = loaded.roles if role is None else [loaded.role(role)]
    keyed = any(each.needs_key for each in asked)
    check = _check(loaded) if keyed else None
    with waiting("the changelogs are read"):
        found = verify_state(loaded, None if role is None else [role], key=check)
    broken = [(held, violation) for held in found for violation in held.violations]
    rules = [rule for rule in RULES if rule != "key" or check is not None]
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
        click.echo(f"{len(found)} partitions, {users:,} users: {', '.join(rules)} hold")
    if keyed and check is None:
        click.echo(
            "note: the edge's key cannot be read here, so the state was not compared with it",
            err=True,
        )
    return FAILED if broken else 0


@state.command(
    epilog=example(
        "ldp-kafka state rewind topology.yaml --role perturb",
        "ldp-kafka state rewind topology.yaml --role perturb --yes",
    )
)
@click.argument("topology", type=FILE)
@click.option(
    "--role",
    type=ROLE,
    required=True,
    help="Whose group is set back.",
)
@click.option("--yes", is_flag=True, help="Do it; without, only say what would be done.")
@as_json
def rewind(topology: Path, role: str, yes: bool, json_: bool) -> int:
    """Set a group's committed offsets back to what its state has: the way out where a worker
    halts over a changelog that is older than what was acknowledged.

    It is sound: noise is keyed, a function of the key, the user, the slot, the value and the state,
    and the state is what the log before it gives. So the events that are read again give the same
    reports, byte for byte; nothing is drawn twice, and no budget is spent twice. The collector
    counts a report batch once, by the offset of the message that it answers.

    It is refused where that would not hold: the log has lost what is to be read again or was made
    anew, the state is of another topology or key, or the group still has members. Offsets are never
    set forward.

    Before: stop all workers of the role, and bring back the newest changelog that you have. After:
    start them, and look with `ldp-kafka state verify` and `ldp-kafka prove-once`. Without any
    complete state the role collect begins anew from a log that is still whole; perturb does not,
    since only the state tells whether the key is still the same.
    """
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.tools.state import rewind as set_back

    loaded = load_topology(topology)
    check = _check(loaded) if loaded.role(role).needs_key else None
    with waiting("the changelogs are read"):
        plan = set_back(loaded, role, do=yes, key=check)
    done = yes and bool(plan.moves) and not plan.refusals
    if json_:
        print_json(
            {
                "topology": loaded.name,
                "group": loaded.group(role),
                "done": done,
                "moves": [move._asdict() for move in plan.moves],
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
            f"{move.topic} partition {move.partition}: group {loaded.group(role)}"
            f" {'went' if done else 'would go'} back from {move.committed} to {move.to}"
        )
    if not plan.moves:
        click.echo("every state has what was acknowledged: nothing to do")
    elif not done:
        click.echo("nothing was done: --yes does it")
    return 0


def _check(topology: Topology) -> str | None:
    """What tells the edge's key from another; None where it cannot be read here."""
    from ldp_kafka.errors import ConfigurationError
    from ldp_kafka.runtime.keys import edge_randomness, read_key

    try:
        return edge_randomness(topology, read_key(topology.edge.key_file)).check
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
        for violation in held.violations:
            click.echo(
                f"{held.table} partition {held.partition}: {violation.rule}: {violation.text}"
            )


def _row(held: Held) -> list[str]:
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
        "-" if held.budget is None else f"{(held.spent or 0) / 1e6:g} of {held.budget / 1e6:g}",
    ]


def _or_none(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _time(milliseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
