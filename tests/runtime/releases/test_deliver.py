"""Releases where they were asked for; what is not there is said, and where to look."""

from __future__ import annotations

import io
import json

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from ldp_kafka.errors import ConfigurationError
from ldp_kafka.runtime.releases import deliver as delivery
from ldp_kafka.runtime.releases.deliver import Wanted, deliver
from ldp_kafka.runtime.releases.files import STDOUT
from ldp_kafka.runtime.releases.since import since_of
from ldp_kafka.topology import loads
from tests.runtime.releases.made import read, release

TOPOLOGY = """
topology: meters
input: {slot: 1h, partitions: 2, lateness: 2}
privacy: {method: sw_direct, domain: [0, 100], epsilon: 2.0, window: 4}
output: {statistics: [mean]}
"""
CURATED = """
topology: shops
input: {slot: 1d, partitions: 1, lateness: 0}
privacy:
  {trust: curator, level: event, method: naive, domain: [0, 100], epsilon: 2.0, delay: 4}
output: {statistics: [per_stream]}
"""
RELEASES = [release(slot, float(slot)) for slot in range(1, 4)]


@pytest.fixture(scope="module")
def topology():
    return loads(TOPOLOGY)


def delivered(topology, found, **wanted):
    """What is said beside the output."""
    said = []
    deliver(topology, found, Wanted(**wanted), said.append)
    return said


def test_a_table_where_nothing_else_is_asked_for(topology, capsys):
    assert delivered(topology, read(RELEASES)) == []
    title, head, *lines = capsys.readouterr().out.splitlines()
    assert title.strip() == "meters: w-event, epsilon 2 over any 4 consecutive slots of a user"
    assert head.split()[:2] == ["slot", "(UTC)"]
    assert [line.split()[1] for line in lines] == ["01:00", "02:00", "03:00"]


def test_a_long_table_is_cut(topology, capsys, monkeypatch):
    """Its newest lines, and it says so."""
    monkeypatch.setattr(delivery, "MOST", 2)
    [note] = delivered(topology, read(RELEASES))
    assert note.startswith("note: the last 2 of 3 lines;")
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_files_and_standard_output_at_once(topology, tmp_path, capsys):
    lines = (("csv", tmp_path / "x.csv"), ("json", STDOUT))
    parquet, picture = tmp_path / "x.parquet", tmp_path / "x.png"
    said = delivered(topology, read(RELEASES), lines=lines, parquet=parquet, plot=picture)
    printed = [json.loads(line)["slot"] for line in capsys.readouterr().out.splitlines()]
    assert printed == [1, 2, 3]
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 4
    assert pq.read_table(parquet)["value"].to_pylist() == [1.0, 2.0, 3.0]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert said == [f"{tmp_path / name}: 3 releases" for name in ("x.csv", "x.parquet", "x.png")]


@pytest.mark.parametrize("kind", ["following", "not"])
def test_nothing_yet(topology, capsys, kind):
    """Says what a release waits for, and what to look at; once, where it waits on."""
    later = [None, None] if kind == "following" else None
    first, why, look = delivered(topology, read([], later))
    assert first == "meters.releases holds no release yet"
    assert "a slot of 1h" in why and "each of 2 partitions" in why and "2 slots more" in why
    assert look == f"`ldp-kafka status {topology.file}` says what the next release waits for"
    assert capsys.readouterr().out == ""


def test_nothing_yet_of_a_curator():
    first, why, look = delivered(loads(CURATED), read([]))
    assert first.startswith("shops.releases")
    assert why.endswith("when ticks in its partition are later than its end")
    assert "`ldp-kafka status " in look


def test_nothing_of_what_was_asked_for(topology):
    found = read(RELEASES, since=since_of("2026-03-01"))
    [said] = delivered(topology, found)
    assert said.startswith("none of the 3 releases in meters.releases is of the slots")


def test_what_was_left_out_is_said(topology):
    found = read([*RELEASES, release(1, 5.0), b"junk"])
    changed, strange = delivered(topology, found, lines=(("json", STDOUT),))
    assert changed.startswith("note: 1 release came again with other numbers")
    assert strange.startswith("note: no release in 1 record of meters.releases")


def test_moves_are_counted_by_user(topology, capsys):
    """A line a user; where no release is a user's it says so."""
    mine = [release(slot, 2.0 * slot, "per_user", user="5f") for slot in (1, 2, 4)]
    assert delivered(topology, read(mine), above=1.5) == []
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["subject", "moves", "above", "1.5"]
    assert line.split() == ["5f", "1", "1"]
    [note] = delivered(topology, read(RELEASES), above=1.5)
    assert "no release is of a single user" in note
    with pytest.raises(ConfigurationError, match="--moves-above needs an end"):
        delivered(topology, read(RELEASES, [None]), above=1.5)


def test_what_needs_an_end(topology, tmp_path):
    for wanted in ({"parquet": tmp_path / "x"}, {"plot": tmp_path / "x.png"}):
        [name] = wanted
        with pytest.raises(ConfigurationError, match=f"--{name} needs an end"):
            delivered(topology, read([], []), **wanted)


def test_one_form_each_place(tmp_path):
    with pytest.raises(ConfigurationError, match="standard output can take one form"):
        Wanted((("csv", STDOUT), ("json", STDOUT)))
    with pytest.raises(ConfigurationError, match="x can take one form"):
        Wanted((("csv", tmp_path / "x"),), parquet=tmp_path / "x")
    with pytest.raises(ConfigurationError, match="--parquet must be a file"):
        Wanted(parquet=STDOUT)
    with pytest.raises(ConfigurationError, match="a plot must end in"):
        Wanted(plot=tmp_path / "x.jpg")


def test_following_writes_at_once(topology, tmp_path, capsys):
    """Whatever waits is written wherever no more is there."""
    path, seen = tmp_path / "x.csv", []

    def later():
        yield from RELEASES
        yield None
        seen.append((len(path.read_text().splitlines()), capsys.readouterr().out.count("\n")))
        yield release(9)

    lines = (("csv", path), ("json", STDOUT))
    delivered(topology, read([], later()), lines=lines)
    assert seen == [(4, 3)]
    assert len(path.read_text().splitlines()) == 5


def test_following_without_a_terminal(topology, capsys):
    """A line each, and no codes of a terminal."""
    delivered(topology, read(RELEASES, [None, release(9)]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        f"1970-01-01 0{hour}:00" for hour in (1, 2, 3, 9)
    ]


def test_following_on_a_terminal(topology, monkeypatch):
    """A table that is drawn anew; Ctrl-C leaves it on the screen, and nothing hanging."""
    file = io.StringIO()
    console = Console(file=file, width=90, height=12, force_terminal=True, color_system=None)
    monkeypatch.setattr(delivery, "_console", lambda: console)

    def later():
        yield release(9)
        yield None
        raise KeyboardInterrupt

    said = []
    with pytest.raises(KeyboardInterrupt):
        deliver(topology, read([*RELEASES, b"junk"], later()), Wanted(), said.append)
    assert said == ["note: no release in 1 record of meters.releases: somebody else wrote there"]
    shown = file.getvalue()
    assert "09:00" in shown
    assert shown.rstrip().endswith("\x1b[?25h")  # the cursor is back
