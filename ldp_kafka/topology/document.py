"""YAML text as plain data that knows on which line each key stands; the only file that knows how a
YAML library reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import float_info
from typing import Any, NamedTuple

from ldp_kafka.errors import TopologyError
from ldp_kafka.topology.malformed import no_yaml
from ldp_kafka.topology.paths import Path

__all__ = ["Document", "Unset", "Variable", "key_text", "plain_scalar", "read"]

_DEEPEST = 16  # also ends an alias that contains itself
_VARIABLE = re.compile(
    r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<wrong>\$\{)"
)

_OF_A_SHELL = re.compile(r"\$(?P<name>[A-Z][A-Z0-9_]*)")
"""A variable as shells write it, which nobody means as text."""

# YAML 1.2, the core schema (section 10.3.2)
_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


_ROLES = {
    "edge": "the perturb role needs it",
    "collector": "every role needs it",
    "key": "whoever perturbs needs it, or the key itself in LDP_KAFKA_EDGE_KEY",
}
"""Who needs what a side's block says: perturb reads at the edge and writes to the collector's
cluster.
"""


_NOT_EMPTY = (("edge", "key_file"), ("edge", "budget_file"))
"""Where a variable that is set to nothing is as one that is not set: the files without which a
role must not run as if the topology named none."""


class Unset(str):
    """Text as it was written, with a variable in it that is not set here: one side's way to Kafka,
    or the edge's key or file of budgets, which only some roles need.
    """

    __slots__ = ("problem",)
    problem: TopologyError
    """What to say where it is needed."""


class Variable(NamedTuple):
    """One use of a variable of the environment."""

    path: Path
    name: str
    default: str | None
    whole: bool
    """Whether nothing stands beside it."""

    def __repr__(self) -> str:
        return "Variable()"  # a default may be a password


class Document(NamedTuple):
    """What a file says, and where."""

    file: str
    data: Any
    lines: Mapping[Path, int]
    """Of each key and list item, from 1."""
    problems: list[tuple[Path, TopologyError]]
    unread: set[Path]
    """Places whose values are problems already, and stand as None in ``data``."""
    variables: list[Variable]
    """In the order in which they stand in the file."""

    def __repr__(self) -> str:
        return f"Document({self.file!r})"  # never what it says: passwords are in it

    def problem(self, path: Path, message: str) -> tuple[Path, TopologyError]:
        """An error at ``path``, or at the nearest place above it that the file has."""
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        return path, TopologyError(
            message, file=self.file, line=self.lines.get(known, 1), key=key_text(path)
        )


def key_text(path: Path) -> str:
    """A place in the file as people write it.

    Examples
    --------
    >>> key_text(("output", "statistics", 0))
    'output.statistics[0]'

    """
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def read(text: str, file: str, environment: Mapping[str, str]) -> Document:
    """The document in ``text``.

    ``${NAME}`` and ``${NAME:-default}`` in scalars are taken from ``environment``, ``$$`` is a
    dollar sign; a plain scalar is typed after that, a quoted one stays text. A variable that is not
    set is a problem, but `Unset` for what stands below ``edge``, and for the addresses and client
    options below ``kafka.edge`` and ``kafka.collector``.

    Raises
    ------
    TopologyError : this is no YAML; everything less is in ``problems``

    """
    # Only now: the command line asks this room for the names of roles, and needs no YAML for that
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # YAML allows them
    try:
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        message, line = no_yaml(error)
        raise TopologyError(message, file=file, line=line) from None
    except YAMLError:  # a character that no YAML file may hold
        raise TopologyError(
            "this is no valid YAML: it holds a control character: write it anew, as UTF-8 text",
            file=file,
        ) from None
    except RecursionError:
        raise TopologyError("must not be nested so deep", file=file) from None
    builder = _Builder(Document(file, None, {(): 1}, [], set(), []), environment)
    return builder.document._replace(data=None if root is None else builder.value(root, ()))


class _Builder:
    """Nodes into data, place by place."""

    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self.document, self.environment = document, environment
        self.lines: dict[Path, int] = document.lines  # type: ignore[assignment]

    def refuse(self, path: Path, message: str) -> None:
        self.document.problems.append(self.document.problem(path, message))
        self.document.unread.add(path)

    def value(self, node: Any, path: Path) -> Any:
        if len(path) > _DEEPEST:
            self.refuse(path[:2], "must not be nested so deep")
            return None
        if node.id == "mapping":
            return self._mapping(node, path)
        if node.id == "sequence":
            for i, item in enumerate(node.value):
                self.lines[*path, i] = item.start_mark.line + 1
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                self.lines.setdefault((*path, "?"), line)
                self.refuse((*path, "?"), "a key must be text")
                continue
            name = str(key.value)
            place = (*path, name)
            if name in out:
                error = TopologyError(
                    f"given twice, first on line {self.lines[place]}: take one out",
                    file=self.document.file,
                    line=line,
                    key=key_text(place),
                )
                self.document.problems.append((place, error))
                continue
            self.lines[place] = line
            out[name] = self.value(value, place)
        return out

    def _scalar(self, node: Any, path: Path) -> Any:
        text, plain = str(node.value), node.style is None and not str(node.tag).endswith(":str")
        if "$" in text:
            if (filled := self._filled(text, path)) is None:
                return None
            text, plain = filled, node.style is None
        if path[:1] == ("kafka",) and "client" in path[1:-1]:
            # options of a client are text: a password 0123 is not 123
            return text if text or node.style is not None else None
        if not plain:
            return text
        value = plain_scalar(text)
        # the positive form catches NaN
        if isinstance(value, float | int) and not abs(value) <= float_info.max:
            self.refuse(path, "must be a finite number")
            return None
        return value

    def _filled(self, text: str, path: Path) -> str | None:
        """Variables replaced; None after an error; `Unset` where one is not set that only some
        roles need.
        """
        missing: list[str] = []
        if meant := _OF_A_SHELL.fullmatch(text):
            # of a client's option it may be a password
            name = "NAME" if "client" in path else meant["name"]
            self.refuse(
                path,
                f"must be written ${{{name}}} where it is a variable, $${name} where it is text",
            )
            return None

        def one(match: re.Match[str]) -> str:
            if match["wrong"]:
                self.refuse(
                    path,
                    "must hold ${NAME} or ${NAME:-default}; write $${ for these characters"
                    " themselves",
                )
                return ""
            if not match["name"]:
                return "$"
            used = Variable(path, match["name"], match["default"], match[0] == text)
            self.document.variables.append(used)
            found = self.environment.get(match["name"])
            if match["default"] is not None:
                return found or match["default"]
            if not found and path in _NOT_EMPTY:
                found = None
            if found is None:
                missing.append(match["name"])
                return ""
            return found

        filled = _VARIABLE.sub(one, text)
        side = _needed_at(path)
        if missing and side:
            later = Unset(text)
            empty = " (empty)" if missing[0] in self.environment else ""
            names = (
                f"variable {missing[0]} is"
                if len(missing) == 1
                else f"variables {', '.join(missing)} are"
            )
            _, later.problem = self.document.problem(
                path,
                f"the environment {names} not set here{empty}, and has no default: {_ROLES[side]}",
            )
            return later
        for name in missing:
            self.refuse(
                path,
                f"the environment variable {name} must be set, or have a default:"
                f" ${{{name}:-default}}",
            )
        return None if missing else filled


def _needed_at(path: Path) -> str | None:
    """The side whose roles alone need what stands here: its way to Kafka, the edge's file of
    budgets, without which nothing may run unasked, its key, or what noise is bound to.
    """
    if path == ("edge", "key_file"):
        return "key"
    if path in (("edge", "budget_file"), ("edge", "deployment")):
        return "edge"
    kafka = (
        path[:1] == ("kafka",)
        and path[1:2] in (("edge",), ("collector",))
        and (path[2:] == ("bootstrap_servers",) or path[2:-1] == ("client",))
    )
    return str(path[1]) if kafka else None


def plain_scalar(text: str) -> Any:
    """The value of an unquoted scalar in YAML 1.2.

    Examples
    --------
    >>> [plain_scalar(text) for text in ("1", "1.0", "1e-3", "true", "off", "~", "15m")]
    [1, 1.0, 0.001, True, 'off', None, '15m']

    """
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text)
    if special := _SPECIAL.fullmatch(text):
        return float("nan") if special[3] else float(f"{special[1]}inf")
    return text
