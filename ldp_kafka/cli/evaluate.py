"""``ldp-kafka evaluate``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ldp_kafka.accounting.words import did_you_mean
from ldp_kafka.cli.options import FOLDER, as_json, example, print_json
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.claims import Claim, as_plain

__all__ = ["evaluate"]

COVERAGE = "coverage"
_TITLE = "95 % intervals: how often they hold the truth, and how wide they are"


@click.command(
    epilog=example(
        "ldp-kafka evaluate shrinkage",
        "ldp-kafka evaluate capp-order --json",
        "ldp-kafka evaluate ldp-ids-window --quick --out figures",
        "ldp-kafka evaluate delay-clipping --out figures",
        "ldp-kafka evaluate coverage --quick --only sw_direct,lpu/frequencies --jobs 2",
        "ldp-kafka evaluate --all --out report",
    )
)
@click.argument("experiment", required=False)
@click.option("--all", "all_", is_flag=True, help="Every experiment, and a page of them in --out.")
@click.option(
    "--depth",
    type=click.Choice(["quick", "full"]),
    help="quick: fewer settings and runs, in seconds.  [default: full; --all: quick]",
)
@click.option("--quick", "depth", flag_value="quick", help="The same as --depth quick.")
@click.option("--out", type=FOLDER, help="Write EXPERIMENT.json and its plots there too.")
@click.option("--only", metavar="METHODS", help="coverage: of these, METHOD or METHOD/STATISTIC.")
@click.option("--runs", type=click.IntRange(2), help="coverage: runs of each cell.")
@click.option(
    "--seed", type=click.IntRange(0), help="coverage: of streams and noise.  [default: 1]"
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="coverage, --all: processes.  [default: 1; --all: one a core]",
)
@as_json
def evaluate(
    *,
    experiment: str | None,
    all_: bool,
    depth: str | None,
    out: Path | None,
    only: str | None,
    runs: int | None,
    seed: int | None,
    jobs: int | None,
    json_: bool,
) -> None:
    """Reproduce a table or figure of the papers, with the figures of the constants beside it, and
    say which of the paper's statements it reproduces. Without EXPERIMENT: list them.

    coverage is none of the papers': it runs a topology of every method, and says in how many slots
    95 % intervals hold the truth, and how wide they are beside the narrowest that would. All of it
    takes hours; with --out it goes on where it was stopped.

    --all makes every experiment of the papers, and OUT/index.html, one page of all tables, plots
    and statements that needs no network. What OUT has of this version at this depth is not made
    again; an experiment whose data set is missing is left out, and the page says so.

    The data sets are not part of this package; LDP_KAFKA_DATA names their folder. Where one is
    missing, the error says what to get, from where, and under which licence. Noise is seeded, so
    figures repeat.
    """
    from ldp_kafka.evaluation.experiments import EXPERIMENTS, document, evaluated
    from ldp_kafka.runtime.demo.show import waiting

    titles = {**{name: made.title for name, made in EXPERIMENTS.items()}, COVERAGE: _TITLE}
    given = {"only": only, "runs": runs, "seed": seed, "jobs": jobs}
    more = [name for name, value in given.items() if value is not None]
    if all_:
        more = [name for name in more if name != "jobs"]
    if experiment != COVERAGE and more:
        raise ConfigurationError(f"--{more[0]} is of coverage: ldp-kafka evaluate coverage")
    if all_:
        if experiment is not None or out is None:
            raise ConfigurationError("say what to make: --all --out FOLDER, or EXPERIMENT")
        _all(out, jobs or os.cpu_count() or 1, quick=depth != "full", json_=json_)
        return
    quick = depth == "quick"
    if experiment is None:
        _list(titles, json_=json_)
        return
    if experiment not in titles:
        meant = did_you_mean(experiment, titles)
        raise ConfigurationError(
            f"unknown experiment {experiment!r}{meant}; known: {', '.join(titles)}"
        )
    if experiment == COVERAGE:
        _coverage(quick, out, only, runs, 1 if seed is None else seed, jobs or 1, json_=json_)
        return
    try:
        with waiting(titles[experiment]):
            result = evaluated(experiment, quick=quick, directory=out)
    except FileNotFoundError as error:
        raise ConfigurationError(str(error)) from None
    plots = [str(path) for paths in result.plots.values() for path in paths]
    _show(document(experiment, result, quick=quick), result.claims, out, plots, json_=json_)


def _list(titles: dict[str, str], *, json_: bool) -> None:
    if json_:
        print_json(titles)
    else:
        click.echo("\n".join(f"{name:16} {title}" for name, title in titles.items()))


def _all(out: Path, jobs: int, *, quick: bool, json_: bool) -> None:
    from ldp_kafka.evaluation.experiments import EXPERIMENTS
    from ldp_kafka.evaluation.report.papers import PAPERS
    from ldp_kafka.evaluation.report.run import PAGE, report
    from ldp_kafka.runtime.demo.show import bars

    with bars([("experiments", len(EXPERIMENTS))]) as show:
        made = report(out, quick=quick, jobs=jobs, progress=partial(show, 0))
    tally = made.tally(*PAPERS)
    if json_:
        print_json({**tally._asdict(), "absent": made.absent, "page": str(out / PAGE)})
        return
    lacking = f"{len(made.absent)} left out, since a data set is missing"
    for line in (f"{tally.experiments} experiments, {lacking}", *tally.lines(), str(out / PAGE)):
        click.echo(line)


def _coverage(
    quick: bool,
    out: Path | None,
    only: str | None,
    runs: int | None,
    seed: int,
    jobs: int,
    *,
    json_: bool,
) -> None:
    from ldp_kafka.runtime.coverage.table import evaluated, extent
    from ldp_kafka.runtime.demo.show import bars

    names = tuple(name.strip() for name in only.split(",")) if only else ()
    asked = extent(names, quick=quick, runs=runs)
    keep = None if out is None else out / f"{COVERAGE}.jsonl"
    with bars([("groups of cells", len(list(asked.groups)))]) as show:
        found = evaluated(asked, seed=seed, jobs=jobs, progress=partial(show, 0), keep=keep)
    document = {"experiment": COVERAGE, "title": _TITLE, "notes": found.notes, "rows": found.rows}
    document["claims"] = as_plain(found.claims)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{COVERAGE}.md").write_text(found.page, encoding="utf-8")
    pages = [] if out is None else [str(out / f"{COVERAGE}.md")]
    _show(document, found.claims, out, pages, json_=json_)


def _show(
    document: dict[str, Any],
    claims: Sequence[Claim],
    out: Path | None,
    more: Sequence[str],
    *,
    json_: bool,
) -> None:
    """Print an experiment, and write it."""
    from ldp_kafka.evaluation.claims import lines
    from ldp_kafka.evaluation.experiments import text, written

    files = [] if out is None else [str(written(out, document)), *more]
    if json_:
        print_json(document)
        return
    click.echo("\n".join([document["title"], *text(document["rows"])]))
    data = [f"data: {document['data']}"] if document.get("data") else []
    for block in (lines(claims), document.get("notes", []), data, files):
        if block:
            click.echo("\n".join(["", *block]))
