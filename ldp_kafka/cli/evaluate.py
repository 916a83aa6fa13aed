"""``ldp-kafka evaluate``."""

from __future__ import annotations

import click

from ldp_kafka.cli.options import as_json, example, print_json
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.tables import TABLES

__all__ = ["evaluate"]


@click.command(
    epilog=example("ldp-kafka evaluate shrinkage", "ldp-kafka evaluate capp-order --json")
)
@click.argument("table", type=click.Choice(list(TABLES)), required=False)
@as_json
def evaluate(*, table: str | None, json_: bool) -> None:
    """Reproduce a table or figure of the papers, with the figures of the constants beside it.
    Without TABLE: list them.

    The data sets are not part of this package; LDP_KAFKA_DATA names their folder. Noise is seeded,
    so figures repeat.
    """
    from ldp_kafka.evaluation.tables import rows_of, text
    from ldp_kafka.runtime.demo.show import waiting

    if table is None:
        found = {name: made.title for name, made in TABLES.items()}
        (
            print_json(found)
            if json_
            else click.echo("\n".join(f"{name:16} {title}" for name, title in found.items()))
        )
        return
    try:
        with waiting(f"{TABLES[table].title}"):
            rows = rows_of(table)
    except FileNotFoundError as error:
        raise ConfigurationError(str(error)) from None
    (
        print_json({"table": table, "title": TABLES[table].title, "rows": rows})
        if json_
        else click.echo("\n".join([TABLES[table].title, *text(rows)]))
    )
