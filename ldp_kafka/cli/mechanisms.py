"""The mechanisms' page."""

from __future__ import annotations

from pathlib import Path

import click

from ldp_kafka.cli.options import FOLDER, example
from ldp_kafka.version import install

__all__ = ["mechanisms"]


@click.command(epilog=example("ldp-kafka mechanisms", "ldp-kafka mechanisms --out mechanisms"))
@click.option(
    "--out",
    type=FOLDER,
    help="Write mechanisms.md and the plots there instead of printing the page.",
)
def mechanisms(*, out: Path | None) -> None:
    """Say which mechanism to use when: notation, exact variances, and plots against epsilon and
    against categories.
    """
    from ldp_kafka.evaluation.guide import page, plots

    if out is None:
        click.echo(page(), nl=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "mechanisms.md").write_text(page(), encoding="utf-8")
    drawn = plots(out)
    for path in [out / "mechanisms.md", *drawn]:
        click.echo(path)
    if not drawn:
        click.echo(f"no plots: they need matplotlib ({install('plots')})", err=True)
