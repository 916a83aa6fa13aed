"""The published JSON Schema, and what it has to say of a document in words of our own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator, TypeChecker, ValidationError
from jsonschema.validators import extend

from ldp_kafka.accounting.words import did_you_mean
from ldp_kafka.methods import METHODS
from ldp_kafka.methods.protocols.processing import SMOOTHING
from ldp_kafka.methods.runnable import names
from ldp_kafka.statistics import STATISTICS
from ldp_kafka.topology.document import Document, key_text, plain_scalar
from ldp_kafka.topology.durations import UNITS, not_a_duration
from ldp_kafka.topology.formats import INPUT_FORMATS
from ldp_kafka.topology.paths import Path
from ldp_kafka.topology.sections import pure

__all__ = ["problems", "schema", "with_defaults"]

_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
"""A number with a decimal comma."""
_TIME = re.compile(rf"[0-9.]+\s*{UNITS}")
_NOUNS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
}
_KINDS = {
    "topology": (
        "schema.json",
        "a topology must be a mapping of keys such as topology, input, privacy and output",
    ),
    "edge": (
        "edge.schema.json",
        "a budget file must be a mapping of keys such as edge, raw_topic, limit and admits",
    ),
}
"""Of file: its schema, and what to say of one that is no mapping."""


@cache
def _text(kind: str) -> str:
    return (files("ldp_kafka.topology") / _KINDS[kind][0]).read_text("utf-8")


def schema(kind: str = "topology") -> dict[str, Any]:
    """The JSON Schema (Draft 2020-12) of a ``topology`` or an ``edge`` file, a fresh copy: what
    editors complete and check with.

    Examples
    --------
    >>> sorted(schema()["properties"])
    ['edge', 'input', 'kafka', 'output', 'plugins', 'privacy', 'runtime', 'topology']

    """
    whole: dict[str, Any] = json.loads(_text(kind))
    if kind == "topology":
        _name(whole)
    return whole


def _name(whole: dict[str, Any]) -> None:
    """Write in what the registries hold: what is registered needs no line in the file. A method's
    own parameter that the file says nothing of is checked by the method alone.
    """
    source, privacy, output = (
        _resolved(whole["properties"][name], whole)["properties"]
        for name in ("input", "privacy", "output")
    )
    source["format"]["enum"] = list(INPUT_FORMATS)
    source["format"]["description"] = (
        "; ".join(f"{name}: {one.description}" for name, one in INPUT_FORMATS.items()) + "."
    )
    privacy["method"]["enum"] = names()
    privacy["mechanism"]["enum"] = sorted(
        {*pure(), *(method.default_mechanism for method in METHODS.values())}
    )
    output["statistics"]["items"]["enum"] = sorted(STATISTICS)
    output["postprocess"]["properties"]["smooth"]["enum"] = list(SMOOTHING)
    for name, method in METHODS.items():
        for parameter, line in method.parameters.items():
            privacy.setdefault(parameter, {"description": f"{name}: {line}."})


def with_defaults(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Its sections (all of them), each with the schema's defaults for what is not given: the schema
    is the one place where defaults stand.
    """
    whole, out = schema(), {}
    for name, section in whole["properties"].items():
        properties = _resolved(section, whole).get("properties")
        if properties is not None:
            defaults = {
                key: value["default"] for key, value in properties.items() if "default" in value
            }
            out[name] = defaults | data.get(name, {})
    return out


def problems(document: Document, kind: str = "topology") -> Iterator[tuple[Path, Any]]:
    """What the schema does not allow, each with its place."""
    if not isinstance(document.data, dict):
        yield document.problem((), _KINDS[kind][1])
        return
    seen = set()
    registered = (*names(), *pure(), *STATISTICS, *INPUT_FORMATS)
    for error in _validator(kind, registered).iter_errors(document.data):
        for path, message in _said(error):
            if (path, message) not in seen:
                seen.add((path, message))
                yield document.problem(path, message)


@cache
def _validator(kind: str, registered: tuple[str, ...]) -> Any:
    """``registered``: the names that the schema was written with."""
    del registered
    whole_numbers: TypeChecker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict: Any = extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, type_checker=whole_numbers
    )
    return strict(schema(kind))


