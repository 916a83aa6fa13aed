"""What is judged is what topologies publish."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ldp_kafka as lk
from ldp_kafka.evaluation.coverage.cells import HOLDS, NARROW, NULL, WIDE
from ldp_kafka.methods.runnable import names, runnable
from ldp_kafka.methods.values import VALUES
from ldp_kafka.records import Ids
from ldp_kafka.runtime import local
from ldp_kafka.runtime.coverage import released
from ldp_kafka.runtime.coverage.released import cells, published
from ldp_kafka.runtime.coverage.subjects import DOMAIN, FURTHER, SLOTS, SUBJECTS
from ldp_kafka.runtime.coverage.told import reported, told
from ldp_kafka.runtime.keys import edge_randomness
from ldp_kafka.runtime.replay.messages import as_log, messages
from ldp_kafka.runtime.replay.source import from_arrays
from ldp_kafka.statistics.mean import Mean
from tests.cases import cases

KEY = bytes(range(32))


def subject(method, statistic):
    [found] = [each for each in SUBJECTS if (each.method, each.statistic) == (method, statistic)]
    return found


def test_every_method_is_judged_with_every_statistic_that_it_has():
    expected = {
        (name, statistic)
        for name in names()
        for kind in VALUES
        if (found := runnable(name, kind)) is not None and found.kind == kind
        for statistic in found.statistics
    } | {(name, "mean") for name in FURTHER}
    assert {(each.base, each.statistic) for each in SUBJECTS} == expected
    for each in SUBJECTS:
        assert each.topology.statistics.statistics[0].name == each.statistic


@pytest.fixture
def seen(monkeypatch):
    """Each number that `cells` judges, by its cell."""
    found = {}

    def kept(name, numbers, **how):
        found[name] = numbers
        return judge(name, numbers, **how)

    judge = released.row_of
    monkeypatch.setattr(released, "row_of", kept)
    return found


@cases(
    "method, statistic",
    [
        ("sw_direct", "mean"),
        ("sw_direct (moving_average)", "mean"),
        ("cgm", "mean"),
        ("lpu", "frequencies"),
        ("lpa", "mean"),
        ("lsp", "distribution"),
    ],
)
def test_it_is_what_a_topology_publishes(method, statistic, seen):
    """One run: the numbers are those of a replay of the same values through `runtime.local`, read
    as a consumer reads them.
    """
    one = subject(method, statistic)
    seen.clear()
    cells(one, "random walk", 40, runs=1, seed=3)
    topology, values = one.topology, made(one, "random walk", 40, 3)
    meant = told(topology.method, values, released.START)
    source = from_arrays(topology, values, 1000 * released.START)
    source = replace(source, users=[f"u0-{user}" for user in range(40)])
    log = as_log(topology, messages(topology, source, 2048))
    run = local.run(topology, noise(one, "random walk", 40, 3), log)
    [*releases] = (each for record in run.releases for each in lk.decode(record.value))
    mine = {}
    for name, numbers in seen.items():
        for at, slot in enumerate(numbers.slot.tolist()):
            columns = (numbers.error, numbers.low, numbers.high, numbers.off)
            mine[slot, name.of] = tuple(float(column[at]) for column in columns)
    theirs = {}
    for release in releases:
        if release.value is None:
            continue
        slot = release.slot - released.START
        interval = release.confidence_interval or (np.nan, np.nan)
        error = np.nan if release.standard_error is None else release.standard_error
        columns = (release.value, error, *interval)
        for at, of in enumerate(one.numbers):
            value, error, low, high = (
                each[at] if isinstance(each, list) else each for each in columns
            )
            true, scale = truth(one, meant[:, slot])[at], 1 if one.shares else 20
            theirs[slot, of] = tuple(
                each / scale for each in (error, low - true, high - true, value - true)
            )
    assert mine.keys() == theirs.keys()
    assert len(mine) >= SLOTS - 3
    for place, numbers in theirs.items():
        assert mine[place] == pytest.approx(numbers, abs=1e-12, nan_ok=True), place


def made(one, stream, users, seed):
    """The values of the first run."""
    digest = released.digest_of(one, stream, users, seed)
    rng = np.random.default_rng(np.frombuffer(digest, np.uint32))
    return released.values_of(one, stream, users, rng)


def noise(one, stream, users, seed):
    return edge_randomness(
        one.topology, released.digest_of(one, stream, users, seed), released.DEPLOYMENT
    )


def truth(one, values):
    if one.categorical:
        return [np.mean(values == at) for at in range(3)]
    if one.shares:
        return (np.histogram(values, 4, DOMAIN)[0] / len(values)).tolist()
    return [values.mean()]


@cases("method, statistic", [("cgm", "mean"), ("lpu", "frequencies")])
def test_runs_that_share_a_log_are_those_of_logs_of_their_own(method, statistic):
    """Noise depends on the slot, so the second run stays in its place."""
    one = subject(method, statistic)
    topology, rng = one.topology, np.random.default_rng(1)
    first, second = (released.values_of(one, "random walk", 20, rng) for _ in range(2))
    empty = np.full_like(first, -1 if one.categorical else np.nan)
    randomness = edge_randomness(topology, KEY, "here")
    both = published(topology, [first, second], randomness)
    alone = published(topology, [first], randomness) + published(
        topology, [empty, second], randomness
    )
    valued = [[each for each in found if each["value"] is not None] for found in (both, alone)]
    assert valued[0] == valued[1]
    assert len(valued[0]) == 2 * SLOTS


CLOSING = 12  # slots in which all windows of these close


def test_no_release_looks_back_at_another_run(monkeypatch):
    """The second crowd is where the first one, as fast as its clipped values can move, would have
    come while windows close. In a log with no more slots between them it states no error.
    """
    topology, (lo, hi) = subject("cgm", "mean").topology, DOMAIN
    far = (CLOSING + 1) * topology.method._clips * (hi - lo)
    runs = [np.full((1500, SLOTS), lo + start) for start in (1.0, 1.0 + far)]
    randomness = edge_randomness(topology, KEY, "here")

    def reasons():
        found = published(topology, runs, randomness)
        return {each.get("error_reason") for each in found if each["value"] is not None}

    assert topology.statistics.looks_back > CLOSING
    assert reasons() == {None}
    monkeypatch.setattr(released, "_gap", lambda _: CLOSING)
    assert reasons() == {None, "clipped"}


def test_windows_close_between_runs_and_nothing_looks_back_further():
    for topology in {each.topology for each in SUBJECTS}:
        assert released._gap(topology) >= topology.statistics.looks_back
        assert released._gap(topology) > topology.method.delay


@cases("method", ["ba_sw (mechanism: duchi)", "sw_direct (cover)"])
def test_who_reports_is_told(method):
    """As many as the release says: by noise, or all from their first value on, and not those of
    other runs.
    """
    one, rng = subject(method, "mean"), np.random.default_rng(2)
    topology, randomness = one.topology, edge_randomness(one.topology, KEY, "here")
    values = released.values_of(one, "few reports", 30, rng)
    meant = told(topology.method, values, released.START)
    if one.base == "ba_sw":
        users = Ids.of(f"u3-{user}" for user in range(30))
        meant = reported(topology.method, meant, released.START, users, randomness)
    found = {each["slot"]: each for each in published(topology, [values], randomness, 3)}
    reports = [found[released.START + slot]["reports"] for slot in range(SLOTS)]
    every, mine = ((~np.isnan(each)).sum(axis=0).tolist() for each in (values, meant))
    assert reports == mine != every


AVERAGED = {
    HOLDS: lambda found: found,
    NARROW: lambda found: found._replace(limits=None, standard_error=found.standard_error / 3**0.5),
    WIDE: lambda found: found._replace(limits=None, standard_error=2 * found.standard_error),
}


@cases("verdict, stream", [*((each, "constant") for each in AVERAGED), (NARROW, "jump")])
def test_moving_averages_have_the_interval_of_their_own_slot(verdict, stream, monkeypatch):
    """One as narrow as that of the averaged slots together does not hold behind a jump, and
    one twice as wide as the slot's own is too wide where nothing moves.
    """
    right = Mean.of_slot
    monkeypatch.setattr(
        Mean,
        "of_slot",
        lambda *given: [AVERAGED[verdict](one) if one.reports else one for one in right(*given)],
    )
    rows = cells(subject("sw_direct (moving_average)", "mean"), stream, 300, runs=60, seed=1)
    monkeypatch.undo()
    expected = HOLDS if (verdict, stream) == (NARROW, "constant") else verdict
    assert expected in {row.verdict for row in rows}
    assert expected != HOLDS or all(row.verdict == HOLDS for row in rows)


def test_kinds_of_users_are_judged_by_themselves():
    rows = cells(subject("sw_direct", "per_user"), "skewed", 30, runs=8, seed=1)
    assert {row.of for row in rows} == {"low", "high"}
    numbers = {row.of: row.numbers for row in rows}
    assert sum(numbers.values()) == 8 * 30 * SLOTS
    assert numbers["low"] > 10 * numbers["high"]


def test_held_slots_and_those_after_a_jump_are_cells_of_their_own():
    """A window after the jump is no part of the others."""
    rows = cells(subject("lba", "mean"), "jump", 30, runs=4, seed=1)
    numbers = {row.slots: row.numbers for row in rows}
    assert numbers["after the jump"] == 4 * 4
    assert min(numbers["held"], numbers["published"]) > 0
    assert sum(numbers.values()) >= 4 * (SLOTS - 3)


def test_a_curators_streams_are_runs():
    rows = cells(subject("naive", "per_stream"), "constant", 1, runs=50, seed=1)
    assert sum(row.runs for row in rows) == 50
    assert sum(row.numbers for row in rows) == 50 * SLOTS


TWINS = {
    HOLDS: lambda found: found,
    NARROW: lambda found: found._replace(standard_error=found.standard_error / 2, limits=None),
    WIDE: lambda found: found._replace(standard_error=3 * found.standard_error, limits=None),
    NULL: lambda found: found._replace(standard_error=None, limits=None, reason="jumps_unseen"),
}


@cases("verdict", TWINS)
def test_broken_twins_of_a_method_are_called_what_they_are(verdict, monkeypatch):
    """Whose standard error is halved, or tripled, or not stated."""
    right = Mean.of_slot
    monkeypatch.setattr(
        Mean,
        "of_slot",
        lambda *given: [TWINS[verdict](each) if each.reports else each for each in right(*given)],
    )
    [row] = cells(subject("sw_direct (laplace)", "mean"), "constant", 40, runs=60, seed=1)
    monkeypatch.undo()
    assert row.verdict == verdict
    assert row.proven or verdict == HOLDS
    if verdict == NULL:
        assert row.reason == "jumps_unseen"


@cases(
    "method, stream",
    [
        ("app_s", "daily season"),
        ("cgm", "jump"),
        ("gaussian_differential", "jump"),
        ("sw_direct (cover)", "come and go"),
    ],
)
def test_the_truth_is_that_of_which_reports_are(method, stream, monkeypatch):
    """Of segments' means, of values as they are followed, and of what stands for none: the slot's
    own are others.
    """
    asked = subject(method, "mean"), stream, 1500, 60, 1
    assert {row.verdict for row in cells(*asked)} == {HOLDS}
    with monkeypatch.context() as patched:
        patched.setattr(released, "told", lambda _, values, start: values)
        assert NARROW in {row.verdict for row in cells(*asked)}
