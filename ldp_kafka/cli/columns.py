"""The columns of a table that is replayed or tried, and what parts its cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypedDict, TypeVar

import click

__all__ = ["Columns", "tell", "with_columns"]

F = TypeVar("F", bound=Callable[..., Any])


class Columns(TypedDict):
    """As `ldp_kafka.runtime.replay.read_file` takes them."""

    user: str
    value: str
    when: str
    delimiter: str | None
    tell: Callable[[str], None]


def tell(line: str) -> None:
    """What is to be known beside the result."""
    click.echo(f"note: {line}", err=True)


def with_columns(command: F) -> F:
    """Add the options; the command gets them as ``columns``."""

    @wraps(command)
    def given(
        *arguments: Any,
        user_column: str,
        value_column: str,
        time_column: str,
        delimiter: str | None,
        **more: Any,
    ) -> Any:
        columns = Columns(
            user=user_column, value=value_column, when=time_column, delimiter=delimiter, tell=tell
        )
        return command(*arguments, columns=columns, **more)

    for option in reversed(_OPTIONS):
        given = option(given)
    return given  # type: ignore[return-value]


_OPTIONS = (
    click.option("--user-column", default="user", show_default=True, help="Of a table."),
    click.option(
        "--value-column",
        default="value",
        show_default=True,
        help="Of a table. Lists of numbers: a column of lists (in CSV as JSON), or LAT,LON: one a"
        " number.",
    ),
    click.option(
        "--time-column",
        default="time",
        show_default=True,
        help="Of a table: epoch seconds or milliseconds, or ISO 8601.",
    ),
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="What parts the cells of a CSV file, such as ';' or tab.  [default: found among"
        " comma, semicolon, tab and |, and said]",
    ),
)
