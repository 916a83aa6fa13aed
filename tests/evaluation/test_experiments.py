"""``ldp-kafka evaluate``: experiments by name."""

from __future__ import annotations

import json
from functools import cache, partial

import pytest

from ldp_kafka.cli import main
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.experiment import unsaid
from ldp_kafka.evaluation.experiments import EXPERIMENTS
from ldp_kafka.evaluation.ldp_ids import sweeps
from tests import needs


def test_all_are_listed(capsys):
    assert main(["evaluate"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [*EXPERIMENTS, "coverage"]
    assert main(["evaluate", "nothing"]) == 2


@pytest.mark.parametrize("name", ["cgm", "sppa-monitoring"])
def test_a_table_as_text_and_as_json(name, capsys, monkeypatch):
    """The same rows; those need no data sets."""
    experiment = EXPERIMENTS[name]
    monkeypatch.setitem(EXPERIMENTS, name, experiment._replace(rows=cache(experiment.rows)))
    assert main(["evaluate", name, "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["evaluate", name, "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert lines[0] == found["title"] == EXPERIMENTS[name].title
    assert lines[1].split() == list(found["rows"][0])
    table = lines.index("") if "" in lines else len(lines)
    assert table == 2 + len(found["rows"])


@pytest.mark.parametrize(
    "name",
    [
        *("ldp-ids-window", "ldp-ids-meters", "ldp-ids-scale", "capp-clip"),
        *("sppa-maps", "sppa-monitoring"),
    ],
)
def test_a_quick_table_with_its_claims_and_plots(name, capsys, tmp_path, monkeypatch):
    """They need no data sets; all that is printed is also written. A quarter of each stream will
    do: what the figures are is not looked at.
    """
    monkeypatch.setattr(sweeps, "stream", partial(sweeps.stream, slots=200))
    assert main(["evaluate", name, "--quick", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / f"{name}.json").read_text())
    assert found["rows"]
    assert all(
        each["reproduced"]
        is (each["held"] >= each["needed"] * each["settings"] if each["settings"] else None)
        for each in found["claims"]
    )
    drawn = sorted(path.name for path in tmp_path.glob("*.png"))
    figures = sorted(EXPERIMENTS[name].figures)
    assert drawn == [f"{name}{'-' * bool(figure)}{figure}.png" for figure in figures]


def test_claims_are_printed_below_the_rows(capsys):
    assert main(["evaluate", "ldp-ids-meters", "--quick"]) == 0
    _, said, data = capsys.readouterr().out.split("\n\n")
    assert {line.split(" (")[0] for line in said.splitlines()} == {"reproduced", "not reproduced"}
    assert "3,000 made-up meters" in data


def test_an_experiment_that_is_not_there_is_told(capsys):
    assert main(["evaluate", "capp-blokcs", "--quick"]) == 2
    assert "did you mean capp-blocks" in capsys.readouterr().err


def test_every_experiment_takes_its_quick_parameters():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.quick, name
        if name.startswith(("capp", "ldp-ids", "delay", "sppa", "cgm-")):
            assert experiment.claims is not unsaid, name


def test_without_the_data_sets_it_says_what_to_set(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("LDP_KAFKA_DATA", str(tmp_path))
    assert main(["evaluate", "capp-equal"]) == 2
    assert "LDP_KAFKA_DATA" in capsys.readouterr().err
    assert main(["evaluate", "ldp-ids-epsilon"]) == 2
    assert "tdrive_region_counts.csv" in capsys.readouterr().err
    assert main(["evaluate", "delay-methods"]) == 2
    assert "unemployment.csv" in capsys.readouterr().err


def test_quick_delay_windows_are_drawn(capsys, tmp_path):
    """One quick table from the data to its plots; the others' rows have tests of their own."""
    with needs.data():
        data.find("unemployment.csv")
    name = "delay-buckets"
    assert main(["evaluate", name, "--quick", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in found["rows"]} == {"midpoint", "buc_order"}
    assert found["claims"][0]["reproduced"], "too narrow buckets have more error"
    assert [path.name for path in tmp_path.glob("*.png")] == [f"{name}.png"]
