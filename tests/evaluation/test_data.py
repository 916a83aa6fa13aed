"""Data sets are found where LDP_KAFKA_DATA says, and their absence says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import data
from ldp_kafka.evaluation.sources import SOURCES


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder of data."""
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_series_is_its_column(folder):
    """In the order of the file."""
    (folder / "volume.csv").write_text("t,value\n0,5545\n1,4516\n")
    assert data.series("volume").tolist() == [5545, 4516]


def test_missing_data_say_what_to_set(folder):
    """The folder that was looked at, and the variable."""
    with pytest.raises(FileNotFoundError, match=r"no volume\.csv in .*LDP_KAFKA_DATA") as error:
        data.series("volume")
    assert str(folder) in str(error.value)


def test_missing_data_say_what_to_get(folder, capsys):
    """Source, licence, columns and where to put it, of every file that is looked for."""
    assert main(["evaluate", "capp-order"]) == 2
    said = capsys.readouterr().err
    assert f"error: no volume.csv in {folder}: " in said
    for part in ("archive.ics.uci.edu/dataset/492", "CC BY 4.0", "t,value", f"set {data.VARIABLE}"):
        assert part in said
    root = Path(data.__file__).parent
    named = {
        name
        for path in root.rglob("*.py")
        if path.name != "sources.py"
        for name in re.findall(r'"([a-z0-9_]+\.csv)"', path.read_text("utf-8"))
    }
    assert named == SOURCES.keys(), "what is looked for, and nothing else, has its source"
    for name, origin in SOURCES.items():
        with pytest.raises(FileNotFoundError) as error:
            data.find(name)
        assert origin in str(error.value)


def test_unknown_names_are_refused(folder):
    """With what is known."""
    with pytest.raises(ConfigurationError, match=r"known: .*volume"):
        data.series("volumes")
    (folder / "volume.csv").write_text("t,amount\n0,1\n")
    with pytest.raises(ConfigurationError, match=r"no column value; it has t, amount"):
        data.series("volume")


def test_days_are_whole_and_start_at_midnight(folder):
    """A day with a missing hour is in no run; runs of two days overlap."""
    rows = [
        f"2020-01-0{day}T{hour:02d}:00:00,{100 * day + hour}"
        for day in (1, 2, 3, 4, 5)
        for hour in range(24)
        if (day, hour) != (4, 7)
    ]
    (folder / "volume_hourly_dedup.csv").write_text("datetime,value\n" + "\n".join(rows) + "\n")
    runs = data.volume_days(2)
    assert runs.shape == (2, 48)
    assert (runs[0] == np.r_[np.arange(100, 124), np.arange(200, 224)]).all()
    assert (runs[1][:24] == runs[0][24:]).all()
    assert data.volume_days(1).shape == (4, 24)
