"""``ldp-kafka evaluate``: tables by name."""

from __future__ import annotations

import json
from functools import cache

import pytest

from ldp_kafka.cli import main
from ldp_kafka.evaluation.tables import TABLES


def test_all_are_listed(capsys):
    assert main(["evaluate"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(TABLES)
    assert main(["evaluate", "nothing"]) == 2


@pytest.mark.parametrize("name", ["cgm", "sppa-monitoring"])
def test_a_table_as_text_and_as_json(name, capsys, monkeypatch):
    """The same rows; those need no data sets."""
    monkeypatch.setitem(TABLES, name, TABLES[name]._replace(make=cache(TABLES[name].make)))
    assert main(["evaluate", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["evaluate", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert lines[0] == found["title"] == TABLES[name].title
    assert lines[1].split() == list(found["rows"][0])
    assert len(lines) == 2 + len(found["rows"])


def test_without_the_data_sets_it_says_what_to_set(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("LDP_KAFKA_DATA", str(tmp_path))
    assert main(["evaluate", "capp-equal"]) == 2
    assert "LDP_KAFKA_DATA" in capsys.readouterr().err
