"""``ldp-kafka helm-values``."""

from __future__ import annotations

from pathlib import Path

import click

from ldp_kafka.cli.options import CODES, FILE, as_json, example, print_json

__all__ = ["helm_values"]


@click.command(
    epilog=CODES
    + "\n"
    + example(
        "ldp-kafka helm-values meters.yaml > meters.values.yaml",
        "helm install meters deploy/helm/ldp-kafka -f meters.values.yaml -f mine.yaml",
    )
)
@click.argument("topology", type=FILE)
@as_json
def helm_values(topology: Path, json_: bool) -> None:
    """Print what the Helm chart has to know of a topology: its file, its roles with their sides,
    partitions and consumer groups, and the variables that its pods need.

    A file that holds a password is refused: the chart puts it into a ConfigMap. Variables that
    shape the topology, such as a topic's name, are taken from the environment, as elsewhere.
    """
    from ldp_kafka.topology.dump import write
    from ldp_kafka.topology.helm import helm_values as made

    found = made(topology)
    if json_:
        print_json(found)
        return
    click.echo("# Made by ldp-kafka helm-values: make it anew when the topology changes.")
    click.echo(write(found), nl=False)
