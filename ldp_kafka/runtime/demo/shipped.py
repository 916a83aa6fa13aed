"""The topologies that come with the package."""

from __future__ import annotations

from pathlib import Path

import ldp_kafka
from ldp_kafka.errors import ConfigurationError

__all__ = ["shipped"]


def shipped(name: str) -> Path:
    """The file of a shipped topology: in an installed package, or in the checkout.

    Raises
    ------
    ConfigurationError : there is none

    """
    package = Path(ldp_kafka.__file__).parent
    for folder in (package / "_topologies", package.parent / "topologies"):
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    raise ConfigurationError(f"this installation has no topology {name}.yaml")
