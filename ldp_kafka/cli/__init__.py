"""The command line. Each command reads its arguments, calls one function of `runtime` or
`topology`, and prints the result.
"""

from __future__ import annotations

import sys

import click

from ldp_kafka.cli.audit import audit
from ldp_kafka.cli.check import check
from ldp_kafka.cli.compare import compare
from ldp_kafka.cli.core_dumps import forbid_core_dumps
from ldp_kafka.cli.device import device
from ldp_kafka.cli.evaluate import evaluate
from ldp_kafka.cli.helm_values import helm_values
from ldp_kafka.cli.mechanisms import mechanisms
from ldp_kafka.cli.options import CODES, FAILED, STOPPED, WRONG, example
from ldp_kafka.cli.prove import prove_once
from ldp_kafka.cli.releases import releases
from ldp_kafka.cli.replay import replay
from ldp_kafka.cli.state import state
from ldp_kafka.cli.status import status
from ldp_kafka.cli.tools import broker, demo, key
from ldp_kafka.cli.topologies import plan, run, schema, topics
from ldp_kafka.cli.validate import validate
from ldp_kafka.errors import ConfigurationError, LdpKafkaError
from ldp_kafka.version import __version__

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS: dict[str, click.Command] = {
    "demo": demo,
    "run": run,
    "validate": validate,
    "plan": plan,
    "topics": topics,
    "helm-values": helm_values,
    "replay": replay,
    "status": status,
    "releases": releases,
    "key": key,
    "device": device,
    "broker": broker,
    "state": state,
    "prove-once": prove_once,
    "audit": audit,
    "check": check,
    "schema": schema,
    "mechanisms": mechanisms,
    "evaluate": evaluate,
    "compare": compare,
}
"""In the order in which they are needed."""


class Ordered(click.Group):
    """Lists its commands in their own order, not in the alphabet's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        del ctx
        return list(self.commands)


@click.group(
    cls=Ordered,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=CODES + "\n" + example("ldp-kafka demo", "ldp-kafka validate topology.yaml"),
)
@click.version_option(__version__, prog_name="ldp-kafka")
def cli() -> None:
    """Local differential privacy for data streams, run as Kafka stream processors."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns one of `options.CODES`."""
    forbid_core_dumps()
    try:
        return int(cli.main(arguments, prog_name="ldp-kafka", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("stopped", err=True)
        return STOPPED
    except LdpKafkaError as error:
        for line in str(error).splitlines():
            click.echo(f"error: {line}", err=True)
        return WRONG if isinstance(error, ConfigurationError) else FAILED
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        sys.stderr.close()
        return FAILED
