"""Releases from a broker, by the public door and by the command."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import ldp_kafka as lk
from ldp_kafka.cli import main
from ldp_kafka.errors import BrokerError, ConfigurationError
from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker
from ldp_kafka.runtime.kafka import reader
from ldp_kafka.runtime.releases import reading
from ldp_kafka.topology import load
from tests.runtime.releases.made import above, release, shares

TOPOLOGY = """
topology: meters
kafka: {{bootstrap_servers: "{address}"}}
input: {{slot: 1h, partitions: 2}}
privacy: {{method: sw_direct, domain: [0, 100], epsilon: 2.0, window: 4}}
output: {{statistics: [mean, per_user]}}
"""
NAMED = """
topology: apps
kafka: {{bootstrap_servers: "{address}"}}
input: {{slot: 1h, partitions: 2}}
privacy: {{method: lpu, categories: [maps, mail], epsilon: 2.0, window: 4}}
output: {{statistics: [frequencies], events: {{above: 0.3}}}}
"""
CROWD = [release(slot, float(slot)) for slot in range(5)]
USERS = [release(slot, 1.0, "per_user", user="5f2a", reports=1) for slot in range(5)]


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as made:
        yield made


@pytest.fixture(scope="module")
def send(broker):
    """Write releases to a topic's partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def to(topic, partition, releases):
        for each in releases:
            producer.produce(topic, lk.encode(each), each.key.encode(), partition)
        assert producer.flush(10) == 0

    return to


@pytest.fixture(scope="module")
def meters(broker, send, tmp_path_factory):
    """A topology whose topic holds the releases of five slots, those of a user elsewhere."""
    path = tmp_path_factory.mktemp("meters") / "meters.yaml"
    path.write_text(TOPOLOGY.format(address=broker.bootstrap_servers))
    broker.create_topic("meters.releases", 2)
    send("meters.releases", 0, [*CROWD, CROWD[4]])
    send("meters.releases", 1, USERS)
    return path


@pytest.fixture
def apps(broker, send, tmp_path):
    """One whose releases an earlier version wrote, without names."""
    path = tmp_path / "apps.yaml"
    path.write_text(NAMED.format(address=broker.bootstrap_servers))
    if broker.create_topic("apps.releases", 2):
        event = above(1, 1, 0.1)
        send("apps.releases", 0, [shares(1, [0.25, 0.75])])
        send("apps.releases", 0, [event])
    return path


def by_statistic(found):
    made = {"mean": [], "per_user": []}
    for each in found:
        made[each.statistic].append(each)
    return made


def test_what_the_topic_holds(meters):
    """All partitions, each release once, each partition in its order; and then it ends."""
    for topology in (meters, str(meters), load(meters)):
        with lk.releases(topology) as found:
            assert by_statistic(found) == {"mean": CROWD, "per_user": USERS}
            assert found.counts.repeated == 1
    table = lk.releases(meters, since="2h", statistic="mean").table()
    assert table["slot"].to_pylist() == [3, 4]
    assert pa.table(lk.releases(meters, statistic=["per_user"]))["subject"].to_pylist() == (
        ["5f2a"] * 5
    )


def test_what_comes_later(meters, send):
    """With the releases that are there, or from a slot on."""
    new = [release(slot, 7.0) for slot in (50, 51)]
    with lk.releases(meters, since="1h", statistic="mean", follow=True) as found:
        assert next(found).slot == 4
        send("meters.releases", 0, new)
        assert [next(found), next(found)] == new


def threads():
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux does")
def test_no_thread_is_left(meters):
    """Read to the end, closed in the middle, or dropped: the client's threads end too."""
    lk.releases(meters).table()
    before = threads()
    for follow in (False, True):
        found = lk.releases(meters, follow=follow)
        next(found)
        assert threads() > before
        found.close()
        dropped = lk.releases(meters, follow=follow)
        next(dropped)
        del dropped
        end = time.monotonic() + 20
        while threads() > before and time.monotonic() < end:
            time.sleep(0.05)
        assert threads() <= before


def test_names_of_an_earlier_version(apps):
    """Its releases have none, the topology does: the event has those of what it is about."""
    found = {each.statistic: each.categories for each in lk.releases(apps)}
    assert found == {"frequencies": ["maps", "mail"], "above": ["maps", "mail"]}


