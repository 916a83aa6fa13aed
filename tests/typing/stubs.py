"""Writes ``ldp_kafka/named.pyi``: for each name in the registries an overload with the parameters
that its class takes, its parents' included (``python -m tests.typing.stubs``).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import ldp_kafka.named
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import METHODS, DelayMethod, Method
from ldp_kafka.methods.delay.windows import SETTINGS
from ldp_kafka.methods.made import parameters_of
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.methods.protocols.processing import SMOOTHING
from ldp_kafka.methods.split import INNER
from ldp_kafka.named import own_parameters

STUB = Path(ldp_kafka.named.__file__).with_suffix(".pyi")

HEAD = """\
# What each name takes and gives. Written by `poe stubs` from the classes in the registries; do not
# edit it.
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, overload

from ldp_kafka import mechanisms, methods
from ldp_kafka.methods import protocols

__all__ = ["mechanism", "method", "protocol"]

"""
BY_NAME = ("mechanism", "oracle")
"""What `ldp_kafka.named` makes of a mechanism's name, or of nothing."""
WORDS = {
    "calibration": ("sound", "published"),
    "change": ("additive", "multiplicative"),
    "setting": SETTINGS,
}
"""Texts that are one of a few words, whatever takes them."""
NAMED = {"MechanismName": MECHANISMS, "InnerName": INNER}
"""Types of the stub that are one of a few names."""


def literal(words: Any) -> str:
    """The type of one of these words."""
    return f"Literal[{json.dumps(list(words))[1:-1]}]"


def parameters(kind: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What it takes by name: parents' parameters first, those without a default before all."""
    found = parameters_of(kind) or {}
    if isinstance(kind, type) and issubclass(kind, Method):
        found = of_values(kind, found)
    return dict(sorted(found.items(), key=lambda item: optional(*item)))


def of_values(
    kind: type[Method], found: dict[str, inspect.Parameter]
) -> dict[str, inspect.Parameter]:
    """A method needs what its values lie in, and takes nothing that is for other values."""
    needed = "categories" if kind.kind == "categorical" else "domain"
    if not kind.ball:
        given = str(found[needed].annotation).removesuffix(" | None")
        found[needed] = found[needed].replace(default=inspect.Parameter.empty, annotation=given)
    return {name: each for name, each in found.items() if name in own_parameters(kind)}


def optional(name: str, each: inspect.Parameter) -> bool:
    """Whether a call may leave it out."""
    return name in BY_NAME or each.default is not inspect.Parameter.empty


def words_of(kind: Any, name: str) -> tuple[str, ...] | None:
    """The words that a parameter may be, where it is text."""
    if name == "noise":
        return kind.noises
    if name == "smooth" and not issubclass(kind, DelayMethod):
        return tuple(SMOOTHING)
    return WORDS.get(name)


def typed(kind: Any, name: str, each: inspect.Parameter) -> str:
    """One line of an overload."""
    of = str(each.annotation).replace("'", '"')
    if name in BY_NAME:
        return f"{name}: MechanismName | Callable[..., Any] | None = None"
    if name == "inner":
        return f'{name}: InnerName = "{each.default}"'
    if of in ("str", "str | None"):
        words = words_of(kind, name)
        assert words is not None, f"{kind.__name__}: which words may {name} be?"
        of = of.replace("str", literal(words))
    if name == "categories":  # or their names
        of = of.replace("int", "int | list[str] | tuple[str, ...]")
    if each.default is inspect.Parameter.empty:
        return f"{name}: {of}"
    plain = each.default is None or isinstance(each.default, bool | int | float | str | tuple)
    default = repr(each.default).replace("'", '"') if plain else "..."
    return f"{name}: {of} = {default}"


def gives(room: str, kind: Any) -> str:
    """What a call returns, by the room that exports it: two registries have classes of one name."""
    found = kind if isinstance(kind, type) else get_type_hints(kind)["return"]
    every = [f"{room}.{each.__name__}" for each in get_args(found) or (found,)]
    if len(every) < 3:
        return " | ".join(every)
    return "\n    | ".join(["(\n    " + every[0], *every[1:]]) + "\n)"


def overloads(function: str, room: str, registry: dict[str, Any]) -> Iterator[str]:
    """One a name."""
    for name, kind in registry.items():
        yield "@overload"
        yield f"def {function}("
        yield f'    name: Literal["{name}"],'
        yield "    *,"
        for key, each in parameters(kind).items():
            yield f"    {typed(kind, key, each)},"
        yield f") -> {gives(room, kind)}: ..."


def alias(name: str, every: Iterable[str]) -> Iterator[str]:
    """The lines of a type that is one of these names."""
    yield f"{name}: TypeAlias = Literal["
    yield from (f'    "{one}",' for one in every)
    yield "]"


def text() -> str:
    """The whole stub."""
    return HEAD + "\n".join(
        [
            *(line for name, every in NAMED.items() for line in alias(name, every)),
            "",
            *overloads("mechanism", "mechanisms", MECHANISMS),
            *overloads("method", "methods", METHODS),
            *overloads("protocol", "protocols", PROTOCOLS),
            "",
        ]
    )


if __name__ == "__main__":
    written = text()  # before the file is opened for writing
    STUB.write_text(written, encoding="utf-8")
