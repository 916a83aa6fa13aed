"""The lines of a worker's log, and the rules of its health, as parts of `deploy/README.md`:
``python -m ldp_kafka.runtime.worker.pages`` writes them anew.
"""

from __future__ import annotations

import logging
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from ldp_kafka.runtime.worker.events import COMMON, Event
from ldp_kafka.runtime.worker.health_rules import RULES, Rule

__all__ = ["PAGE", "events", "health", "written"]

PAGE = Path(__file__).parents[3] / "deploy" / "README.md"
WIDTH = 100


def events() -> str:
    """Every line that a log may hold."""
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


def health() -> str:
    """Every rule of a worker's health."""
    head = "| Rule | What is seen | For more than | What follows | What is said |"
    rows = (f"| {name} | {' | '.join(_row(rule))} |" for name, rule in RULES.items())
    return "\n".join((head, "|---|---|---|---|---|", *rows))


def _row(rule: Rule) -> list[str]:
    after = "" if rule.after is None else f"{rule.after:g} s"
    code = "" if rule.code is None else f", with {rule.code}"
    says = re.sub(r"\{(?:\w+\.)+(\w+)[^}]*\}", r"*\1*", rule.says).format(after=rule.after)
    return [rule.seen, after, f"{rule.follows.words}{code}", says]


def written(text: str) -> str:
    """A page with its parts made anew."""
    for name, part in (("events", events()), ("health", health())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n\n{part}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    made = written(PAGE.read_text("utf-8"))
    PAGE.write_text(made, "utf-8")
