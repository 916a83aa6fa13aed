"""Methods on one's own values: errors, verdicts, tables, and the command."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import ldp_kafka as lk
from ldp_kafka.cli import main
from ldp_kafka.errors import ConfigurationError
from ldp_kafka.evaluation import compare
from ldp_kafka.evaluation.compare import CROWD, SLOTS, WINDOWS, rows, verdicts
from ldp_kafka.evaluation.experiment import by, where
from ldp_kafka.methods.values import Numbers
from ldp_kafka.randomness import seeded
from ldp_kafka.runtime.compare import streams_of
from tests.cases import cases

NAN = float("nan")
UNIT = {"window": 1, "domain": (0.0, 10.0)}


class EveryOther(lk.Method):
    """Reports every other slot, off by 1 / epsilon, and of a crowd nothing."""

    name, statistics, own_noise, calibration = "every_other", ("per_user",), True, "sound"
    fields, step, tables = {}, None, None
    spend = 1

    def __init__(self, *, epsilon, window, domain):
        self.epsilon, self.window = epsilon, window
        self.values = Numbers(self.name, domain, None)

    def release(self, streams, source, *, present):
        reported = present & (np.arange(streams.shape[1]) % 2 == 0)
        return np.where(reported, streams + 1 / self.epsilon, NAN)


def test_errors_are_those_of_a_hand(monkeypatch):
    """What was released last stands, in slots with a value; a silent slot is in no error."""
    monkeypatch.setitem(lk.METHODS, "every_other", EveryOther)
    streams = [[2.0, NAN, 6.0, 8.0, 9.5, 1.0]]
    found = rows(streams, ["every_other"], [1.0], window=3, domain=(0.0, 10.0))
    of = by(found, "target", "method")
    # standing are 3, -, 7, 7, 10.5 (clipped: 10), 10.5
    slots, windows = (1 + 1 + 1 + 0.25 + 81) / 5, (1 + (28 / 3 - 18.5 / 3) ** 2) / 2
    assert of[SLOTS, "every_other"]["rmse"] == pytest.approx(slots**0.5)
    assert of[WINDOWS, "every_other"]["rmse"] == pytest.approx(windows**0.5)
    slots, windows = (9 + 1 + 9 + 20.25 + 16) / 5, (1 + (18.5 / 3 - 5) ** 2) / 2
    assert of[SLOTS, "constant"]["rmse"] == pytest.approx(slots**0.5)
    assert of[WINDOWS, "constant"]["rmse"] == pytest.approx(windows**0.5)
    row = of[SLOTS, "every_other"]
    assert row["ratio"] == row["rmse"] / of[SLOTS, "constant"]["rmse"]
    assert row["level"] == "w-event"
    assert row["rmse_error"] < 1e-12
    assert {row["target"] for row in found} == {SLOTS, WINDOWS}
    (flat, first) = rows([[NAN, 7.0]], ["every_other"], [1.0], **UNIT)
    assert flat["rmse"] == first["rmse"] == 2  # the midpoint stands before the first report


def test_the_crowds_mean_is_of_those_who_have_a_value():
    """With hardly any noise nothing else would be so near."""
    streams = np.array([[1.0, NAN, NAN, 9.0], [2.0, 4.0, NAN, 5.0], [6.0, NAN, NAN, 1.0]] * 20)
    for name in ("sw_direct", "lpu"):
        found = rows(streams, [name], [2000.0], parameters={"mechanism": "piecewise"}, **UNIT)
        (row,) = where(found, target=CROWD, method=name)
        assert row["rmse"] < 0.01
        (flat,) = where(found, target=CROWD, method="constant")
        assert flat["rmse"] == pytest.approx(((2**2 + 1**2 + 0) / 3) ** 0.5)


@cases("name", ["sw_direct", "capp", "sampling"])
def test_what_is_released_is_what_the_method_releases(name):
    """Where a crowd's mean is made of its reports too."""
    values = np.random.default_rng(1).random((6, 12)) * 10
    values[1, 3:5] = NAN
    there = ~np.isnan(values)
    made = lk.method(name, epsilon=4.0, window=4, domain=(0.0, 10.0))
    found, crowds = compare._released(made, values, 2, seeded(3))
    filled = np.where(there, values, 0.0)
    whole = made.release(filled, seeded(3), present=there)
    assert np.array_equal(made.held(found), made.held(whole))
    assert np.shape(crowds) == (2, 12)
    if name == "sw_direct":
        inverse = lk.methods.shrinkage.debias(made, whole)
        assert crowds == pytest.approx(np.nanmean(inverse.reshape(2, 3, 12), axis=1))


