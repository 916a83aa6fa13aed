"""One table or figure of a paper: how it is made, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ldp_kafka.evaluation.claims import Claim

__all__ = ["Table", "lazy"]


class Table(NamedTuple):
    """One table: what it shows, and how it is made."""

    title: str
    make: Callable[[], Sequence[Any]]
    """Rows, NamedTuples of one kind."""
    quick: Callable[[], Sequence[Any]] | None = None
    """The same in seconds: fewer rows, runs or users. None: there is no such form."""
    claims: Callable[[Sequence[Any]], Sequence[Claim]] | None = None
    """What its paper says of the rows."""
    plot: Callable[[Sequence[Any], Path], list[Path]] | None = None
    """Draws the rows as PNG files, whose paths begin with the one given."""


def lazy(
    load: Callable[[str], Any],
    title: str,
    module: str,
    of: str,
    quick: dict[str, Any],
    claims: tuple[str, str],
    *,
    panels: tuple[str, ...] = (),
) -> Table:
    """One whose rows are ``module.of()``, ``module.of(**quick)`` in seconds, and whose modules are
    loaded when it is asked for.

    Parameters
    ----------
    load : gives a module by its name
    claims : the module and the function of the rows that make them
    panels : figures, one PNG each: what ``module.panels(rows, figure)`` draws; "": its only one
    """

    def make() -> Sequence[Any]:
        return _made(load(module), of, {})

    def fast() -> Sequence[Any]:
        return _made(load(module), of, quick)

    def said(rows: Sequence[Any]) -> Sequence[Claim]:
        found: Sequence[Claim] = getattr(load(claims[0]), claims[1])(rows)
        return found

    def plot(rows: Sequence[Any], stem: Path) -> list[Path]:
        from ldp_kafka.evaluation.plots import draw

        of_rows = load(module).panels
        return [
            draw(stem.with_name(f"{stem.name}-{figure}.png"), title, of_rows(rows, figure))
            if figure
            else draw(stem.with_name(f"{stem.name}.png"), title, of_rows(rows))
            for figure in panels
        ]

    return Table(title, make, fast, said, plot if panels else None)


def _made(module: Any, of: str, parameters: dict[str, Any]) -> Sequence[Any]:
    made: Sequence[Any] = getattr(module, of)(**parameters)
    return made
