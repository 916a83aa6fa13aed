"""``ldp-kafka`` and ``python -m ldp_kafka``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import NoReturn

from ldp_kafka.version import install

__all__ = ["main", "program"]

_EXTRA = (
    "click",
    "rich",
    "confluent_kafka",
    "faust",
    "jsonschema",
    "prometheus_client",
    "pyarrow",
    "ruamel.yaml",
)


def main() -> int:
    """Run the command line; the exit code is one of `cli.options.CODES`, 2 where an extra is
    missing.
    """
    missing = [name for name in _EXTRA if not _found(name)]
    if missing:
        sys.stderr.write(
            f"ldp-kafka needs {', '.join(missing)}; install them with\n\n    {install('kafka')}\n\n"
        )
        return 2
    from ldp_kafka.cli import main as run

    return run()


def program() -> NoReturn:
    """`main` as a process of its own, which ends with it: a client of librdkafka that the
    interpreter takes down may wait for ever.
    """
    code = main()
    if find_spec("confluent_kafka") is not None:
        from ldp_kafka.runtime.worker.exits import gone

        gone(code)
    sys.exit(code)


def _found(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # faust, once imported, stands in for itself with a module without a spec
        return True
    except ModuleNotFoundError:  # the parent of a dotted name
        return False


if __name__ == "__main__":
    program()
