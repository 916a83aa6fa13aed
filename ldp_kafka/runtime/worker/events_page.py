"""The lines of a worker's log as a part of `deploy/README.md`:
``python -m ldp_kafka.runtime.worker.events_page`` writes it anew.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping
from pathlib import Path

from ldp_kafka.runtime.worker.events import COMMON, Event

__all__ = ["page", "written"]

PAGE = Path(__file__).parents[3] / "deploy" / "README.md"
BEGIN, END = "<!-- events: begin -->", "<!-- events: end -->"
WIDTH = 100


def page() -> str:
    """The part of the page that is made from the events."""
    parts = [f"Every line has {_fields(COMMON)}.", ""]
    for event in Event:
        kind = event.value
        level = logging.getLevelName(kind.level).lower()
        fields = f" {_fields(kind.fields)}." if kind.fields else ""
        text = f"- `{kind.name}` ({level}): {kind.meaning}{fields}"
        parts += textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    parts[0] = textwrap.fill(parts[0], WIDTH, break_on_hyphens=False)
    return "\n".join(parts)


def _fields(of: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` ({says})" for name, says in of.items())


def written(text: str) -> str:
    """A page with its part made anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{page()}\n\n{END}{after}"


if __name__ == "__main__":
    made = written(PAGE.read_text("utf-8"))
    PAGE.write_text(made, "utf-8")
