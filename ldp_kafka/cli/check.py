"""``ldp-kafka check``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ldp_kafka.cli.given import imported, parameter
from ldp_kafka.cli.options import FAILED, as_json, example, print_json
from ldp_kafka.errors import ConfigurationError

__all__ = ["check"]


@click.command(epilog=example(
    "ldp-kafka check my_package.mechanisms:Answer --categories 3",
    "ldp-kafka check my_package.methods:Alternate --domain 0 1 --window 2",
))  # fmt: skip
@click.argument("target", metavar="MODULE:NAME")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Nats.")
@click.option(
    "--window",
    type=int,
    default=2,
    show_default=True,
    help="Of a method, slots: short, since all outcomes of short streams are enumerated.",
)
@click.option("--domain", type=float, nargs=2, metavar="LO HI", help="Of numbers; default: 0 1.")
@click.option("--categories", type=int, help="How many; default, where it is for them: 3.")
@click.option(
    "--length",
    type=int,
    help="Of a method: slots of the streams that are enumerated, more than the window and what it"
    " remembers; default: 5, or one more than the window.",
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another parameter of it, such as block=3.",
)
@as_json
def check(
    target: str,
    *,
    epsilon: float,
    window: int,
    domain: tuple[float, float] | None,
    categories: int | None,
    length: int | None,
    parameters: tuple[str, ...],
    json_: bool,
) -> int:
    """Try a mechanism or a method of your own against the whole contract, a line a check.

    TARGET is a class, or a factory (epsilon, domain or categories) -> mechanism, in a module that
    can be imported from here. The exit code is 1 where a check fails. What a check looks at is in
    the docstring of its function in ldp_kafka.checks.
    """
    from ldp_kafka.checks import CheckFailure, check_mechanism, check_method
    from ldp_kafka.methods import Method

    found, more = imported(target, "TARGET"), dict(map(parameter, parameters))
    lines: list[dict[str, str | None]] = []

    def told(name: str, failure: str | None) -> None:
        lines.append({"check": name, "failure": failure})
        if not json_:
            click.echo(f"{'ok    ' if failure is None else 'FAILED'} {name}")
            if failure is not None:
                click.echo(f"       {failure}")

    try:
        if isinstance(found, type) and issubclass(found, Method):
            check_method(
                _method(found, epsilon, window, domain, categories, more),
                window,
                length=length,
                told=told,
            )
        else:
            check_mechanism(_mechanism(found, domain, categories, more), epsilon=epsilon, told=told)
    except CheckFailure as failure:
        if not lines:  # the first check of all stands alone
            told(*str(failure).split(": ", 1))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"cannot make {target}: {error}") from None
    if json_:
        print_json(lines)
    elif all(each["failure"] is None for each in lines):
        click.echo(f"{target} holds the contract: {len(lines)} checks")
    return 0 if all(each["failure"] is None for each in lines) else FAILED


def _mechanism(
    found: Any,
    domain: tuple[float, float] | None,
    categories: int | None,
    more: dict[str, Any],
) -> Callable[[float], Any]:
    from ldp_kafka.methods.made import parameters_of

    if not callable(found):
        raise ConfigurationError("must be a class or a function: a factory of mechanisms")
    takes = parameters_of(found) or {}
    if "categories" in takes:
        more["categories"] = 3 if categories is None else categories
    elif "domain" in takes:
        more["domain"] = domain or (0.0, 1.0)
    return lambda epsilon: found(epsilon, **more)


def _method(
    found: Any,
    epsilon: float,
    window: int,
    domain: tuple[float, float] | None,
    categories: int | None,
    more: dict[str, Any],
) -> Callable[..., Any]:
    more["epsilon"] = epsilon
    if found.kind == "numeric":
        more["domain"] = domain or (0.0, 1.0)
    else:
        more["categories"] = 3 if categories is None else categories
    if found.own_noise:
        return lambda: found(window=window, **more)
    return lambda mechanism: found(mechanism=mechanism, window=window, **more)
