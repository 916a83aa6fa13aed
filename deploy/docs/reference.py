"""Pages and tables of the reference, made from what the code itself looks up: registries, the JSON
schemas, the metrics, the commands. What is added there has its page or its line by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

import ldp_kafka as lk
from ldp_kafka import metrics
from ldp_kafka.cli import cli
from ldp_kafka.errors import Dropped, Reason
from ldp_kafka.evaluation.coverage.streams import STREAMS
from ldp_kafka.methods.delay import StreamMethod
from ldp_kafka.methods.segments import Segmented
from ldp_kafka.methods.split import Split
from ldp_kafka.methods.timed import Timed
from ldp_kafka.methods.user_level import UserLevel
from ldp_kafka.runtime.coverage.table import so_far
from ldp_kafka.statistics import STATISTICS
from ldp_kafka.topology.schema import schema

__all__ = ["REGISTRIES", "TABLES", "pages"]

REGISTRIES: dict[str, dict[str, Any]] = {
    "mechanisms": lk.MECHANISMS,
    "methods": lk.METHODS,
    "protocols": lk.PROTOCOLS,
    "statistics": STATISTICS,
}
"""Folders of the reference, with a page for each name."""
QUESTIONS: dict[str, tuple[tuple[str, type], ...]] = {
    "methods": (
        ("When was a value taken?", Timed),
        ("A user's whole stream", UserLevel),
        ("Windows that may be late", lk.DelayMethod),
        ("Sums and means of a stream, at a curator", StreamMethod),
        ("Vectors", Split),
        ("One report for a segment", Segmented),
        ("Every slot of a window", lk.SlotMethod),
    )
}
"""Of a registry, the base class that answers each; the first that fits decides."""
COVERAGE = Path(__file__).with_name("coverage.jsonl")
KINDS: tuple[type, ...] = (lk.SlotMethod, lk.DelayMethod, lk.Protocol)
# what a name's page has of its class: members are those of the base class, which has a page
ALONE = "    options: {members: false, inherited_members: false, show_bases: false}\n"


def pages() -> dict[str, str]:
    """Markdown of the page of each registered name, by the page's path."""
    return {
        f"reference/{kind}/{name}.md": f"# `{name}`\n\n{documented(made)}\n{ALONE}\n{shared(made)}"
        for kind, registry in REGISTRIES.items()
        for name, made in registry.items()
    }


def shared(made: Any) -> str:
    """Where the parameters and members are that all of a registry have."""
    bases = [base for base in KINDS if inspect.isclass(made) and issubclass(made, base)]
    bases += [lk.Mechanism] if made in lk.MECHANISMS.values() else []
    return "".join(
        f"Parameters and members that all of its kind have: [`{base.__name__}`]"
        f"(../python/classes.md#{base.__module__}.{base.__qualname__}).\n"
        for base in bases
    )


def documented(made: Any) -> str:
    """The line that mkdocstrings replaces by the docstring of a function or class."""
    return f"::: {made.__module__}.{made.__qualname__}"


def grouped(kind: str) -> dict[str, list[str]]:
    """The names of a registry by the question that they answer, in the order of `QUESTIONS`; of a
    registry without questions all, under an empty one.
    """
    found: dict[str, list[str]] = {question: [] for question, _ in QUESTIONS.get(kind, ())}
    for name, made in REGISTRIES[kind].items():
        bases = ((q, base) for q, base in QUESTIONS.get(kind, ()) if issubclass(made, base))
        found.setdefault(next(bases, ("", object))[0], []).append(name)
    return found


def registered(kind: str) -> str:
    """The names of a registry, each with the first sentence about it: a table for a question."""
    parts = []
    for question, names in grouped(kind).items():
        rows = [
            (f"[`{name}`]({name}.md)", first_sentence(REGISTRIES[kind][name])) for name in names
        ]
        head = f"### {question}\n\n" if question else ""
        parts.append(head + table(("name", "what it is"), rows))
    return "\n\n".join(parts)


