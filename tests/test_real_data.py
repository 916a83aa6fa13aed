"""Without the real streams the tests that use them skip, and fail only where they must be there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

ROOT = Path(__file__).parents[1]
ON_DATA = "tests/methods/delay/test_errors_on_data.py"  # all of its tests, in every way of cases


def outcomes(folder, **more):
    """How many of a file's tests ended how, without data."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", "0", ON_DATA],
        cwd=ROOT,
        env=os.environ
        | {"LDP_KAFKA_DATA": str(folder), "LDP_KAFKA_REQUIRE": "0", "PYTHONPATH": str(ROOT)}
        | more,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    [last] = re.findall(r"^(.*) in [\d.]+s", done.stdout, re.MULTILINE)
    return {how: int(number) for number, how in re.findall(r"(\d+) (\w+)", last)}, done.stdout


def test_they_skip_with_a_reason_and_fail_where_data_are_required(tmp_path):
    """The reason names the file, and the variable to set; as many fail as skip."""
    skipped, said = outcomes(tmp_path)
    assert skipped.keys() == {"skipped"}, said
    assert f"no unemployment.csv in {tmp_path}" in said
    assert "set LDP_KAFKA_DATA to the folder" in said
    failed, said = outcomes(tmp_path, LDP_KAFKA_REQUIRE="1")
    assert failed == {"failed": skipped["skipped"]}, said


@pytest.mark.parametrize(
    ("required", "outcome"), [("0", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_a_missing_file_skips_or_fails(required, outcome, monkeypatch):
    """And what is no missing file is an error in any case."""
    monkeypatch.setenv("LDP_KAFKA_REQUIRE", required)
    with pytest.raises(outcome, match="no x"), needs.data():
        raise FileNotFoundError("no x")
    with pytest.raises(ValueError, match="else"), needs.data():
        raise ValueError("else")