def test_noise_is_seeded_and_other_noise_in_each_repeat():
    streams = np.full((1, 40), 4.0)
    found, again, other = (
        by(rows(streams, ["naive"], [1.0], seed=seed, **UNIT), "method")["naive"]
        for seed in (1, 1, 2)
    )
    assert found == again != other
    assert found["rmse_error"] > 0
    many = by(rows(streams, ["naive"], [1.0], repeats=200, **UNIT), "method")["naive"]
    assert many["rmse"] == pytest.approx(found["rmse"], abs=5 * found["rmse_error"])


def test_only_equal_guarantees_are_compared():
    """What releases windows is there with that of the others, too."""
    names = ["sw_direct", "naive", "fast", "gaussian_direct", "swp"]
    parameters = {"delta": 1e-5, "samples": 4}
    streams = np.full((1, 30), 2.0)
    found = rows(streams, names, [9.0], window=5, domain=(0.0, 10.0), parameters=parameters)
    assert {(row["method"], row["level"]) for row in found} == {
        ("constant", "any"),
        ("sw_direct", "w-event"),
        ("naive", "event"),
        ("naive", "w-event"),
        ("fast", "user"),
        ("gaussian_direct", "user, delta 1e-05"),
        ("swp", "w-event, time only"),
    }
    assert [each.level for each in verdicts(where(found, target=SLOTS))] == [
        *("w-event", "event", "user", "user, delta 1e-05", "w-event, time only")
    ]
    of = by(where(found, target=SLOTS, method="naive"), "level")
    assert of["w-event"]["rmse"] > 1.5 * of["event"]["rmse"]


def row(method, epsilon, rmse, error=0.01, level="w-event"):
    return {
        "target": SLOTS, "epsilon": epsilon, "level": level, "method": method,
        "rmse": rmse, "rmse_error": error, "ratio": rmse,
    }  # fmt: skip


def test_a_verdict_is_given_in_both_directions():
    found = [
        *(row("constant", 1, 1.0, 0.0, "any"), row("a", 1, 1.2), row("b", 1, 0.99)),
        *(row("constant", 2, 1.0, 0.0, "any"), row("a", 2, 0.8), row("b", 2, 0.4)),
        row("c", 2, 0.1, level="event"),
        *(row("constant", 4, 1.0, 0.0, "any"), row("a", 4, 0.31), row("b", 4, 0.3)),
    ]
    assert [(each.epsilon, each.level, each.take) for each in verdicts(found)] == [
        *((1, "w-event", None), (2, "w-event", "b"), (2, "event", "c"), (4, "w-event", "b"))
    ]
    said = [each.said.removeprefix(f"{SLOTS}, ") for each in verdicts(found)]
    nothing = "nothing is clearly better than the constant, RMSE 1; nearest is b, RMSE 0.99"
    assert said == [
        f"w-event, epsilon 1: {nothing}; at epsilon 2 b is better",
        "w-event, epsilon 2: take b, RMSE 0.4: 50 % below a, 60 % below the constant",
        "event, epsilon 2: take c, RMSE 0.1: 90 % below the constant",
        "w-event, epsilon 4: take b, RMSE 0.3: not told apart from a, 70 % below the constant",
    ]