def first_sentence(made: Any) -> str:
    """Of its docstring, on one line."""
    text = " ".join((inspect.getdoc(made) or "").partition("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".").replace("``", "`") + "."


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    titles = tuple(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )


def keys(kind: str) -> str:
    """The keys of a topology, or of a budget file: a table for each section."""
    document = schema(kind)
    sections = {"top": ("Top level", document["properties"])}
    for name, found in document["properties"].items():
        under = resolved(found, document)
        if "properties" in under:
            sections[name] = (f"`{name}`", {name: under})
            sections["top"] = ("Top level", without(sections["top"][1], name))
    parts = []
    for name, (title, properties) in sections.items():
        required = document["required"] if name == "top" else ()
        rows = [*lines({"properties": properties, "required": required}, document, "")]
        said = "" if name == "top" else properties[name].get("description", "") + "\n\n"
        head = ("key", "values", "default", "what it is")
        parts.append(f"### {title} {{ #{kind}-{name} }}\n\n{said}{table(head, rows)}")
    return "\n\n".join(parts)


def without(properties: dict[str, Any], name: str) -> dict[str, Any]:
    """The same but for one."""
    return {key: value for key, value in properties.items() if key != name}


def lines(
    node: dict[str, Any], document: dict[str, Any], path: str
) -> Iterator[tuple[str, str, str, str]]:
    """Key, values, default and description of each key, those of mappings and lists behind it."""
    for name, found in node["properties"].items():
        under = resolved(found, document)
        inner = resolved(under.get("items", under), document)
        if path or "properties" not in under:  # a section's title has its description
            default = "required" if name in node.get("required", ()) else ""
            if "default" in under:
                default = shown(under["default"])
            said = under.get("description", "").replace("\n", " ")
            yield f"`{path}{name}`", domain(under), default, said
        if "properties" in inner:
            below = f"{path}{name}." if inner is under else f"{path}{name}[]."
            yield from lines(inner, document, below)


def resolved(node: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to."""
    if "$ref" not in node:
        return node
    target: Any = document
    for part in node["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def domain(node: dict[str, Any]) -> str:
    """What a key's value may be, in words."""
    if "enum" in node:
        return ", ".join(shown(each) for each in node["enum"])
    if "patternErrorMessage" in node:
        return str(node["patternErrorMessage"]).removeprefix("must be ")
    if node.get("type") == "array":
        inner = domain(node["items"])
        lengths = {node.get("minItems"), node.get("maxItems")}
        return f"{min(lengths)} of: {inner}" if lengths == {2} else f"a list of: {inner}"
    names = {"array": "a list", "boolean": "true or false", "object": "a mapping", "string": "text"}
    names |= {"integer": "a whole number", "number": "a number", "null": "empty"}
    kinds = node.get("type", [])
    words = " or ".join(names[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    bounds = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {node[key]:,}" for key, word in bounds.items() if key in node]
    return ", ".join([words, " ".join(limits)]) if limits else words


def shown(value: Any) -> str:
    """A value as YAML has it."""
    if isinstance(value, bool) or value is None:
        return {True: "`true`", False: "`false`", None: "none"}[value]
    return f"`{value}`"


def commands() -> str:
    """Every command and its help, as the terminal shows it."""

    def each(command: click.Command, name: str, above: click.Context | None) -> Iterator[str]:
        settings = {"terminal_width": 80, **command.context_settings}
        context = click.Context(command, info_name=name, parent=above, **settings)
        path = context.command_path
        yield f"{'###' if above else '##'} `{path}` {{ #{path.replace(' ', '-')} }}"
        yield f"```text\n{command.get_help(context)}\n```"
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                yield from each(command.commands[below], below, context)

    return "\n\n".join(each(cli, "ldp-kafka", None))


def measured() -> str:
    """Every metric, where it exists and what it says."""
    rows = [
        (
            f"`{family.name}`",
            family.kind.__name__.lower(),
            " and ".join(sorted(family.sides, reverse=True)),
            ", ".join(f"`{label}`" for label in family.labels),
            family.help,
        )
        for family in metrics.FAMILIES
    ]
    return table(("metric", "kind", "at the", "own labels", "what it says"), rows)


def members(wanted: Callable[[Any], bool]) -> Callable[[], str]:
    """The members of ``lk.__all__`` of one kind."""
    found = [(name, getattr(lk, name)) for name in lk.__all__]
    return lambda: "\n\n".join(documented(made) for _, made in found if wanted(made))


def streams() -> str:
    """What moves on the streams that intervals are judged on."""
    return table(("stream", "what moves"), STREAMS.items())


def coverage() -> str:
    """What `ldp-kafka evaluate coverage --out deploy/docs` has written."""
    if not COVERAGE.exists():
        return "Not measured yet: `ldp-kafka evaluate coverage --out deploy/docs` makes the tables."
    return so_far(COVERAGE)


TABLES: dict[str, Callable[[], str]] = {
    "streams": streams,
    "coverage": coverage,
    **{kind: lambda kind=kind: registered(kind) for kind in REGISTRIES},  # type: ignore[misc]
    "topology": lambda: keys("topology"),
    "edge": lambda: keys("edge"),
    "commands": commands,
    "metrics": measured,
    "functions": members(inspect.isfunction),
    # errors have a page
    "classes": members(
        lambda made: inspect.isclass(made) and made.__module__ != lk.errors.__name__
    ),
    "reasons": lambda: table(
        ("reason", "what is wrong", "what to do"),
        [(f"`{one.value}`", one.meaning, one.cure) for one in Reason],
    ),
    "dropped": lambda: table(
        ("reason", "what is wrong"), [(f"`{one.value}`", one.meaning) for one in Dropped]
    ),
}
"""What ``<!-- table: NAME -->`` on a page is replaced by."""
