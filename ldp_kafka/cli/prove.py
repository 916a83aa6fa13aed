"""``ldp-kafka prove-once``."""

from __future__ import annotations

from pathlib import Path

import click

from ldp_kafka.cli.options import FAILED, FILE, as_json, example, load_topology, print_json

__all__ = ["prove_once"]


@click.command("prove-once", epilog=example(
    "ldp-kafka prove-once topology.yaml",
    "ldp-kafka prove-once topology.yaml --key-file edge.key --json",
))  # fmt: skip
@click.argument("topology", type=FILE)
@click.option(
    "--key-file",
    type=FILE,
    help="The edge's key: make all reports again from the raw topic, and compare.",
)
@as_json
def prove_once(topology: Path, key_file: Path | None, json_: bool) -> int:
    """Read a topology's reports topic and say whether any (user, slot, phase) has two different
    reports.

    A report's id stands for its user, slot and phase. A replay after a crash writes the same report
    again, which is harmless. Another report under the same id would be a second draw of noise, and
    would spend a second epsilon. The same id in several partitions is a user who is in several
    partitions of the raw topic, with a budget in each. The exit code is 1 where there is either.

    With --key-file, and where the raw topic can be read, all reports are made again from the raw
    log. Those that are missing, different or unexpected are counted, and so are users who are in
    several partitions; either makes the exit code 1. Nobody is named. The raw log must still hold
    every event.

    Records that have expired are not checked. The command only reads, and may run beside the
    workers.
    """
    from contextlib import ExitStack

    from ldp_kafka.runtime.demo.show import progress_bar
    from ldp_kafka.runtime.keys import read_key
    from ldp_kafka.runtime.tools.prove_once import Progress, prove

    loaded = load_topology(topology)
    key = None if key_file is None else read_key(key_file)
    with ExitStack() as stack:

        def progress(what: str, total: int) -> Progress:
            stack.close()  # the bar of what came before
            return stack.enter_context(progress_bar(what, total))

        found = prove(loaded, key, progress=progress)
    print_json(found.as_json()) if json_ else click.echo("\n".join(found.lines()))
    return 0 if found.clean else FAILED
