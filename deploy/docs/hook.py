"""What MkDocs calls while it builds the site (`mkdocs.yml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reference
import sections
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["on_config", "on_files", "on_page_markdown"]

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "pages"
TABLE = "<!-- table: {} -->"

generated = reference.pages()
rendered: dict[str, str] = {}
"""Markdown of the pages that are written by hand, of this build."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the places of the navigation that stand for a folder of generated pages."""

    def filled(entry: Any) -> Any:
        if isinstance(entry, list):
            return [one for each in entry for one in spread(each)]
        if isinstance(entry, dict):
            return {title: filled(below) for title, below in entry.items()}
        return entry

    def listed(question: str, paths: list[str]) -> list[Any]:
        return [{question: paths}] if question else paths

    def spread(entry: Any) -> list[Any]:
        if isinstance(entry, str) and entry.endswith("/"):
            found = reference.grouped(entry.split("/")[-2])
            return [
                one
                for question, names in found.items()
                for one in listed(question, [f"{entry}{name}.md" for name in names])
            ]
        return [filled(entry)]

    config.nav = filled(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Read the pages; add generated ones, and the repo's files that pages link."""
    found = {path.relative_to(HERE).as_posix(): path for path in HERE.rglob("*.md")}
    texts = {name: path.read_text("utf-8") for name, path in found.items()}
    pages = sections.Pages(ROOT, texts)
    rendered.clear()
    rendered.update({name: pages.render(name, text) for name, text in texts.items()})
    made: dict[str, str | bytes] = {**generated}
    for path in sorted(pages.copies):
        made[f"files/{path}"] = (ROOT / path).read_bytes()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in what the page includes, and its tables."""
    del config, files
    text = rendered.get(page.file.src_uri, markdown)
    for name, write in reference.TABLES.items():
        place = TABLE.format(name)
        if place in text:
            text = text.replace(place, write())
    return text