def _resolved(section: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    return whole["$defs"][section["$ref"].rpartition("/")[2]] if "$ref" in section else section


def _said(error: ValidationError) -> Iterator[tuple[Path, str]]:
    path: Path = tuple(error.absolute_path)
    rule = str(error.validator)
    limit: Any = error.validator_value
    found: Any = error.instance
    place: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    if rule == "additionalProperties":
        known = list(place["properties"])
        for key in found:
            if key not in known:
                yield (*path, key), _unknown_key((*path, key), known)
    elif rule == "required":
        for key in limit:
            if key not in found:
                yield (*path, key), "must be given"
    elif rule == "dependentRequired":
        for key, others in limit.items():
            for other in others:
                if key in found and other not in found:
                    yield (*path, other), f"must be given where {key_text((*path, key))} is"
    elif path[-1:] and "propertyNames" in error.absolute_schema_path:
        yield (*path, str(found)), "is ours to set: leave it out"
    elif "propertyNames" in error.absolute_schema_path:
        yield (str(found),), "is ours to set: leave it out"
    else:
        yield path, _must(rule, limit, found, place, path)


def _must(rule: str, limit: Any, found: Any, place: dict[str, Any], path: Path) -> str:
    if "patternErrorMessage" in place and rule in ("type", "pattern"):
        more = not_a_duration(found) if UNITS in place.get("pattern", "") else ""
        return f"{place['patternErrorMessage']}; got {_shown(found)}{more}"
    if rule == "enum":
        return _not_one_of(limit, found, path)
    if rule == "type":
        kinds = [limit] if isinstance(limit, str) else limit
        if path[-1:] == ("client",):
            return "must be a mapping of options to text, such as security.protocol: SASL_SSL"
        if "client" in path:  # a password may be in it
            return "must be text"
        nouns = " or ".join(_NOUNS[kind] for kind in kinds if kind != "null")
        return f"must be {nouns}; got {_shown(found)}{_instead(kinds, found, place)}"
    if rule in ("minItems", "maxItems") and place.get("minItems") == place.get("maxItems"):
        return f"must have {limit} items{_like(place)}; got {_shown(found)}"
    words = {
        "minimum": f"must be at least {limit}",
        "maximum": f"must be at most {limit}",
        "exclusiveMinimum": f"must be greater than {limit}",
        "exclusiveMaximum": f"must be less than {limit}",
        "minItems": f"must have at least {limit} items",
        "maxItems": f"must have at most {limit} items",
        "minLength": "must not be empty",
        "uniqueItems": "must name each item once",
    }
    return f"{words[rule]}; got {_shown(found)}" if rule in words else f"must hold: {rule} {limit}"


def _instead(kinds: list[str], found: Any, place: dict[str, Any]) -> str:
    """What to write in place of what is of none of these kinds, where that can be told: the end of
    a message.
    """
    if "string" in kinds:
        if isinstance(found, int | float):
            return " (put it in quotes)"
        many = [each for each in place.get("examples", ()) if "," in str(each)]
        return f": such as {many[0]}" if isinstance(found, list) and many else ""
    if "object" in kinds:
        known = place.get("properties")
        return f": its keys are {', '.join(known)}" if known else ""
    if not isinstance(found, str):
        return _like(place) if "array" in kinds else ""
    meant = plain_scalar(found)
    if ("boolean" in kinds and isinstance(meant, bool)) or (
        {"integer", "number"} & {*kinds} and isinstance(meant, int | float)
    ):
        return ": leave out the quotes"
    if _COMMA.fullmatch(found):
        return f": write {found.replace(',', '.')}"
    if "integer" in kinds and _TIME.fullmatch(found) and "slots" in place["description"].lower():
        return ": it is a number of slots, each as long as input.slot says"
    return _like(place) if "array" in kinds else ""


def _like(place: dict[str, Any]) -> str:
    """An example of what may stand there, the end of a message; empty where there is none."""
    lists = [each for each in place.get("examples", ()) if isinstance(each, list)]
    return f": such as {json.dumps(lists[0]).replace(chr(34), '')}" if lists else ""


def _not_one_of(known: list[Any], found: Any, path: Path) -> str:
    said = f"must be one of {', '.join(known)}; got {_shown(found)}"
    if path == ("privacy", "method") and found in pure():
        return f"{said}: {found} is a mechanism, and stands in privacy.mechanism"
    return said + did_you_mean(found, known)


def _unknown_key(path: Path, known: list[str]) -> str:
    return f"unknown key{did_you_mean(path[-1], known) or '; known here: ' + ', '.join(known)}"


def _shown(found: Any) -> str:
    """What was found, short: it is configuration, and never an option of a client."""
    if found is None:
        return "nothing"
    text = json.dumps(found, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
