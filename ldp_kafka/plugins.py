"""Mechanisms and methods of other packages, by name, beside our own.

A package names them in one of two ways. Its entry points of the groups ``ldp_kafka.mechanisms`` and
``ldp_kafka.methods`` are known wherever the package is installed. A module that a topology lists
under ``plugins`` has dictionaries ``MECHANISMS`` or ``METHODS``, as ours have. The module that an
entry point names, or a topology lists, states ``NOISE_VERSION``: a whole number of at least 1, and
another one as soon as the package draws other noise for the same parameters.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.metadata import Distribution, entry_points
from inspect import signature
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, NamedTuple

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.mechanisms import MECHANISMS
from ldp_kafka.methods import METHODS, Method
from ldp_kafka.methods.protocols import PROTOCOLS

__all__ = ["Plugin", "find", "load", "plugin_of", "raised_in_plugin"]

ENTRY_POINTS: dict[str, dict[str, Any]] = {
    "ldp_kafka.mechanisms": MECHANISMS,
    "ldp_kafka.methods": METHODS,
}
"""By group: where a name of it is registered."""
NAME = re.compile(r"[a-z][a-z0-9_]*")


class Plugin(NamedTuple):
    """Where a mechanism or a method that is not ours lies."""

    module: str
    distribution: str
    """The package's name, normalized."""
    noise_version: int
    digest: str
    """SHA-256 over the code of the packages that it is written in, as their RECORD states it: equal
    wherever one wheel is installed.
    """
    packages: frozenset[str]
    """The names, up to the first point, of the modules that it is written in."""
    by_entry_point: bool
    """Whether an entry point names it, so that no topology has to list the module."""


_PLUGINS: dict[str, Plugin] = {}


def plugin_of(name: str) -> Plugin | None:
    """The plug-in that a mechanism or a method of this name is of; None where it is ours."""
    return _PLUGINS.get(name)


def raised_in_plugin(error: BaseException) -> bool:
    """Whether an error's traceback passes through a plug-in's code. The error's text may show a
    value.
    """
    packages = {name for plugin in _PLUGINS.values() for name in plugin.packages}
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(
        str(frame.f_globals.get("__name__")).partition(".")[0] in packages for frame in frames
    )


def load(module: str) -> None:
    """Register all mechanisms and methods that a module names.

    Raises
    ------
    ConfigurationError : it cannot be imported, is of no installed package, states no noise version,
        names nothing, or names what is no mechanism or method, or a name that is taken
    """
    found, named = _imported(module), []
    for group in ENTRY_POINTS:
        names = getattr(found, table := group.rpartition(".")[2].upper(), {})
        if not isinstance(names, Mapping):
            raise ConfigurationError(f"{table} of the plug-in {module} must be a dictionary")
        named += [(group, name, each) for name, each in names.items()]
    if not named:
        raise ConfigurationError(f"the plug-in {module} has neither MECHANISMS nor METHODS")
    if len({name for _, name, _ in named}) < len(named):
        raise ConfigurationError(f"the plug-in {module} has a mechanism and a method of one name")
    made = [(group, name, each, _checked(group, name, each, found)) for group, name, each in named]
    for group, name, each, plugin in made:  # all of them, or none
        ENTRY_POINTS[group][name], _PLUGINS[name] = each, plugin


def find(name: Any) -> None:
    """Register the mechanism or method that an installed package's entry point has this name for.
    Nothing where the name is known, or no entry point has it.

    Raises
    ------
    ConfigurationError : as `load`; or several packages have an entry point of this name
    """
    if not isinstance(name, str) or name in {**MECHANISMS, **METHODS, **PROTOCOLS}:
        return
    for group, registry in ENTRY_POINTS.items():
        points = {each.value: each for each in entry_points(group=group, name=name)}
        if len(points) > 1:
            raise ConfigurationError(f"several packages name {name}: {', '.join(sorted(points))}")
        for point in points.values():
            try:
                each = point.load()
            except (Exception, SystemExit) as error:
                raise _not_loaded(point.value, error) from error
            plugin = _checked(group, name, each, _imported(point.module))
            registry[name], _PLUGINS[name] = each, plugin


