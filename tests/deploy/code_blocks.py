"""The fenced blocks of a Markdown page, and what runs each of them.

A block runs where it stands unless a comment on its page says otherwise. The comment holds up to
the next heading, for blocks of the languages that it names::

    <!-- code sh, yaml: tests/broker/test_readme.py -->      that file runs them
    <!-- code sh: only checked, workers have no end -->      they are parsed, for this reason
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHECKED", "ROOT", "Block", "blocks", "written"]

ROOT = Path(__file__).parents[2]
CHECKED = "only checked, "
MARK = re.compile(r"^<!-- code ([a-z, ]+): (.+) -->$")
OPENING = re.compile(r"^( *)(`{3,})(\w*)")
SAVED = re.compile(r"as\s+`([\w.-]+)`[^`]*$")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    """Empty where the page names none: such a block shows something, and is no code."""
    text: str
    elsewhere: str
    """What the page's comment says of it; empty: it runs where it stands."""
    file: str
    """Under which name the sentence before it says to save it; empty: nowhere."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def written() -> list[Path]:
    """Every page: the site's own, and the repo's Markdown files that they include."""
    own = sorted((ROOT / "deploy" / "docs" / "pages").rglob("*.md"))
    named = {
        name
        for page in own
        for name in re.findall(r"^<!-- include: ([^#\s]+)", page.read_text("utf-8"), re.MULTILINE)
    }
    return [*own, *(ROOT / name for name in sorted(named))]


def blocks(page: Path) -> list[Block]:
    """A page's blocks, in their order."""
    found: list[Block] = []
    elsewhere: dict[str, str] = {}
    lines = page.read_text("utf-8").splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("#"):
            elsewhere = {}
        elif mark := MARK.match(line):
            elsewhere |= dict.fromkeys(mark[1].split(", "), mark[2])
        elif opening := OPENING.match(line):
            end = lines.index(opening[1] + opening[2], at)
            inside = [each.removeprefix(opening[1]) for each in lines[at:end]]
            before = "\n".join(lines[: at - 1]).rstrip().rpartition("\n\n")[2]
            saved = SAVED.search(before.rpartition("```")[2])
            found.append(
                Block(
                    page,
                    at,
                    opening[3],
                    "\n".join(inside) + "\n",
                    elsewhere.get(opening[3], ""),
                    saved[1] if saved else "",
                )
            )
            at = end + 1
    return found
