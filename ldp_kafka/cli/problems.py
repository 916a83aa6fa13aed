"""What is wrong with a topology, and what is not set, as the commands say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ldp_kafka.errors import TopologyError
    from ldp_kafka.topology import Topology

__all__ = ["problem_json", "say_unset"]


def problem_json(problem: TopologyError) -> dict[str, Any]:
    """One problem, for programs."""
    return {
        "file": problem.file,
        "line": problem.line,
        "key": problem.key,
        "message": problem.reason,
    }


def say_unset(topology: Topology) -> None:
    """Name the variables that are not set here. It is no error, where the role that needs them runs
    elsewhere.
    """
    from ldp_kafka.topology import unset

    for problem in unset(topology):
        click.echo(f"note: {problem}", err=True)