def _checked(group: str, name: str, each: Any, module: ModuleType) -> Plugin:
    """Where a mechanism or a method lies. ConfigurationError if it may not have this name."""
    registry, what = ENTRY_POINTS[group], group.rpartition(".")[2].removesuffix("s")
    if registry.get(name) is each and (known := _PLUGINS.get(name)) is not None:
        return known
    said = f"{what} {name!r} of the plug-in {module.__name__}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigurationError(f"{said}: a name must be of a-z, 0-9 and _, a letter first")
    if (other := _PLUGINS.get(name)) is not None:
        raise ConfigurationError(f"{said}: the plug-in {other.module} has that name already")
    if name in {**MECHANISMS, **METHODS, **PROTOCOLS}:
        raise ConfigurationError(f"{said}: the name is one of ldp_kafka's own")
    points = [point for group in ENTRY_POINTS for point in entry_points(group=group, name=name)]
    for point in points:
        if point.module != module.__name__:
            raise ConfigurationError(f"{said}: {point.module} has that name, by its entry point")
    if wrong := (_no_method(name, each) if registry is METHODS else _no_mechanism(each)):
        raise ConfigurationError(f"{said} {wrong}")
    version = getattr(module, "NOISE_VERSION", None)
    if type(version) is not int or version < 1:
        raise ConfigurationError(
            f"the plug-in {module.__name__} must state NOISE_VERSION, a whole number of at least 1"
        )
    modules = _modules(module, each)
    return Plugin(
        module.__name__,
        _normal(_package(module).name),
        version,
        _code(map(_package, modules)),
        frozenset(one.__name__.partition(".")[0] for one in modules),
        any(point.group == group for point in points),
    )


def _modules(module: ModuleType, each: Any) -> list[ModuleType]:
    """The module that names it, and those that it and its bases are written in, but for ours and
    Python's own.
    """
    bases = each.__mro__ if isinstance(each, type) else (each,)
    names = {
        module.__name__,
        *(getattr(base, "__module__", None) or module.__name__ for base in bases),
    }
    others = {"ldp_kafka", *sys.stdlib_module_names}
    return [sys.modules[name] for name in sorted(names) if name.partition(".")[0] not in others]


def _no_method(name: str, each: Any) -> str | None:
    if not (isinstance(each, type) and issubclass(each, Method)):
        return "must be a class derived from ldp_kafka.Method"
    if getattr(each, "name", None) != name:
        return f"must have the class attribute name = {name!r}"
    return None


def _no_mechanism(each: Any) -> str | None:
    """Why this is no factory: the second parameter of one tells numbers from categories."""
    names = list(signature(each).parameters) if callable(each) else []
    if names[:1] == ["epsilon"] and names[1:2] in (["domain"], ["categories"]):
        return None
    return "must be a class or function with the parameters (epsilon, domain or categories)"


def _imported(module: str) -> ModuleType:
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        raise _not_loaded(module, error) from error


def _not_loaded(module: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(f"cannot import {module}: {type(error).__name__}: {error}")


def _package(module: ModuleType) -> Distribution:
    """The installed package whose RECORD has a module's file, as it was installed."""
    file = Path(module.__file__ or "").resolve()
    site = file.parents[len(module.__name__.split(".")) - (file.stem != "__init__")]
    inside = file.relative_to(site).as_posix()
    for found in Distribution.discover(path=[str(site)]):
        row = _rows(found).get(inside)
        if row is None:
            continue
        digest = urlsafe_b64encode(sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
        if row != f"sha256={digest}":
            raise ConfigurationError(
                f"the plug-in {module.__name__} is not as {found.name} was installed: its RECORD"
                f" has another SHA-256 of {file}, or none; install a wheel of it"
            )
        return found
    raise ConfigurationError(
        f"the plug-in {module.__name__} is of no installed package, at {file}: build a wheel of it"
        " and install that (an editable package has no list of its code), so that workers can tell"
        " one release of it from another"
    )


def _rows(package: Distribution) -> dict[str, str]:
    """The files of a package and their hashes, as its RECORD has them."""
    lines = csv.reader((package.read_text("RECORD") or "").splitlines())
    return {row[0]: row[1] for row in lines if len(row) > 1}


def _code(packages: Iterable[Distribution]) -> str:
    """A digest over their code. Files without a hash are caches of Python; scripts, outside of
    their folder, and what was noted when they were installed differ from machine to machine.
    """
    code = {
        name: row
        for package in packages
        for name, row in _rows(package).items()
        if row and not name.startswith("..") and ".dist-info/" not in name
    }
    return sha256(json.dumps(sorted(code.items())).encode()).hexdigest()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