def test_a_method_of_which_little_is_known_hides_no_other():
    found = [row("constant", 1, 1.0, 0.0, "any"), row("a", 1, 0.7, 0.2), row("b", 1, 0.8)]
    ((*_, take, said),) = verdicts(found)
    assert take == "b"
    assert said.endswith("take b, RMSE 0.8: not told apart from a, 20 % below the constant")


@cases(
    ("change", "words"),
    [
        ({"methods": ["cappp"]}, r"unknown method 'cappp' \(did you mean capp\?\); known: adapub"),
        ({"methods": ["cgm_vector"]}, "is for lists of numbers"),
        ({"methods": ["lpu"]}, "lpu releases the mean of a crowd, and there is one user"),
        ({"methods": ["cgm"]}, "cgm needs a value of delta too"),
        ({"methods": []}, "give a method"),
        ({"repeats": 1}, "two repeats"),
        ({"epsilons": [-1.0]}, "capp at epsilon -1: epsilon must"),
        ({"window": 9}, "have 8 slots, and the window 9"),
        ({"domain": (1.0, 1.0)}, "domain"),
        ({"streams": [[1.0, np.inf]]}, "finite numbers or NaN"),
        ({"streams": [[NAN, NAN]]}, "not all NaN"),
        ({"parameters": {"blok": 2}}, r"unknown parameter 'blok' \(did you mean block\?\)"),
        ({"parameters": {"calibration": "published"}}, "unknown parameter 'calibration'"),
        ({"parameters": {"block": "2"}}, "capp at epsilon 1: block must"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, words):
    given = {"streams": np.ones((1, 8)), "methods": ["capp"], "epsilons": [1.0], **UNIT, **change}
    with pytest.raises(ConfigurationError, match=words):
        rows(given.pop("streams"), given.pop("methods"), given.pop("epsilons"), **given)


def test_each_row_of_a_user_is_its_next_slot():
    """A row without a value, or with NaN, is silence."""
    frame = {"user": ["a", "b", "a", "b", "a"], "value": [1.0, 2.0, None, NAN, 5.0]}
    found = streams_of(frame)
    assert found == pytest.approx(np.array([[1.0, NAN, 5.0], [2.0, NAN, NAN]]), nan_ok=True)
    alone = streams_of({"value": [1, 2, 3, 4, 5]})
    assert alone.tolist() == [[1, 2, 3, 4, 5]]
    many = {"user": np.arange(999) % 3, "value": np.arange(999)}
    assert streams_of(many).tolist() == np.arange(999).reshape(-1, 3).T.tolist()
    assert streams_of({"value": [1, 2, 3, 4, 5]}, users=2).tolist() == [[1, 2], [3, 4]]


def test_times_say_the_slot():
    """In any order and before 1973, too; the first value of a slot counts; slots without a row are
    silent.
    """
    said = []
    when = ["1970-01-01T03:10", "1970-01-01T00:00", "1970-01-01T00:59", "1970-01-01T03:30"]
    frame = {"value": [4.0, 1.0, 2.0, 7.0], "time": when}
    found = streams_of(frame, slot="1h")
    assert found == pytest.approx(np.array([[1.0, NAN, NAN, 4.0]]), nan_ok=True)
    assert streams_of(frame, tell=said.append).tolist() == [[4, 1, 2, 7]]
    assert "give --slot to go by the column time" in said[0]


@cases(
    ("frame", "how", "words"),
    [
        ({"kwh": [1]}, {}, "no column value among kwh: --value-column"),
        ({"value": [1]}, {"user": "who"}, "no column who among value: --user-column"),
        ({"value": [1]}, {"slot": "1h"}, "no column time among value"),
        ({"value": [1], "time": [0]}, {"slot": "1 hour"}, "a duration must be"),
        ({"value": ["x"]}, {}, "row 1: column value must be readable as a number"),
        ({"value": [1, 2], "user": ["a", "b"]}, {"users": 2}, "here are 2"),
        ({"value": [1, 2]}, {"users": 3}, "too short"),
        ({"value": [1, 2], "time": [0, 1e9]}, {"slot": "1s"}, "give longer slots"),
        ([1, 2], {}, "the frame must be a table"),
    ],
)
def test_what_is_no_stream_is_refused(frame, how, words):
    with pytest.raises(ConfigurationError, match=words):
        streams_of(frame, **how)


@pytest.fixture
def table():
    rng = np.random.default_rng(4)
    values = np.where(rng.random(400) < 0.1, NAN, rng.random(400) * 10)
    return pa.table(
        {
            "meter": np.repeat(np.arange(20), 20),
            "kwh": pa.array(values, from_pandas=True),
            "ts": np.tile(np.arange(20), 20) * 3600 + 1_700_000_000,
        }
    )


COLUMNS = ["--user-column", "meter", "--value-column", "kwh", "--time-column", "ts", "--slot", "1h"]
ASKED = [
    "--methods",
    "sw_direct,lpu,segment_mean",
    "--epsilon",
    "2,80",
    "--window",
    "4",
    "--delay",
    "2",
]


def test_the_command_on_csv_and_parquet(table, tmp_path, capsys):
    """The same figures as in Python."""
    csv.write_csv(table, tmp_path / "a.csv")
    parquet.write_table(table, tmp_path / "a.parquet")
    told = []
    for name in ("a.csv", "a.parquet"):
        where_ = [str(tmp_path / name), *ASKED, *COLUMNS, "--domain", "0,10", "--repeats", "3"]
        assert main(["compare", *where_, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    assert (told[0]["users"], told[0]["slots"]) == (20, 20)
    names = {"user": "meter", "value": "kwh", "time": "ts", "slot": "1h"}
    found = lk.compare(
        *(table, ["sw_direct", "lpu", "segment_mean"], [2, 80]),
        **{"window": 4, "domain": (0, 10), "parameters": {"delay": 2}, "repeats": 3, **names},
    )
    assert told[0]["rows"] == found
    assert told[0]["verdicts"] == [each._asdict() for each in verdicts(found)]
    assert {row["target"] for row in found} == {SLOTS, WINDOWS, CROWD}


def test_the_command_says_and_draws_it(table, tmp_path, capsys):
    csv.write_csv(table, tmp_path / "a.csv")
    given = [str(tmp_path / "a.csv"), *ASKED, *COLUMNS, "--domain", "0,9"]
    plot = tmp_path / "deep" / "a.png"
    assert main(["compare", *given, "--plot", str(plot)]) == 0
    out, err = capsys.readouterr()
    assert plot.read_bytes().startswith(b"\x89PNG")
    blocks = out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks[:3]] == [SLOTS, WINDOWS, CROWD]
    assert blocks[0].splitlines()[1].split() == [
        *("epsilon", "level", "method", "rmse", "rmse_error", "ratio")
    ]
    assert f"{SLOTS}, event, epsilon 80: take segment_mean, RMSE " in blocks[3]
    assert "values lie outside of the domain" in err
    assert "rows lack a user, a value or a time" in err


@cases(
    ("more", "words"),
    [
        ([], "give --domain LO,HI: it is public"),
        (["--domain", "0"], "give --domain LO,HI"),
        (["--domain", "0,ten"], "must be numbers with a comma between them"),
        (["--domain", "0,10", "--parameter", "block"], "--parameter takes NAME=VALUE"),
        (["--domain", "0,10", "--value-column", "watts"], "no column watts among meter, kwh, ts"),
    ],
)
def test_wrong_use_is_2(more, words, table, tmp_path, capsys):
    csv.write_csv(table, tmp_path / "a.csv")
    assert main(["compare", str(tmp_path / "a.csv"), *ASKED, *COLUMNS, *more]) == 2
    assert words in capsys.readouterr().err
