"""What some tests need and not every machine has: data, programs, brokers, packages. Where it is
missing they skip, and say how to get it; with LDP_KAFKA_REQUIRE=1 they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import NoReturn

import pytest

__all__ = ["data", "lacking", "package", "program"]

EXTRA = "pip install -e '.[dev]'"


def lacking(what: str, how: str, *, required: bool = True) -> NoReturn:
    """Skip the test, or the module, for want of ``what``; or fail, unless it is not ``required``
    anywhere.
    """
    reason = f"needs {what}: {how}"
    if required and os.environ.get("LDP_KAFKA_REQUIRE") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


@contextmanager
def data() -> Iterator[None]:
    """Meanwhile a missing file is one of the real streams, which are no part of this repository."""
    try:
        yield
    except FileNotFoundError as missing:
        lacking("data", str(missing))


def program(*names: str, how: str, required: bool = True) -> str:
    """The path of the first of these programs that is installed."""
    found = next(filter(None, map(shutil.which, names)), None)
    return lacking(names[0], how, required=required) if found is None else found


def package(name: str, how: str = EXTRA) -> ModuleType:
    """A module of a package that the extra ``test`` leaves out."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        lacking(name.split(".", maxsplit=1)[0], how)
