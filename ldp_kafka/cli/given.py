"""What people give to an option as text: NAME=VALUE, JSON, MODULE:NAME."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import click

from ldp_kafka.errors import ConfigurationError

__all__ = ["imported", "json_value", "named", "parameter"]


def named(text: str, option: str) -> tuple[str, str]:
    """The two parts of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{option} takes NAME=VALUE")
    return name, value


def json_value(text: str, option: str) -> Any:
    """A value that was given as JSON."""
    try:
        return json.loads(text)
    except ValueError:
        raise click.BadParameter("must be a number or JSON", param_hint=option) from None


def parameter(text: str) -> tuple[str, Any]:
    """A ``--parameter``: its name, and its value as JSON."""
    name, value = named(text, "--parameter")
    return name, json_value(value, "--parameter")


def imported(name: str, option: str) -> Any:
    """What MODULE:NAME is, also where the module lies in the folder that the user is in."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise click.UsageError(f"{option} takes MODULE:NAME")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: the user's own code lies where the user is
    try:
        found = import_module(module)
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        raise ConfigurationError(f"cannot import {module}: {kind}: {error}") from error
    if not hasattr(found, attribute):
        raise ConfigurationError(f"{module} has no {attribute}")
    return getattr(found, attribute)
