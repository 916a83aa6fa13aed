"""``ldp-kafka evaluate coverage``."""

from __future__ import annotations

import json

import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation.coverage.streams import STREAMS
from ldp_kafka.runtime.coverage import table
from ldp_kafka.runtime.coverage.subjects import SUBJECTS
from ldp_kafka.runtime.coverage.table import RUNS, extent, left_out, measure, so_far
from tests.cases import cases


def test_all_of_it():
    """Every subject on every stream, with so many users as it is judged with."""
    asked = extent()
    assert (asked.subjects, asked.streams, asked.runs) == (SUBJECTS, tuple(STREAMS), RUNS)
    groups = list(asked.groups)
    assert len(groups) == len({*groups}) == len(STREAMS) * sum(len(one.crowds) for one in SUBJECTS)
    assert {users for one, _, users in groups if not one.single} == {1, 5, 30, 300, 5000}
    assert left_out(asked) == ["600 runs a cell"]


def test_a_quick_one_says_what_it_leaves_out():
    asked = extent(quick=True)
    assert len(list(asked.groups)) < len(list(extent().groups)) / 6
    said = "\n".join(left_out(asked))
    for name in STREAMS.keys() - {*asked.streams}:
        assert name in said
    for words in ("prove few", "users: 1, 30, 300 only", "methods left out"):
        assert words in said


@cases(
    "only, expected",
    [
        ("lpu/frequencies", {("lpu", "frequencies")}),
        ("sw_direct", {("sw_direct", "mean"), ("sw_direct", "per_user")}),
    ],
)
def test_only_some(only, expected):
    """A method's name stands for all of its statistics and mechanisms."""
    asked = extent((only,))
    assert {(one.base, one.statistic) for one in asked.subjects} == expected
    assert len(asked.subjects) > len(expected)


@cases("only", [("nothing",), ("sw_direct/frequencies",)])
def test_what_there_is_not_is_refused(only):
    with pytest.raises(ConfigurationError, match=r"--only"):
        extent(only)


def test_the_seed_is_the_one_that_is_given(monkeypatch, capsys):
    """0, too; numpy refuses those below."""
    seeds, made = [], table.Evaluated([], [], [], "")
    monkeypatch.setattr(table, "evaluated", lambda _, **given: seeds.append(given["seed"]) or made)
    for given in ([], ["--seed", "0"], ["--seed", "7"]):
        assert main(["evaluate", "coverage", "--quick", "--only", "naive", "--json", *given]) == 0
    assert seeds == [1, 0, 7]
    assert main(["evaluate", "coverage", "--seed", "-1"]) == 2
    assert "--seed" in capsys.readouterr().err


def test_several_processes_make_the_same_rows(monkeypatch):
    """In the same order; another seed makes others."""
    monkeypatch.setattr(table, "QUICK_USERS", (1, 5))
    asked = extent(("naive/per_stream", "sw_direct/mean"), quick=True, runs=3)
    asked = asked._replace(subjects=asked.subjects[:2])
    done = []
    rows = repr(measure(asked, progress=done.append))
    assert repr(measure(asked, jobs=2)) == rows
    assert repr(measure(asked, seed=2)) != rows
    assert done == list(range(1, len(list(asked.groups)) + 1))


def test_it_goes_on_where_it_was_stopped(monkeypatch, tmp_path):
    """Also behind a line that is torn; rows of another run are not among them."""
    monkeypatch.setattr(table, "QUICK_USERS", (1, 5))
    asked = extent(("naive/per_stream", "sw_direct/mean"), quick=True, runs=3)
    asked = asked._replace(subjects=asked.subjects[:2])
    whole, keep, made = measure(asked), tmp_path / "new" / "coverage.jsonl", []
    cells = table.cells

    def counted(*of):
        made.append(of[:3])
        if len(made) == 3:
            raise KeyboardInterrupt
        return cells(*of)

    monkeypatch.setattr(table, "cells", counted)
    with pytest.raises(KeyboardInterrupt):
        measure(asked, keep=keep)
    keep.write_text(keep.read_text()[:-20])
    assert repr(measure(asked, keep=keep)) == repr(whole)
    groups = list(asked.groups)
    assert made == [*groups[:3], *groups[1:]]
    assert repr(measure(asked, keep=keep)) == repr(whole)
    assert len(made) == len(groups) + 2
    for other in (asked._replace(runs=4), asked):
        with pytest.raises(ConfigurationError, match="of 3 runs and seed 1"):
            measure(other, seed=2, keep=keep)


def test_the_page_of_what_there_is_so_far(tmp_path):
    keep = tmp_path / "coverage.jsonl"
    with pytest.raises(ConfigurationError, match="there is no"):
        so_far(keep)
    measure(extent(("naive/per_stream",), quick=True, runs=3), keep=keep)
    said = so_far(keep)
    every = len(list(extent().groups))
    assert f"so far {len(keep.read_text().splitlines()) - 1} of {every:,} groups" in said
    assert "| `naive` | `per_stream` |" in said


@pytest.mark.parametrize(
    "text", ["", "[]\n", "nothing\n", '{"runs": 3, "seed": 1}\n[["naive"], []]\n']
)
def test_another_file_is_refused(text, tmp_path):
    keep = tmp_path / "coverage.jsonl"
    keep.write_text(text)
    with pytest.raises(ConfigurationError, match="not a file of coverage's rows"):
        measure(extent(quick=True), keep=keep)


def test_the_command(capsys, tmp_path):
    """All that is printed is also written, with a page of it."""
    given = ["evaluate", "coverage", "--quick", "--only", "naive/per_stream", "--runs", "8"]
    assert main([*given, "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "coverage.json").read_text())
    assert {row["method"] for row in found["rows"]} == {"naive", "naive (truncation: true)"}
    assert len(found["claims"]) == 2
    assert any("streams left out" in note for note in found["notes"])
    assert "| `naive` | `per_stream` |" in (tmp_path / "coverage.md").read_text()
    assert main(given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == found["title"]
    assert lines[1].split() == list(found["rows"][0])
    assert any(line.endswith("no wider than they must be") for line in lines)


def test_wrong_uses(capsys):
    assert main(["evaluate", "coverage", "--only", "nothing"]) == 2
    assert "--only" in capsys.readouterr().err
    assert main(["evaluate", "cgm", "--jobs", "2"]) == 2
    assert "--jobs" in capsys.readouterr().err