def test_what_cannot_be_read(meters, tmp_path, broker, monkeypatch):
    """Before anything is read, with what to do."""
    with pytest.raises(ConfigurationError, match=r"meters releases mean, per_user; got statistic"):
        lk.releases(meters, statistic="median")
    with pytest.raises(ConfigurationError, match="since must be a time"):
        lk.releases(meters, since="yesterday")
    other = tmp_path / "other.yaml"
    text = TOPOLOGY.format(address=broker.bootstrap_servers)
    other.write_text(text.replace("topology: meters", "topology: other"))
    with pytest.raises(ConfigurationError, match="`ldp-kafka topics` or `ldp-kafka run` makes it"):
        lk.releases(other)
    other.write_text(text.replace(broker.bootstrap_servers, "embedded"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(BrokerError, match="no embedded broker runs for topology meters"):
        lk.releases(other)


def test_the_login_of_a_reader(meters, tmp_path, monkeypatch):
    """In place of the collector's: as a mapping, or from a file; and of the collector's side."""
    seen, read = [], reading.read_records

    def watched(config, *given):
        seen.append(dict(config))
        return read(config, *given)

    monkeypatch.setattr(reading, "read_records", watched)
    login = tmp_path / "reader.conf"
    login.write_text("# of the analyst\nclient.id=analyst\n")
    for given in ({"client.id": "analyst"}, login, str(login)):
        assert lk.releases(meters, login=given).table().num_rows
    assert [config["client.id"] for config in seen] == ["analyst"] * 3
    address = load(meters).collector_kafka.bootstrap_servers
    two = tmp_path / "two.yaml"
    edge = '{bootstrap_servers: "127.0.0.1:1", client: {client.id: edge}}'
    collector = f'{{bootstrap_servers: "{address}", client: {{client.id: collector}}}}'
    two.write_text(in_two(meters, edge, collector))
    assert lk.releases(two).table().num_rows
    assert seen[-1]["client.id"] == "collector"
    wrong = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    with pytest.raises(ConfigurationError, match=r"sasl\.username must be given"):
        lk.releases(meters, login=wrong)


def in_two(meters, edge, collector):
    """The same topology with a block for each side."""
    text = meters.read_text()
    line = next(line for line in text.splitlines() if line.startswith("kafka:"))
    return text.replace(line, f"kafka:\n  edge: {edge}\n  collector: {collector}")


def test_variables_that_are_not_set_here(meters, tmp_path, monkeypatch):
    """The edge's need not be; the collector's are named, with their line."""
    monkeypatch.delenv("LDP_TEST_SECRET", raising=False)
    address = load(meters).collector_kafka.bootstrap_servers
    unset = '{bootstrap_servers: "127.0.0.1:1", client: {client.id: "${LDP_TEST_SECRET}"}}'
    here = f'{{bootstrap_servers: "{address}", client: {{client.id: collector}}}}'
    path = tmp_path / "unset.yaml"
    path.write_text(in_two(meters, unset, here))
    assert lk.releases(path).table().num_rows
    path.write_text(in_two(meters, here, unset))
    with pytest.raises(ConfigurationError, match=r"unset\.yaml:5: .*LDP_TEST_SECRET"):
        lk.releases(path)


def test_the_command(meters, tmp_path, capsys):
    """A table; lines; files; what went wrong in a line, with code 2."""
    words = ["releases", str(meters), "--statistic", "mean", "--since", "1970-01-01"]
    assert main(words) == 0
    assert "95 % interval" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["slot"] for each in found][:5] == [0, 1, 2, 3, 4]
    assert main([*words, "--csv", "-"]) == 0
    assert capsys.readouterr().out.startswith("topology,statistic,slot,")
    assert main([*words, "--connect"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["payload"]["slot"] == 0
    files = [f"{tmp_path}/x.{ending}" for ending in ("csv", "parquet", "png")]
    assert main([*words, "--csv", files[0], "--parquet", files[1], "--plot", files[2]]) == 0
    assert all(Path(file).stat().st_size for file in files)
    for wrong, said in (
        (["--csv", "-", "--json"], "standard output can take one form only"),
        (["--follow", "--parquet", files[1]], "--parquet needs an end"),
        (["--since", "soon"], "since must be a time"),
        (["--statistic", "men"], "(did you mean mean?)"),
        (["--csv", f"{tmp_path}/no/x.csv"], "cannot be written"),
    ):
        assert main(["releases", str(meters), *wrong]) == 2
        assert said in capsys.readouterr().err


def test_the_page(meters, tmp_path, monkeypatch, capsys):
    """Its lines, but for those without an end, and its Python."""
    pages = Path(__file__).parents[3] / "deploy" / "docs" / "pages"
    section = (pages / "how-to" / "read-releases.md").read_text()
    [lines, *_] = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    (tmp_path / "meters.yaml").write_text(meters.read_text())
    monkeypatch.chdir(tmp_path)
    ending = [line for line in lines.splitlines() if "--follow" not in line]
    assert len(ending) == 4
    for line in ending:
        name, *words = shlex.split(line, comments=True)
        assert name == "ldp-kafka"
        assert main(words) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        *("meters.yaml", "releases.png", "releases.csv", "releases.parquet")
    }
    capsys.readouterr()
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    found = {}
    exec(compile(code, "read-releases.md", "exec"), found)
    assert "mean" in capsys.readouterr().out
    assert found["table"].num_rows


def command(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "ldp_kafka", "releases", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_ctrl_c(meters, send):
    """Follows until then, writes whole lines at once, and ends with its code, without a
    traceback.
    """
    running = command(str(meters), "--follow", "--json", "--statistic", "mean")
    try:
        lines = [json.loads(running.stdout.readline())["slot"] for _ in range(5)]
        assert lines == [0, 1, 2, 3, 4]
        send("meters.releases", 0, [release(90)])
        while json.loads(running.stdout.readline())["slot"] != 90:
            pass
    finally:
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert said.split() == ["stopped"]


def test_a_reader_that_has_seen_enough(meters, send):
    """`head`: no traceback."""
    running = command(str(meters), "--follow", "--json")
    with running:
        running.stdout.readline()
        running.stdout.close()
        send("meters.releases", 0, [release(slot, 1.0) for slot in range(200, 400)])
        said = running.stderr.read()
        assert running.wait(timeout=60) == 1
    assert said == ""


def test_silence_is_told_from_an_end(meters, monkeypatch):
    """Without follow it ends at once; it does not wait for a silence."""
    monkeypatch.setattr(reader, "SILENCE", 600.0)
    begin = time.monotonic()
    assert lk.releases(meters).table().num_rows
    assert time.monotonic() - begin < 60
