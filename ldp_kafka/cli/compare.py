"""``ldp-kafka compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ldp_kafka.cli.columns import Columns, with_columns
from ldp_kafka.cli.given import parameter
from ldp_kafka.cli.options import FILE, as_json, example, print_json
from ldp_kafka.errors import ConfigurationError

__all__ = ["compare"]


class Numbers(click.ParamType):
    """Numbers, a comma between them."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return tuple(float(each) for each in value.split(","))
        except ValueError:
            self.fail("must be numbers with a comma between them", param, ctx)


@click.command(epilog=example(
    "ldp-kafka compare volume.csv --methods sw_direct,capp,segment_mean --domain 0,8000 \\",
    "    --epsilon 0.5,1,2 --window 10 --plot errors.png",
    "ldp-kafka compare meters.parquet --methods sw_direct,lpu,lpa --domain 0,8000 --epsilon 1 \\",
    "    --window 24 --slot 1h --user-column meter --value-column kwh --time-column ts",
    "ldp-kafka compare volume.csv --methods gaussian_direct,cgm --domain 0,8000 --epsilon 1,4 \\",
    "    --window 10 --parameter delta=1e-5 --slice 20",
))  # fmt: skip
@click.argument("file", type=FILE)
@click.option("--methods", required=True, metavar="NAMES", help="Methods and protocols: a,b,c.")
@click.option("--epsilon", "epsilons", type=Numbers(), required=True, help="One, or several: 1,2.")
@click.option("--window", type=int, required=True, help="Slots of the privacy window.")
@click.option("--domain", type=Numbers(), metavar="LO,HI", help="Public range of a value.")
@with_columns
@click.option(
    "--slot",
    metavar="DURATION",
    help="Go by the times: slots are so long, such as 1h.  [default: each row of a user is its"
    " next slot]",
)
@click.option(
    "--slice",
    "users",
    type=click.IntRange(1),
    metavar="USERS",
    help="Cut the one series of the file into so many users.",
)
@click.option("--delay", type=int, help="Of methods that release windows.  [default: --window]")
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=JSON",
    help="A further parameter of each method that takes it, such as delta=1e-5.",
)
@click.option("--repeats", type=click.IntRange(2), default=10, show_default=True, help="Runs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the noise.")
@click.option("--plot", type=FILE, help="Draw errors against epsilon: a PNG.")
@as_json
def compare(
    *,
    file: Path,
    methods: str,
    domain: tuple[float, ...] | None,
    columns: Columns,
    slot: str | None,
    users: int | None,
    delay: int | None,
    parameters: tuple[str, ...],
    plot: Path | None,
    json_: bool,
    **how: Any,
) -> None:
    """Run methods on your own values, and say how far off each is, beside a constant that needs no
    report, and which to take.

    FILE is CSV or Parquet, as for `ldp-kafka replay`; where it has no column of users, all rows are
    one user's. A row without a value, or a slot without a row, is a slot in which the user is
    silent. Errors are root mean squares in the unit of the values, of one user's slots, of one
    user's means over windows, and, of several users, of the crowd's mean of a slot. What is not
    released yet is what was released last, at first the domain's midpoint, which is also the
    constant.

    Methods are compared with those of the same level of guarantee. What releases windows is there
    at two: its own, one slot's value, and that of the window. All are sound. Noise is seeded, so
    figures repeat. This looks at the values, and so does a choice by it: take values that may be
    looked at.
    """
    from ldp_kafka.evaluation import plots
    from ldp_kafka.evaluation.compare import lines, panels, rows, verdicts
    from ldp_kafka.evaluation.experiments import as_plain
    from ldp_kafka.runtime.compare import streams_of
    from ldp_kafka.runtime.demo.show import waiting
    from ldp_kafka.runtime.replay.files import read_sheet

    if domain is None or len(domain) != 2:
        raise ConfigurationError(
            "give --domain LO,HI: it is public, and so it is not taken from the data, whose least"
            " and greatest value it would tell"
        )
    if plot is not None:
        plots.needed()
    user, value, time = columns["user"], columns["value"], columns["when"]
    sheet = read_sheet(
        file, (user, value, time), (value,), (user,), columns["delimiter"], columns["tell"]
    )
    streams = streams_of(
        *(sheet.table, user, value, time),
        slot=slot,
        users=users,
        place=sheet.place,
        tell=columns["tell"],
    )
    if outside := int(((streams < domain[0]) | (streams > domain[1])).sum()):
        columns["tell"](f"{outside:,} values lie outside of the domain: every method clamps them")
    names = [name.strip() for name in methods.split(",")]
    further = dict(map(parameter, parameters)) | ({} if delay is None else {"delay": delay})
    title = f"{file.name}: {len(streams):,} users, {streams.shape[1]:,} slots"
    with waiting(title):
        found = rows(streams, names, domain=domain, parameters=further, **how)
    if plot is not None:
        plots.draw(plot, title, panels(found))
    if json_:
        document = {"users": len(streams), "slots": streams.shape[1], "domain": domain, **how}
        told = [each._asdict() for each in verdicts(found)]
        print_json(document | {"rows": as_plain(found), "verdicts": told})
        return
    click.echo("\n".join(lines(found)))
