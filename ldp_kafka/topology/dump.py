"""Plain data as YAML text that people read."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

__all__ = ["write"]


def write(data: Any) -> str:
    r"""Plain data as YAML; text of several lines as it is, behind ``|``.

    Examples
    --------
    >>> print(write({"name": "meters", "roles": ["perturb"], "text": "a: 1\nb: 2\n"}), end="")
    name: meters
    roles:
      - perturb
    text: |
      a: 1
      b: 2
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import LiteralScalarString

    def readable(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: readable(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [readable(each) for each in value]
        # no block holds every character
        block = isinstance(value, str) and "\n" in value and value.replace("\n", "").isprintable()
        return LiteralScalarString(value) if block else value

    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = StringIO()
    yaml.dump(readable(data), text)
    return text.getvalue()
