"""A demo from its beginning to its end: streams, what is released of them, and the truth beside
it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ldp_kafka.accounting.words import at_most
from ldp_kafka.runtime.demo.play import play
from ldp_kafka.runtime.demo.plot import plot
from ldp_kafka.runtime.demo.result import again, compare, largest_spent
from ldp_kafka.runtime.demo.shipped import shipped
from ldp_kafka.runtime.demo.streams import DEFAULTS, Given, crowd, made_up
from ldp_kafka.runtime.demo.summary import print_summary
from ldp_kafka.runtime.keys import edge_randomness, new_key, read_key
from ldp_kafka.runtime.replay import as_log, from_arrays, messages, recent_start
from ldp_kafka.topology import Topology, load

__all__ = ["run_demo"]

_BATCH = 2048
_DAY = 86_400_000  # milliseconds: the made-up users live by the clock, from midnight


def run_demo(
    name: str,
    given: Given | None = None,
    *,
    users: int | None,
    slots: int | None,
    output: Path,
    keep: bool = False,
    json_: bool = False,
) -> int:
    """Run a shipped topology and compare what it releases with the truth.

    Parameters
    ----------
    name
        of the topology
    given
        streams in place of made-up ones
    users, slots
        how many, of both; default: the demo's own, or all there are
    output
        folder for the picture and the releases
    keep
        keep the workers running until Ctrl-C
    json_
        print one JSON document in place of text

    """
    say: Callable[[str], None] = (lambda text: click.echo(text, err=True)) if json_ else click.echo
    with (
        tempfile.TemporaryDirectory(prefix="ldp-kafka-demo-") as folder,
        _environment(Path(folder)),
    ):
        key_file = Path(folder) / "edge.key"
        new_key(key_file)
        topology = load(shipped(name))
        default = DEFAULTS[name]
        if given is None:
            given = Given(
                made_up(topology, users or default.users, slots or default.slots),
                default.title,
                default.unit,
            )
        values = given.values[:users, :slots]
        source = from_arrays(
            topology, values, recent_start(topology, values.shape[1]) // _DAY * _DAY
        )
        raw = list(messages(topology, source, _BATCH))
        say(
            f"{topology.name}: {len(source.users):,} users, {values.shape[1]} slots of"
            f" {topology.input.slot_ms // 60_000} minutes, values from gateways in batches"
        )
        say(f"guarantee: {topology.guarantee.describe(linked=topology.linked)}")
        output.mkdir(parents=True, exist_ok=True)
        log = output / "workers.log"
        played = play(topology, raw, source.first, values.shape[1], log, keep=keep, say=say)
        noise = edge_randomness(topology, read_key(key_file), played.deployment)
        logs = as_log(topology, raw)
        spent = largest_spent(topology, noise, logs)
        equal = again(topology, noise, logs, played.releases)
    releases = {slot: json.loads(text) for slot, text in played.releases.items()}
    (output / "releases.jsonl").write_bytes(
        b"".join(played.releases[slot] + b"\n" for slot in sorted(played.releases))
    )
    result = compare(releases, crowd(topology, values), source.first)
    names = _names(topology)
    picture = output / f"{name}.png"
    caption = (
        f"{len(source.users):,} users. Guarantee:"
        f" {topology.guarantee.describe(linked=topology.linked)}. Largest epsilon spent in any"
        f" user's window: {at_most(spent)} of {at_most(topology.privacy.epsilon)}."
    )
    starts = [topology.slot_start(int(slot)) for slot in result.slots]
    drawn = plot(
        picture, result, starts, title=given.title, unit=given.unit, caption=caption, panels=names
    )
    summary = {
        "topology": topology.name,
        "users": len(source.users),
        "slots": len(result.slots),
        "reports": round(sum(each["reports"] for each in releases.values()) / len(releases)),
        "seconds": round(played.seconds, 1),
        "covered": int(result.inside.sum()),
        "intervals": int(result.inside.size),
        "epsilon_spent": spent,
        "epsilon": topology.privacy.epsilon,
        "equal_without_kafka": equal,
        "guarantee": topology.guarantee.as_json(),
        "plot": str(picture) if drawn else None,
        "releases": str(output / "releases.jsonl"),
    }
    if json_:
        click.echo(json.dumps(summary, indent=2))
    else:
        print_summary(topology, result, starts, summary, given=given, names=names)
    return 0 if equal else 1


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """What the topology reads from the environment, for this process and the workers; put back at
    the end. A user's own broker is not meant here.
    """
    own = {
        "LDP_KAFKA_BOOTSTRAP": "embedded",
        "LDP_KAFKA_EDGE_KEY_FILE": str(folder / "edge.key"),
        "XDG_RUNTIME_DIR": str(folder),
    }
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _names(topology: Topology) -> tuple[str, ...]:
    privacy = topology.privacy
    if privacy.categories is None:
        return ()
    return privacy.category_names or tuple(str(number) for number in range(privacy.categories))
