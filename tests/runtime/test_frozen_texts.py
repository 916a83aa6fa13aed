"""What commands print for programs is what they printed: the keys, their order and the values of
`status`, `plan`, `validate`, `state inspect` and `releases` with ``--json``.

`frozen_texts.json` holds them in many situations. Numbers are compared to eight digits; addresses,
folders and sizes of compressed records are replaced by words. Record it anew, after a change that
is meant to change them, with ``python -m tests.runtime.test_frozen_texts``.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import Producer

import ldp_kafka as lk
from ldp_kafka.cli import main
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.status.waits import RULES
from ldp_kafka.topology import loads
from tests.fold import cases
from tests.runtime.releases import test_reading as topics
from tests.runtime.releases.test_files import lines
from tests.runtime.releases.test_rows import ALL
from tests.runtime.sample.made import HOUR, NOW, START, TEXT, event
from tests.runtime.status.test_waits import SAYS
from tests.runtime.tools import test_inspection as states

FILE = Path(__file__).with_name("frozen_texts.json")
ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "topologies").glob("*.yaml"))
PLANNED = ("smart-meters", "app-usage", "shop-sales", "foreign-json")
PLAIN = {"more": "partitions: 1", "method": "sw_direct", "shape": "domain: [0, 10]"}
GOOD = TEXT.format(**PLAIN, statistic="mean")
WRONG = GOOD.replace("epsilon: 4.0", "epsilon: -4.0").replace("lateness: 1", "latness: 1")
UNSET = GOOD + "edge: {key_file: '${NO_SUCH_KEY}', budget_file: '${NO_SUCH_BUDGET}'}\n"
ASKED = TEXT.format(**PLAIN | {"method": "lpa"}, statistic="mean")
DEVICES = ASKED.replace("user: $.meter, value: $.kwh, time: $.ts, ", "source: devices, ")
FOLD = cases.TEXT.format(partitions=2, privacy=cases.CAPP, statistics="[mean]", lateness=1)
SAMPLES = {
    "good": [event(f"m{at % 7}", at / 8, START + at * HOUR // 4) for at in range(40)],
    "bad": [
        event(),
        event(kwh="x"),
        event(kwh=1e9),
        event(ts="soon"),
        event(meter=None),
        b"no json",
        b"[]",
        event(ts=START + 9 * HOUR),
        event("m2", ts=START),
    ],
    "all bad": [b"{}", b"1", event(kwh=None)],
}


def settled(text: str, folder: Path | str) -> Any:
    """JSON without what differs from run to run: where files and brokers are, how a broker
    for tests is called, and how large compressed records are; numbers to eight digits.
    """
    for found, word in ((str(folder), "FOLDER"), (str(ROOT), "ROOT")):
        text = text.replace(found, word)
    text = re.sub(r"127\.0\.0\.1:[1-9][0-9]{3,4}", "127.0.0.1:PORT", text)
    text = re.sub(r"mockCluster[0-9a-f]+", "mockCluster", text)
    text = re.sub(r'("(?:meta_)?bytes": )[1-9][0-9]*', r'\1"SOME"', text)
    return json.loads(text, parse_float=lambda number: float(f"{float(number):.8g}"))


def command(folder: Path, *words: str) -> str:
    """What a command prints, with the exit code behind it; the clock stands still."""
    out = io.StringIO()
    plain = {key: value for key, value in os.environ.items() if not key.startswith("LDP_")}
    with (
        mock.patch.dict(os.environ, {**plain, "XDG_RUNTIME_DIR": str(folder)}, clear=True),
        redirect_stdout(out),
        redirect_stderr(io.StringIO()),
    ):
        code = main([*words, "--json"])
    # releases are a line each
    found = out.getvalue().strip()
    listed = f"[{','.join(found.splitlines())}]" if words[0] == "releases" else found
    return f'{{"code": {code}, "said": {listed or "null"}}}'


def of_text(text: str, *words: str) -> Callable[[Path], str]:
    """Of a topology that is written so."""

    def said(folder: Path) -> str:
        path = folder / "x.yaml"
        path.write_text(text)
        first = 1 + (words[0] == "state")
        return command(folder, *words[:first], str(path), *words[first:])

    return said


def of_facts(name: str) -> Callable[[Path], str]:
    """What `status` says of these facts."""

    def said(folder: Path) -> str:
        with mock.patch("ldp_kafka.runtime.status.reading.read_facts", return_value=SAYS[name][0]):
            return of_text(GOOD, "status")(folder)

    return said


def of_states(make: Callable[[], Sequence[Any]]) -> Callable[[Path], str]:
    """What `state inspect` says of these states."""

    def said(folder: Path) -> str:
        with mock.patch("ldp_kafka.runtime.tools.state.read_state", return_value=make()):
            return of_text(FOLD, "state", "inspect")(folder)

    return said


def of_sample(name: str) -> Callable[[Path], str]:
    """What `validate` says of these messages."""

    def said(folder: Path) -> str:
        (folder / "x.jsonl").write_bytes(b"\n".join(SAMPLES[name]))
        with mock.patch("ldp_kafka.cli.validate.time.time", return_value=NOW / 1000):
            return of_text(GOOD, "validate", "--sample", str(folder / "x.jsonl"))(folder)

    return said


def of_broker(*words: str, made: bool = True) -> Callable[[Path], str]:
    """What a command says of a topology whose topics lie on a broker, with releases in them; or
    where nobody has made them.
    """

    def said(folder: Path) -> str:
        with EmbeddedBroker() as broker:
            text = topics.TOPOLOGY.format(address=broker.bootstrap_servers)
            ask = of_text(text, *words)
            if not made:
                return ask(folder)
            for topic in loads(text).flow.topics:
                broker.create_topic(topic.name, topic.partitions)
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            for partition, releases in enumerate((topics.CROWD, topics.USERS[:4])):
                for each in releases:
                    value, key = lk.encode(each), each.key.encode()
                    producer.produce("meters.releases", value, key, partition, timestamp=START)
            assert producer.flush(10) == 0
            return ask(folder)

    return said


def of_collector() -> list[Any]:
    collect, merge, run = states.collector_tables(states.TOPOLOGY, states.LOGS)
    return [
        states.look(held, states.at_end(len(log)), spec=spec, number=number)
        for spec, held, log, number in (
            (states.COLLECT, collect, run.reports[1], 1),
            (states.MERGE, merge, run.partials, 0),
        )
    ]


def of_devices() -> list[Any]:
    topology, spec, held = states.devices()
    return [states.look(held, states.BEFORE, spec=spec, number=1, key=None, topology=topology)]


SITUATIONS: dict[str, Callable[[Path], str]] = {
    **{
        f"status: {rule}": of_facts(next(name for name in SAYS if name.split(":")[0] == rule))
        for rule in RULES
    },
    "status of a broker: no topics": of_broker("status", made=False),
    "status of a broker: no events": of_broker("status"),
    **{
        f"plan: {name}": lambda folder, name=name: command(
            folder, "plan", str(ROOT / "topologies" / f"{name}.yaml"), "--users", "500"
        )
        for name in PLANNED
    },
    "plan: asked": of_text(ASKED, "plan", "--drift", "0.05"),
    "plan: devices": of_text(DEVICES, "plan"),
    "plan: unset": of_text(UNSET, "plan"),
    "validate: shipped": lambda folder: command(folder, "validate", *map(str, SHIPPED)),
    "validate: wrong": of_text(WRONG, "validate"),
    "validate: unset": of_text(UNSET, "validate"),
    **{f"validate: {name} sample": of_sample(name) for name in SAMPLES},
    "state: sound": of_states(lambda: [states.look()]),
    "state: sealed": of_states(lambda: [states.look(key=None)]),
    "state: nothing": of_states(lambda: [states.look({}, states.BEFORE)]),
    "state: of the collector": of_states(of_collector),
    "state: of devices": of_states(of_devices),
    **{
        f"state: {what}": of_states(
            lambda what=what: [states.look(states.DOCTORED[what][0](states.HELD))]
        )
        for what in ("a shard is gone", "another key", "a ledger beyond its budget")
    },
    **{
        f"release: {name}": lambda _, name=name: "".join(lines("json", [ALL[name]])) for name in ALL
    },
    "releases: of users": of_broker("releases", "--statistic", "per_user"),
    "releases: some": of_broker("releases", "--statistic", "mean", "--since", "2h"),
}


@pytest.mark.parametrize("about", dict.fromkeys(name.split(":")[0] for name in SITUATIONS))
def test_a_command_prints_for_programs_what_it_printed(about, tmp_path):
    """Keys, their order, and values."""
    recorded, others = json.loads(FILE.read_text()), {}
    for name in [name for name in SITUATIONS if name.split(":")[0] == about]:
        found = settled(SITUATIONS[name](tmp_path), tmp_path)
        if json.dumps(found) != json.dumps(recorded[name]):
            others[name] = found
    assert others == {name: recorded[name] for name in others}
    assert not others, "the order of keys"


def test_every_situation_is_recorded_and_no_other():
    assert json.loads(FILE.read_text()).keys() == SITUATIONS.keys()


def test_only_places_sizes_and_digits_are_replaced():
    text = '{"a": "/x/y 127.0.0.1:4567 127.0.0.1:1", "bytes": 12, "n": 12, "f": 0.1234567891}'
    assert settled('["mockCluster1f"]', "/x") == ["mockCluster"]
    assert settled(text, "/x") == {
        "a": "FOLDER/y 127.0.0.1:PORT 127.0.0.1:1",
        "bytes": "SOME",
        "n": 12,
        "f": 0.12345679,
    }
    assert settled('{"bytes": 0, "f": null}', "/x") == {"bytes": 0, "f": None}


if __name__ == "__main__":
    made = []
    for situation, say in SITUATIONS.items():
        with tempfile.TemporaryDirectory() as place:
            found = settled(say(Path(place)), place)
        made.append(f"{json.dumps(situation)}: {json.dumps(found)}")
    FILE.write_text("{\n" + ",\n".join(made) + "\n}\n")
