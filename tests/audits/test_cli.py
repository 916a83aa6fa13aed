"""``ldp-kafka audit``, and the picture."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.audits import ALPHA, FORMULAS, audit, audit_reports
from ldp_kafka.audits.plot import plot
from ldp_kafka.cli import main
from ldp_kafka.cli.audit import audit as command
from ldp_kafka.cli.audit_files import read
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.records import Reports
from ldp_kafka.runtime.wire.records import encode_json, header
from ldp_kafka.runtime.wire.reports import write_reports

CODE = """
import numpy as np
rng = np.random.default_rng()
def laplace(values):
    return values + rng.laplace(0, 1, len(values))
def single(value):
    return value if rng.random() < 0.5 else 1 - value
"""
FEW = ["-n", "100000", "--alpha", "1e-6"]
FINGERPRINT = "0" * 32


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A user's own module where the user is."""
    (tmp_path / "theirs.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("theirs", None)


def batch(values, offset=1, scale=1.0):
    n = len(values)
    ids = np.random.default_rng().integers(0, 2**63, (n, 2)).astype(np.uint64)
    return Reports(ids, np.zeros(n, np.int64), np.asarray(values), scale, FINGERPRINT, offset, None)


def dump(path, values, *, arrow, between=b""):
    """What a consumer of the topic would write: a header, and messages."""
    parts = [header("t", FINGERPRINT, FINGERPRINT)]
    if arrow:
        parts += [
            write_reports(batch(some, i))
            for i, some in enumerate(np.array_split(values, max(1, len(values) // 5000)))
        ]
    else:
        parts += [encode_json(batch(values[i : i + 1], i)) for i in range(len(values))]
    path.write_bytes(between.join(parts) if arrow else b"\n".join(parts))
    return path


def test_a_mechanism(capsys):
    """Ours keeps its word: 0; claimed less than it spends: 1."""
    ask = ["audit", "--mechanism", "square_wave", "--epsilon", "1.3", "--domain", "0", "1", *FEW]
    assert main(ask) == 0
    said = capsys.readouterr()
    assert "(claimed 1.3): not violated" in said.out
    assert "the worst of 3 pairs of inputs" in said.out
    assert main([*ask, "--claimed", "1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["violated"] is True
    assert 1 < found["epsilon_lower"] <= 1.3
    assert (
        main(
            [
                "audit",
                "--mechanism",
                "square_wave",
                "--epsilon",
                "1",
                "--parameter",
                "cells=64",
                "--inputs",
                "0",
                "0.5",
                *FEW,
            ]
        )
        == 0
    )


def test_a_callable(code, tmp_path, capsys):
    """By its formula, infinite; by its last bits; one value at a time."""
    ask = ["audit", "--callable", "theirs:laplace", "--inputs", "0.0", "1.0", "--epsilon", "1"]
    assert main([*ask, "--formula", "additive", "-n", "2000", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["epsilon_lower"] == "inf"
    assert main([*ask, "--formula", "laplace", "--domain", "0", "1", "-n", "2000"]) == 1
    assert "epsilon is infinite, for certain (claimed 1): VIOLATED" in capsys.readouterr().out
    assert main([*ask, *FEW, "--plot", str(tmp_path / "a.png")]) == 1
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert main([*ask, *FEW, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    # the reports' sizes would tell at most 1; which of the events of last bits wins is chance
    assert found["epsilon_lower"] > 3
    assert "power" in found["event"]
    assert (
        main(
            [
                "audit",
                "--callable",
                "theirs:single",
                "--each",
                "--inputs",
                "0",
                "1",
                "--epsilon",
                "0.1",
                "-n",
                "10000",
                "--alpha",
                "1e-6",
            ]
        )
        == 0
    )
    assert (
        main(
            [
                "audit",
                "--callable",
                "theirs:single",
                "--each",
                "--inputs",
                "0",
                "1",
                "--epsilon",
                "0.1",
                "-n",
                "10000",
                "--alpha",
                "1e-6",
                "--bits",
            ]
        )
        == 0
    )


@pytest.mark.parametrize("arrow", [True, False])
def test_two_topics(tmp_path, capsys, arrow):
    """Dumps of report topics, as Arrow messages or as JSON lines, with their header records."""
    m, n = lk.mechanism("grr", epsilon=2.0, categories=4), 50_000 if arrow else 4000
    first, second = (
        dump(tmp_path / str(x), m.perturb(np.full(n, x), lk.randomness.system()), arrow=arrow)
        for x in (0, 1)
    )
    assert len(read(first)) == n
    kept = ["audit", "--reports", str(first), str(second), "--epsilon", "2", "--alpha", "1e-6"]
    assert main(kept) == 0
    assert main(["audit", "--reports", str(first), str(second), "--epsilon", "1"]) == 1
    assert "VIOLATED" in capsys.readouterr().out


def test_topics_need_their_broker(capsys):
    assert main(["audit", "--topics", "a", "b", "--epsilon", "1"]) == 2
    assert main(["audit", "--mechanism", "grr", "--bootstrap-servers", "localhost:1"]) == 2
    assert "go together" in capsys.readouterr().err


@pytest.mark.parametrize("between", [b"", b"\n"])
def test_packed_bits(tmp_path, capsys, between):
    """Bit by bit, whatever stands between the messages; index columns full of the bytes that end a
    stream are read whole.
    """
    rng = np.random.default_rng()
    first, second = (np.packbits(rng.random((20_000, 12)) < p, axis=1) for p in (0.5, 0.2))
    paths = [
        dump(tmp_path / name, bits, arrow=True, between=between)
        for name, bits in (("a", first), ("b", second))
    ]
    assert np.array_equal(read(paths[0]), first)
    assert main(["audit", "--reports", *map(str, paths), "--bits", "--epsilon", "5", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["worst"]["violated"] is False
    assert found["composed"]["violated"] is True
    assert found["constant"] == [12, 13, 14, 15]
    tricky = np.tile([-1, 0, -1], 4000)
    assert np.array_equal(read(dump(tmp_path / "c", tricky, arrow=True, between=between)), tricky)


def test_plain_lines(tmp_path):
    """Numbers, lists and labels."""
    path = tmp_path / "x"
    for text, shape in (
        ("1\n2.5\n\n3\n", (3,)),
        ("[0,1]\n[1,1]\n", (2, 2)),
        ('"a"\n"b"\n', (2,)),
        ('{"value": 3}\n{"value": 4}', (2,)),
    ):
        path.write_text(text)
        assert read(path).shape == shape


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xff\xff\xff\x10\x00\x00\x00",
        b"987654321 nonsense",
        b'{"a": 987654321}',
        b"[1]\n[1, 2]",
        b"null",
        b'{"bits": "00"}\n{"bits": "0000"}',
    ],
)
def test_other_files_are_refused(tmp_path, capsys, content):
    """Exit code 2, the file's name, and nothing of what is in it."""
    path = tmp_path / "dump"
    path.write_bytes(content)
    assert main(["audit", "--reports", str(path), str(path)]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert "987654321" not in said
    with pytest.raises(ConfigurationError, match="cannot read"):
        read(tmp_path / "missing")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--mechanism", "grr", "--callable", "a:b"],
        ["--mechanism", "grrr", "--epsilon", "1"],
        ["--mechanism", "grr", "--epsilon", "-1", "--categories", "4"],
        ["--mechanism", "grr", "--epsilon", "1", "--categories", "4", "--parameter", "x"],
        ["--mechanism", "grr", "--epsilon", "1", "--categories", "4", "--inputs", "0", "seven"],
        ["--mechanism", "grr", "--epsilon", "1", "--categories", "4", "--inputs", "0", "7"],
        ["--mechanism", "grr", "--epsilon", "1", "--categories", "4", "--alpha", "0"],
        ["--mechanism", "grr", "--epsilon", "1"],
        ["--callable", "theirs", "--inputs", "0", "1"],
        ["--callable", "theirs:nothing", "--inputs", "0", "1"],
        ["--callable", "nowhere_at_all:f", "--inputs", "0", "1"],
        ["--callable", "theirs:laplace"],
        ["--callable", "theirs:laplace", "--inputs", "0", "1", "--formula", "laplace"],
        ["--reports", "a", "b", "--formula", "additive"],
    ],
)
def test_wrong_usage_is_2(code, words, capsys):
    """And no traceback."""
    assert main(["audit", *words, "-n", "1000"]) == 2
    assert capsys.readouterr().err


def test_the_picture(tmp_path):
    """Of a finding, of none, of events that one input never has; an exact finding has nothing to
    draw.
    """
    rng = np.random.default_rng()
    for name, found in (
        (
            "found",
            audit(
                lk.mechanism("square_wave", epsilon=1.3, domain=(0.0, 1.0)),
                0.0,
                1.0,
                claimed=1.0,
                reports=100_000,
            ),
        ),
        ("none", audit(lk.mechanism("grr", epsilon=1.0, categories=4), 0, 1, reports=20_000)),
        ("never", audit_reports(rng.laplace(0, 1, 50_000), 1 + rng.laplace(0, 1, 50_000))),
        ("all", audit(lambda x: x, 0, 1, claimed=1.0, reports=1000)),
    ):
        plot(tmp_path / "new" / f"{name}.png", found)
        assert (tmp_path / "new" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    exact = audit(
        lambda x: x + rng.laplace(0, 1, len(x)),
        0.0,
        1.0,
        reports=2000,
        formula=FORMULAS["additive"](1.0, (0.0, 1.0)),
    )
    with pytest.raises(ConfigurationError, match="nothing to draw"):
        plot(tmp_path / "exact.png", exact)


def test_alpha_is_the_librarys():
    """The command's default is that of the function."""
    assert {one.default for one in command.params if one.name == "alpha"} == {ALPHA}


def test_audits_are_light():
    """They load numpy and nothing else of others."""
    code = (
        "import ldp_kafka.audits, sys; print(sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not [
        name
        for name in ("scipy", "matplotlib", "click", "pyarrow", "faust", "cryptography")
        if f"'{name}'" in done.stdout
    ]
