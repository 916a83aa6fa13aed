"""The benchmark's plumbing, without a broker and without a word on how fast anything is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.methods.protocols import PROTOCOLS
from ldp_kafka.runtime.stages.requests import is_request, read_request
from ldp_kafka.topology import loads
from tests.bench import core, inputs, protocols
from tests.bench.measure import Figure, digits, ratio, table
from tests.bench.window_loops import LOOPS
from tests.cases import cases

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--only", "core"], {"core"}),
        (["--only", "windows"], {"windows"}),
        (["--only", "curators"], {"curators"}),
        (["--profile"], {"fold", "fold, single"}),
    ],
)
def test_quick_run_prints_its_table_and_writes_every_round(words, parts, tmp_path):
    file = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", *words, "--json", str(file)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    figures = json.loads(file.read_text())
    assert {figure["part"] for figure in figures} == parts
    assert all(
        figure["rounds"] and all(0 <= each < float("inf") for each in figure["rounds"])
        for figure in figures
    )
    assert len(done.stdout.splitlines()) == 1 + len(figures)
    assert done.stderr  # progress


def test_ratios_are_taken_round_by_round():
    figure = ratio("worker", "ours / raw", [2.0, 6.0, 1.0], [1.0, 2.0, 2.0])
    assert figure.rounds == (2.0, 3.0, 0.5)
    assert figure.median == 2.0


def test_the_table_says_median_and_spread():
    text = table([Figure("core", "grr", "M values/s", (150.0, 170.0, 1600.0), ">= 150")])
    assert text.splitlines()[1].split() == [
        "core:",
        "grr",
        "170",
        "150",
        "..",
        "1,600",
        "M",
        "values/s",
        ">=",
        "150",
    ]
    assert digits(0.1234) == "0.123"


def test_plain_numpy_samples_what_it_is_compared_with():
    rng = np.random.default_rng(7)
    grr = core.numpy_grr(np.full(200_000, 3), rng)
    p = np.exp(1) / (np.exp(1) + core.CATEGORIES - 1)
    assert grr.min() == 0
    assert grr.max() == core.CATEGORIES - 1
    assert abs((grr == 3).mean() - p) < 0.002
    wave = core.numpy_square_wave(np.full(200_000, 0.5), rng)
    b = 1 / (2 * (np.e - 2))  # (1 e - e + 1) / (2 e (e - 2)), times e
    b /= np.e
    assert -b - 1e-9 <= wave.min()
    assert wave.max() <= 1 + b + 1e-9
    assert abs((np.abs(wave - 0.5) <= b).mean() - 2 * b * np.e / (2 * b * np.e + 1)) < 0.005


def test_inputs_hold_every_user_once_a_slot():
    sizes = [rows for _, rows in inputs.batches(5000, 2)]
    assert sizes == [2048, 2048, 904] * 2
    *once, last = inputs.singles(50, 50)
    assert len({json.loads(value)["user"] for _, value in once}) == 50
    assert all(json.loads(value)["user"].encode() == key for key, value in once)
    assert json.loads(last[1])["time"] > inputs.SLOT + max(
        json.loads(value)["time"] for _, value in once
    )
    assert len(list(inputs.crowd(5000))) == 3


def test_protocols_are_set_beside_sw_direct_round_by_round():
    found = {name: [protocols.Outcome(4.0, 0), protocols.Outcome(2.0, 0)] for name in PROTOCOLS}
    found[protocols.ASIDE] = [protocols.Outcome(2.0, 0), protocols.Outcome(4.0, 0)]
    beside, *ratios = protocols.figures(found)
    assert beside.rounds == (2.0, 4.0)
    assert [each.rounds for each in ratios] == [(2.0, 0.5)] * 7


@pytest.mark.parametrize("method", ["sw_direct", *PROTOCOLS])
def test_a_log_of_a_protocol_has_a_valid_request_of_each_closed_slot(method, monkeypatch):
    monkeypatch.setattr(protocols, "USERS", 10)
    text = protocols.TEXT.format(name="b", boot="127.0.0.1:1", method=method, window=10, key="k")
    topology = loads(text)
    asked = [read_request(value).slot for value in protocols._log(topology, 4) if is_request(value)]
    wanted = [inputs.FIRST, inputs.FIRST + 1, inputs.FIRST + 2]
    assert asked == (wanted if topology.flow.requests is not None else [])


@cases("name", sorted(LOOPS))
@cases("setting", ["batch", "sliding"])
def test_a_loop_does_what_the_method_does_that_it_is_compared_with(name, setting):
    """Without noise to speak of: at epsilon 2,000, of which the method's tables count 50. Of the
    end of a sliding stream the loop leaves out what is not due.
    """
    own = {"theta": 0.3} if "group" in name or "pegasus" in name else {}
    m = lk.method(
        name,
        epsilon=2000.0,
        delay=6,
        domain=(0.0, 1.0),
        setting=setting,
        smooth=False,
        **own,
        **({"buckets": 4} if name == "buc_order" else {}),
    )
    stream = np.repeat([0.1, 0.9, 0.4, 0.1, 0.6], 12)
    if name == "comp_order":  # which says of equal values what it likes
        stream = np.tile([0.05, 0.35, 0.65, 0.95, 0.2, 0.5, 0.8], 9)
    released = m.release(stream, lk.randomness.seeded(5))
    looped = np.array(LOOPS[name](m, stream.tolist()))
    assert looped.shape == stream.shape
    assert np.abs(released - looped)[: -m.windows.span].mean() < 0.05
