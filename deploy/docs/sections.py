"""Sections of the repo's own Markdown files on the site's pages: a sentence has one home.

A page says ``<!-- include: README.md#try-it -->`` and gets that section without its heading, or
``<!-- include: docker/README.md -->`` and gets the whole file. Headings sink below the page's own.
The lines right below the comment, up to an empty one, are for readers of the page on GitHub, where
nothing is included: they name the file, and are not on the site.

Links are written as GitHub resolves them, in the repo's files and in pages. Those that leave the
pages, or lead to them, become links between pages of the site: to the page that includes what is
meant, or to a copy of a file that is no page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pymdownx.slugs import slugify

__all__ = ["FOLDER", "INCLUDE", "LINK", "Pages", "headings", "section", "unfenced"]

FOLDER = "deploy/docs/pages"
"""Where in the repo the pages are."""
INCLUDE = re.compile(
    r"^<!-- include: (?P<file>[^#\s]+)(?:#(?P<slug>\S+))? -->$(?P<instead>(?:\n\S.*)*)",
    re.MULTILINE,
)
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)[^)\s]+(?=\))")
# which GitHub makes of a heading, and Python-Markdown when it is told to (mkdocs.yml)
slug_of = slugify(case="lower")


def unfenced(text: str) -> Iterator[tuple[int, str, bool]]:
    """Number, text and whether it is outside all fenced blocks, of each line. The line that opens a
    block is outside of it.
    """
    fence = ""
    for number, line in enumerate(text.splitlines()):
        yield number, line, not fence
        if found := FENCE.match(line):
            if not fence:
                fence = found[1]
            elif line.strip().startswith(fence):
                fence = ""


def headings(text: str) -> list[tuple[int, int, str]]:
    """Line, level and slug of each heading."""
    return [
        (number, len(found[1]), slug_of(re.sub(r"[`*]", "", found[2]), "-"))
        for number, line, outside in unfenced(text)
        if outside and (found := HEADING.match(line))
    ]


def section(text: str, slug: str | None) -> tuple[str, list[str]]:
    """A section's body and the slugs that are in it, its own first. Of the title: what comes before
    the first other heading. ``None``: all below the title. KeyError where there is none.
    """
    lines, found = text.splitlines(), headings(text)
    if slug is None:
        return "\n".join(lines[found[0][0] + 1 :]), [each for _, _, each in found]
    at = next((at for at, (_, _, each) in enumerate(found) if each == slug), None)
    if at is None:
        raise KeyError(slug)
    first, level, _ = found[at]
    end = at + 1
    while end < len(found) and level > 1 and found[end][1] > level:
        end += 1
    last = found[end][0] if end < len(found) else len(lines)
    return "\n".join(lines[first + 1 : last]), [each for _, _, each in found[at:end]]


@dataclass(frozen=True)
class Pages:
    """The site's pages, and where on them the repo's Markdown files are.

    Parameters
    ----------
    root : the repo
    texts : of each page that is written by hand, by its path on the site
    """

    root: Path
    texts: Mapping[str, str]
    homes: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    """Page of each (file, slug) that is on one; of a whole file the slug is empty."""
    copies: set[str] = field(default_factory=set, init=False)
    """Files that are linked and are no pages."""

    def __post_init__(self) -> None:
        for page, text in self.texts.items():
            for found in INCLUDE.finditer(text):
                file, slug = found["file"], found["slug"]
                _, slugs = section((self.root / file).read_text("utf-8"), slug)
                title = headings((self.root / file).read_text("utf-8"))[0][2]
                for each in (*slugs, *([""] if slugs[0] == title else [])):
                    if self.homes.setdefault((file, each), page) != page:
                        raise ValueError(f"{file}#{each} is on {page} and {self.homes[file, each]}")

    def render(self, page: str, text: str) -> str:
        """A page's Markdown with what it includes."""
        text = self.translated(page, text)
        levels = [(number, level) for number, level, _ in headings(text)]
        own = {slug for _, _, slug in headings(text)}

        def included(found: re.Match[str]) -> str:
            line = text.count("\n", 0, found.start())
            level = next(each for number, each in reversed(levels) if number < line)
            file, slug = found["file"], found["slug"]
            body, slugs = section((self.root / file).read_text("utf-8"), slug)
            inner = min((each for _, each, _ in headings(body)), default=0)
            body = nested(sunk(body, level + 1 - inner))
            body = LINK.sub(lambda link: self.target(page, file, link[0]), body)
            here = slugs[0]
            return body if here in own else f'<span id="{here}"></span>\n\n{body}'

        return INCLUDE.sub(included, text)

    def translated(self, page: str, text: str) -> str:
        """A page's own Markdown, with links out of the pages' folder made links of the site."""
        file = f"{FOLDER}/{page}"

        def link(found: re.Match[str]) -> str:
            path = resolved(file, found[0].partition("#")[0])
            return found[0] if inside(path) else self.target(page, file, found[0])

        return "\n".join(
            LINK.sub(link, line) if outside else line for _, line, outside in unfenced(text)
        )

    def target(self, page: str, file: str, link: str) -> str:
        """A link of a repo's file as a link of the page that includes it."""
        path, _, anchor = link.partition("#")
        path = resolved(file, path)
        home = self.homes.get((path, anchor))
        if home is None and inside(path):
            home = posixpath.relpath(path, FOLDER)
            slugs = {slug for _, _, slug in headings(self.texts.get(home, ""))}
            picture = not path.endswith(".md") and (self.root / path).is_file()
            if (home not in self.texts and not picture) or (anchor and anchor not in slugs):
                raise KeyError(f"{page}: there is no {path}#{anchor}, which {file} links")
        elif home is None:
            if anchor or path.endswith(".md"):
                raise KeyError(f"{page}: no page has {path}#{anchor}, which {file} links")
            if not (self.root / path).is_file():
                raise KeyError(f"{page}: there is no file {path}, which {file} links")
            self.copies.add(path)
            home = f"files/{path}"
        if home == page and anchor:
            return f"#{anchor}"
        return posixpath.relpath(home, posixpath.dirname(page)) + (f"#{anchor}" if anchor else "")


def resolved(file: str, path: str) -> str:
    """The path in the repo of what a file links; its own where it links a place in itself."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), path)) if path else file


def inside(path: str) -> bool:
    """Whether a file of the repo is one of the pages."""
    return path.startswith(f"{FOLDER}/")


def sunk(text: str, by: int) -> str:
    """The same with its headings so many levels deeper."""
    return "\n".join(
        re.sub(r"^#+", lambda mark: "#" * (len(mark[0]) + by), line)
        if outside and HEADING.match(line)
        else line
        for _, line, outside in unfenced(text)
    )


def nested(text: str) -> str:
    """The same with what lists hold four columns deep, which Python-Markdown asks for, where
    GitHub's Markdown asks for as many as the mark has.
    """
    lines, widths = [], list[int]()  # columns of the text of the items that are open
    for _, line, outside in unfenced(text):
        depth = len(line) - len(line.lstrip(" "))
        if line.strip() and outside:
            while widths and depth < widths[-1]:
                widths.pop()
        levels = len(widths)
        shift = 4 * levels - (widths[-1] if widths else 0)
        lines.append(" " * shift + line if line.strip() else line)
        if outside and (mark := re.match(r"^ *(?:[-*]|\d+\.) +", line)):
            widths.append(len(mark[0]))
    return "\n".join(lines)
