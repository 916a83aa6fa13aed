"""What a demo prints at its end: a sample of the slots, what holds, and where the rest is."""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np

from ldp_kafka.accounting.words import at_most
from ldp_kafka.runtime.demo import show
from ldp_kafka.runtime.demo.result import Result
from ldp_kafka.runtime.demo.streams import Given
from ldp_kafka.topology import Topology
from ldp_kafka.version import install

__all__ = ["print_summary"]

_SAMPLE, _COLUMNS = 12, 3  # slots and categories in the table: what fits a terminal


def print_summary(
    topology: Topology,
    result: Result,
    starts: list[int],
    summary: dict[str, Any],
    *,
    given: Given,
    names: tuple[str, ...],
) -> None:
    """Print the table of a result and what a summary says.

    Parameters
    ----------
    starts : of the slots, in milliseconds
    given : the streams, for their title and unit
    names : of the categories; empty where values are numbers
    """
    sample = np.unique(np.linspace(0, len(starts) - 1, _SAMPLE).round().astype(int)).tolist()
    when = [time.strftime("%a %H:%M", time.gmtime(start / 1000)) for start in starts]
    if names:
        shown = np.sort(
            np.argsort(result.truth.std(axis=0))[::-1][:_COLUMNS]
        ).tolist()  # those in which there is something to see
        head = ("slot (UTC)", *(names[c] for c in shown))
        rows = [
            (
                when[t],
                *(
                    f"{result.truth[t, c]:.2f}: {result.released[t, c]:.2f}"
                    f" ({result.low[t, c]:.2f} to {result.high[t, c]:.2f})"
                    for c in shown
                ),
            )
            for t in sample
        ]
        what = f"{len(shown)} of {len(names)} categories as truth: released (95 % interval)"
    else:
        head = ("slot (UTC)", "truth", "released", "95 % interval", "covered")
        ends = (result.truth, result.released, result.low, result.high, result.inside)
        lines = [
            (
                f"{truth:,.0f}",
                f"{released:,.0f}",
                f"{low:,.0f} to {high:,.0f}",
                "yes" if inside else "no",
            )
            for truth, released, low, high, inside in zip(*ends, strict=True)
        ]
        rows = [(when[t], *lines[t]) for t in sample]
        what = given.unit
    click.echo(f"\n{given.title}, {len(sample)} of {len(starts)} slots; {what}")
    show.release_table(head, rows)
    click.echo()
    click.echo(
        f"reports:     about {summary['reports']:,} of {summary['users']:,} users report in a slot;"
        " the intervals allow for the others"
    )
    click.echo(
        f"coverage:    {summary['covered']} of {summary['intervals']} true values lie inside their"
        " 95 % interval"
    )
    click.echo(
        f"privacy:     largest epsilon spent by any user in {topology.method.run} slots:"
        f" {at_most(summary['epsilon_spent'])} of {at_most(summary['epsilon'])}"
    )
    click.echo(
        "replay-safe: computed again without Kafka, the releases are"
        f" {'the same, byte for byte' if summary['equal_without_kafka'] else 'NOT the same'}"
    )
    plot = summary["plot"] or f"none ({install('plots')})"
    click.echo(f"plot:        {plot}")
    click.echo(f"releases:    {summary['releases']}")
