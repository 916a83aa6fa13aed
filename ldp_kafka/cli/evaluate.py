"""``ldp-kafka evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ldp_kafka.cli.options import FOLDER, as_json, example, print_json
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.tables import TABLES

__all__ = ["evaluate"]


@click.command(
    epilog=example(
        "ldp-kafka evaluate shrinkage",
        "ldp-kafka evaluate capp-order --json",
        "ldp-kafka evaluate ldp-ids-window --quick --out figures",
        "ldp-kafka evaluate delay-clipping --out figures",
    )
)
@click.argument("table", type=click.Choice(list(TABLES)), required=False)
@click.option(
    "--quick", is_flag=True, help="Fewer settings and runs, in seconds; not all tables have it."
)
@click.option("--out", type=FOLDER, help="Write TABLE.json and its plots there too.")
@as_json
def evaluate(*, table: str | None, quick: bool, out: Path | None, json_: bool) -> None:
    """Reproduce a table or figure of the papers, with the figures of the constants beside it, and
    say which of the paper's statements it reproduces. Without TABLE: list them.

    The data sets are not part of this package; LDP_KAFKA_DATA names their folder. Where one is
    missing, the error says what to get, from where, and under which licence. Noise is seeded, so
    figures repeat.
    """
    from ldp_kafka.evaluation.claims import lines
    from ldp_kafka.evaluation.tables import evaluated, text
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
            result = evaluated(table, quick=quick, directory=out)
    except FileNotFoundError as error:
        raise ConfigurationError(str(error)) from None
    document = {"table": table, "title": TABLES[table].title, "rows": result.rows}
    if result.claims:
        document["claims"] = [
            {**each._asdict(), "reproduced": each.reproduced} for each in result.claims
        ]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{table}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if json_:
        print_json(document)
        return
    click.echo("\n".join([TABLES[table].title, *text(result.rows)]))
    if result.claims:
        click.echo("\n".join(["", *lines(result.claims)]))
    if out is not None:
        click.echo("\n".join(["", *(str(path) for path in (out / f"{table}.json", *result.plots))]))
