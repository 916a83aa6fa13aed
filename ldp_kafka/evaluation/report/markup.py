"""Pieces of HTML; what they are given is HTML where nothing else is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

__all__ = ["folded", "inline", "items", "link", "prose", "table"]

_NUMBER = re.compile(r"(<time>)?[-\d]")


def link(target: str, text: str, title: str = "") -> str:
    """A link to an id of the page; all of it text."""
    more = f' title="{escape(title)}"' if title else ""
    return f'<a href="#{target}"{more}>{escape(text)}</a>'


def items(of: Iterable[str], kind: str = "") -> str:
    """A list, if there is anything in it."""
    inner = "".join(f"<li>{each}</li>" for each in of)
    return f'<ul class="{kind}">{inner}</ul>' if inner else ""


def folded(title: str, inner: str) -> str:
    """What is shown when it is asked for; ``title`` is text."""
    return f"<details><summary>{escape(title)}</summary>{inner}</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in a box that scrolls; numbers to the right."""
    lines = [[*row] for row in rows]
    sides = [' class="number"' * bool(_NUMBER.match(each)) for each in lines[0]]

    def line(tag: str, cells: Sequence[str]) -> str:
        pairs = zip(sides, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{side}>{each}</{tag}>' for side, each in pairs)}</tr>"

    inner = "\n".join([line("th", head), *(line("td", cells) for cells in lines)])
    return f'<div class="scroll"><table>\n{inner}\n</table></div>'


def prose(text: str) -> str:
    r"""A docstring.

    Examples
    --------
    >>> prose("Of `this`:\n\n- one\n- two")
    '<p>Of <code>this</code>:</p><ul class=""><li>one</li><li>two</li></ul>'
    """
    marked = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(text.strip()))
    return "".join(
        items(block[2:].split("\n- ")) if block.startswith("- ") else f"<p>{block}</p>"
        for block in marked.split("\n\n")
    )


def inline(path: Path) -> str:
    """An SVG of `ldp_kafka.evaluation.plots.draw_apart` for a page: as wide as there is room, black
    in the colour of the text, and no id but those that it uses itself.
    """
    drawn = path.read_text(encoding="utf-8")
    drawn = drawn[drawn.index("<svg") :].replace("#000000", "currentColor")
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)
    return re.sub(r' (width|height)="[\d.]+pt"', "", drawn, count=2)
