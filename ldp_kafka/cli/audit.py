"""``ldp-kafka audit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp_kafka.cli.given import imported, json_value, named, parameter
from ldp_kafka.cli.options import FAILED, FILE, as_json, example, print_json
from ldp_kafka.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ldp_kafka.audits import AuditResult, BitsResult

__all__ = ["audit"]


@click.command(epilog=example(
    "ldp-kafka audit --mechanism square_wave --epsilon 1 --domain 0 1",
    "ldp-kafka audit --callable mycode:randomize --inputs 0 1 --epsilon 1 --plot audit.png",
    "ldp-kafka audit --topics a.reports b.reports --bootstrap-servers localhost:9092 --epsilon 1",
))  # fmt: skip
@click.option(
    "--mechanism",
    metavar="NAME",
    help=(
        "A mechanism of this library; it is also built with --epsilon, --domain, --categories and"
        " --parameter."
    ),
)
@click.option(
    "--callable",
    "target",
    metavar="MODULE:FUNCTION",
    help="A function of an array of equal inputs that returns a report for each.",
)
@click.option(
    "--each",
    "each_",
    is_flag=True,
    help="The --callable takes single values: call it once for each report.",
)
@click.option(
    "--reports",
    "files",
    type=FILE,
    nargs=2,
    metavar="FIRST SECOND",
    help="Dumps of two topics of reports; in each, all users have the same value.",
)
@click.option(
    "--topics",
    nargs=2,
    metavar="FIRST SECOND",
    help=(
        "The same, read from Kafka: two topics of reports, from their beginning to their present"
        " end."
    ),
)
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Of the --topics.")
@click.option(
    "--client",
    "client",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another option of the Kafka client for the --topics, such as security.protocol=SSL.",
)
@click.option("--epsilon", type=float, help="Of the mechanism; for anything else what is claimed.")
@click.option("--claimed", type=float, help="What is claimed, if not --epsilon.")
@click.option(
    "--delta", type=float, help="What is claimed beside it; default: the mechanism's, or 0."
)
@click.option(
    "--domain", type=float, nargs=2, metavar="LO HI", help="Of the mechanism, or of the --formula."
)
@click.option("--categories", type=int, help="Of the mechanism.")
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another parameter of the mechanism, such as cells=4096.",
)
@click.option(
    "--inputs",
    nargs=2,
    metavar="X0 X1",
    help="Two inputs, numbers or JSON lists; default for a mechanism: several pairs that try it.",
)
@click.option(
    "--formula",
    type=click.Choice(["additive", "laplace", "piecewise", "square_wave"]),
    help="How the --callable computes, for a preimage attack.",
)
@click.option("--bits", is_flag=True, help="Reports are bits: look at each of them.")
@click.option(
    "-n",
    "--samples",
    type=click.IntRange(100),
    default=1_000_000,
    show_default=True,
    help="Reports of each input.",
)
@click.option(
    "--alpha",
    type=float,
    default=0.01,
    show_default=True,
    help=(
        "How likely a bound above the truth may be; 1e-6 where audits run again and again, as in"
        " CI."
    ),
)
@click.option("--plot", "picture", type=FILE, help="Draw the log likelihood ratios to a PNG.")
@as_json
def audit(
    *,
    picture: Path | None,
    json_: bool,
    mechanism: str | None,
    target: str | None,
    files: tuple[Path, Path] | None,
    topics: tuple[str, str] | None,
    **settings: Any,
) -> int:
    """Attack a randomizer: a lower bound on its epsilon from what it reports, with a confidence.

    Give one of --mechanism, --callable, --reports and --topics. The exit code is 1 where the bound
    is above what was claimed. A bound below it proves no more than its power says: the losses that
    would have been found.

    Files hold what a topic held, as Arrow messages one after the other or JSON lines; plain lines
    of JSON numbers or lists will do too.
    """
    from ldp_kafka.runtime.demo.show import waiting

    if sum(what is not None for what in (mechanism, target, files, topics)) != 1:
        raise click.UsageError("give one of --mechanism, --callable, --reports and --topics")
    if (topics is None) != (settings["bootstrap_servers"] is None):
        raise click.UsageError("--topics and --bootstrap-servers go together")
    claimed = settings["epsilon"] if settings["claimed"] is None else settings["claimed"]
    settings["claimed"] = claimed
    try:
        with waiting("the audit draws and counts"):
            if files is not None or topics is not None:
                found = _of_reports(
                    *(_dumped(files) if files is not None else _kept(topics, **settings)),
                    **settings,
                )
            else:
                found = _of_target(mechanism, target, **settings)
    except (TypeError, ValueError) as error:
        raise (
            error if isinstance(error, ConfigurationError) else ConfigurationError(str(error))
        ) from None
    print_json(found.to_dict()) if json_ else click.echo("\n".join(found.lines()))
    if picture is not None:
        _draw(picture, found, mechanism or target or "two sets of reports")
    return FAILED if found.violated else 0


def _of_target(
    mechanism: str | None, target: str | None, **settings: Any
) -> AuditResult | BitsResult:
    from ldp_kafka import audits
    from ldp_kafka.audits.run import sample

    if mechanism is None:
        made = imported(str(target), "--callable")
        made = audits.each(made) if settings["each_"] else made
    else:
        made = _built(mechanism, **settings)
    pair = settings["inputs"]
    pairs = [tuple(json_value(text, "--inputs") for text in pair)] if pair else None
    if pairs is None and mechanism is None:
        raise click.UsageError("a --callable needs --inputs")
    if settings["bits"]:
        first, second = pairs[0] if pairs else audits.pairs_of(made)[-1]
        both = (sample(made, value, settings["samples"]) for value in (first, second))
        return audits.audit_bits(*both, claimed=settings["claimed"], alpha=settings["alpha"])
    shared = {
        "claimed": settings["claimed"],
        "reports": settings["samples"],
        "delta": settings["delta"],
    }
    return audits.audit_pairs(
        made, pairs, alpha=settings["alpha"], formula=_formula(**settings), **shared
    )


def _dumped(files: tuple[Path, Path]) -> tuple[NDArray[Any], NDArray[Any]]:
    from ldp_kafka.cli.audit_files import read

    return read(files[0]), read(files[1])


def _kept(
    topics: tuple[str, str] | None, *, bootstrap_servers: str, client: tuple[str, ...], **_: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    from ldp_kafka.cli.audit_files import reports
    from ldp_kafka.runtime.kafka.oauth import for_librdkafka
    from ldp_kafka.runtime.kafka.reader import read_topic

    options = for_librdkafka(dict(named(each, "--client") for each in client))
    first, second = (
        reports(read_topic({**options, "bootstrap.servers": bootstrap_servers}, topic), topic)
        for topic in topics or ()
    )
    return first, second


def _of_reports(
    first: NDArray[Any], second: NDArray[Any], **settings: Any
) -> AuditResult | BitsResult:
    from ldp_kafka import audits

    if settings["formula"] or settings["inputs"]:
        raise click.UsageError("--formula and --inputs are for what the audit can call itself")
    if settings["bits"]:
        return audits.audit_bits(
            first, second, claimed=settings["claimed"], alpha=settings["alpha"]
        )
    return audits.audit_reports(
        first,
        second,
        claimed=settings["claimed"],
        delta=settings["delta"] or 0.0,
        alpha=settings["alpha"],
    )


def _built(
    name: str,
    *,
    epsilon: float | None,
    domain: tuple[float, float] | None,
    categories: int | None,
    parameters: tuple[str, ...],
    **_: Any,
) -> Any:
    import ldp_kafka

    given: dict[str, Any] = {"epsilon": epsilon, "domain": domain, "categories": categories}
    given |= dict(map(parameter, parameters))
    make: Callable[..., Any] = ldp_kafka.mechanism  # the name comes with the run
    return make(name, **{key: value for key, value in given.items() if value is not None})


def _formula(
    *, formula: str | None, epsilon: float | None, domain: tuple[float, float] | None, **_: Any
) -> Any:
    from ldp_kafka.audits import FORMULAS

    if formula is None:
        return None
    if formula != "additive" and (epsilon is None or domain is None):
        raise click.UsageError(f"--formula {formula} needs --epsilon and --domain")
    return FORMULAS[formula](
        1.0 if epsilon is None else epsilon, (0.0, 1.0) if domain is None else domain
    )


def _draw(picture: Path, found: AuditResult | BitsResult, title: str) -> None:
    from ldp_kafka.audits import AuditResult
    from ldp_kafka.audits.plot import plot

    if not isinstance(found, AuditResult) or not found.bins:
        click.echo("nothing to draw: the finding has no likelihood ratios of sets", err=True)
        return
    plot(picture, found, title=f"Audit of {title}")
    click.echo(f"{picture}: log likelihood ratios", err=True)
