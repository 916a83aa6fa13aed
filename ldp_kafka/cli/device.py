"""``ldp-kafka device``: what is done once in a device's life."""

from __future__ import annotations

from pathlib import Path

import click

from ldp_kafka.cli.options import FILE, example, load_topology

__all__ = ["device"]


@click.group(epilog=example("ldp-kafka device init meters.yaml --database meter.db"))
def device() -> None:
    """A device that perturbs its own values (`input: {source: devices}`)."""


@device.command(
    "init",
    epilog=example(
        "ldp-kafka device init meters.yaml --database meter.db --key-file meter.key",
        "ldp-kafka device init meters.yaml --database meter.db --deployment eu-production",
    ),
)
@click.argument("topology", type=FILE)
@click.option("--database", type=FILE, required=True, help="SQLite file to make.")
@click.option(
    "--key-file", type=FILE, help="Key to make.  [default: edge.key_file of the topology]"
)
@click.option(
    "--deployment",
    metavar="TEXT",
    help=(
        "What tells this deployment from every other with the same topology, where no broker can"
        " be asked now.  [default: the id of the reports topic]"
    ),
)
def init(topology: Path, database: Path, key_file: Path | None, deployment: str | None) -> None:
    """Make the key, the database and the counter of a device, once in its life.

    A device that is started finds all three or fails. So a file that is lost is an error, and not
    a new budget. The counter lies beside the key and tells an older copy of the database.
    """
    from ldp_kafka.runtime.device.client import Client
    from ldp_kafka.runtime.device.provisioning import files_of

    loaded = load_topology(topology)
    Client.provision(loaded, database=database, key_file=key_file, deployment=deployment)
    made = files_of(loaded, database, key_file)
    names = ", ".join(str(path) for path in (made.key, made.counter, made.database) if path)
    click.echo(f"{names}: made. Keep all of them on the device: none can be made anew.")
