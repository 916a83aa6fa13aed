"""What the commands have in common."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ldp_kafka.topology import Topology

__all__ = [
    "CODES",
    "FAILED",
    "FILE",
    "FOLDER",
    "ROLE",
    "STOPPED",
    "WRONG",
    "as_json",
    "example",
    "load_topology",
    "print_json",
]

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class Roles(click.ParamType):
    """One of the roles that there are. They are asked for when they are needed: what knows them
    takes a third of a second to load, and most commands need none of it.
    """

    name = "role"

    def choice(self) -> click.Choice[str]:
        """The same, with the names in it."""
        from ldp_kafka.topology.roles import ROLES

        return click.Choice(list(ROLES))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.choice().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self.choice().get_metavar(param, ctx)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:
        return self.choice().get_missing_message(param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self.choice().shell_complete(ctx, param, incomplete)


ROLE = Roles()
FAILED, WRONG, STOPPED = 1, 2, 130
"""Exit codes: it failed; it was used wrongly, or is configured so that it cannot run; Ctrl-C. A
worker has one more, `runtime.worker.exits.RETRY`.
"""
CODES = """\b
Exit codes:
    0  done, or ended as it was told
    1  failed: the error says why; a worker that exits so needs somebody to look at it
    2  used wrongly, or configured so that it cannot run
   75  a worker lost its broker or a message: start it again (run without --role does)
  130  stopped by Ctrl-C
"""


def example(*lines: str) -> str:
    """An epilog that shows a command at work."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def as_json(command: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "json_", is_flag=True, help="Print JSON, for programs.")(command)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=2))


def load_topology(file: Path) -> Topology:
    """The topology in a file; its libraries are loaded only now."""
    from ldp_kafka.topology import load

    return load(file)
