"""The rules of a start as a table of README.md: ``python -m ldp_kafka.runtime.recovery.rules_page``
writes it anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from ldp_kafka.runtime.recovery.rules import RULES

__all__ = ["page", "written"]

PAGE = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"
WIDTH = 100


def page() -> str:
    """The part of the page that is made from the rules."""
    parts = []
    for name, rule in RULES.items():
        error, way_out = (_plain(text) for text in (rule.error, rule.way_out))
        parts.append(f"### `{name}`\n")
        rows = (("Must hold", rule.holds), ("Error", error), ("Way out", way_out))
        parts += [_item(f"**{head}**: {text}.") for head, text in rows]
        parts.append("")
    return "\n".join(parts).strip()


def _plain(text: str) -> str:
    """Placeholders by their last name: ``{facts.position.start}`` is ``*start*``."""
    return re.sub(r"\{(?:\w+\.)*(\w+)\}", r"*\1*", text)


def _item(text: str) -> str:
    """One item of a list, in lines that are not too long."""
    lines, line = [], "-"
    for word in text.split():
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = " "
        line += f" {word}"
    return "\n".join([*lines, line])


def written(text: str) -> str:
    """A page with its part made anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{page()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
