"""The verdict on a cell, of numbers whose right interval is known."""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest

from ldp_kafka.evaluation.coverage.cells import (
    ALPHA,
    HOLDS,
    NARROW,
    NULL,
    WIDE,
    Name,
    Seen,
    claims,
    row_of,
)
from ldp_kafka.evaluation.coverage.page import page
from tests.cases import cases

NAME = Name("sw_direct", "mean", "constant", 300, "published", "")
RUNS, SLOTS = 600, 12


def seen(factor=1.0, *, runs=RUNS, reports=300, spread=1.0, alike=False, reason=None):
    """Normal errors, whose standard error is stated ``factor`` times as large."""
    rng = np.random.default_rng(7)
    run, slot = (each.ravel() for each in np.indices((runs, SLOTS)))
    scale = 0.1 * spread ** (slot / SLOTS)
    drawn = rng.normal(0, 1, runs)[run] if alike else rng.normal(0, 1, len(run))
    off, error = scale * drawn, factor * scale
    if reason is not None:
        error = np.full(len(run), np.nan)
    return Seen(
        run,
        slot,
        off,
        error,
        off - 1.96 * error,
        off + 1.96 * error,
        np.full(len(run), reports),
        np.full(len(run), reason or ""),
    )


def judged(*given, lenient=False, averaged=1, **named):
    return row_of(NAME, seen(*given, **named), lenient=lenient, averaged=averaged)


def test_what_is_right_holds():
    """With the numbers that are right: .95 covered, z of 1, and as narrow as can be."""
    row = judged()
    assert (row.verdict, row.proven) == (HOLDS, True)
    assert abs(row.covered - 0.95) < 4 * row.covered_error < 0.012
    assert abs(row.rms_z - 1) < 4 * row.rms_z_error < 0.04
    assert abs(row.excess - 1) < 0.03
    assert (row.runs, row.numbers, row.null) == (RUNS, RUNS * SLOTS, 0)
    assert row.width == pytest.approx(2 * 1.96 * 0.1)


@cases("factor, verdict", [(0.5, NARROW), (0.8, NARROW), (1.5, WIDE), (3.0, WIDE)])
def test_a_broken_twin_does_not(factor, verdict):
    row = judged(factor)
    assert (row.verdict, row.proven) == (verdict, True)
    assert row.excess == pytest.approx(factor, rel=0.05)


@cases(
    "reports, lenient, allowed", [(30, False, 1.3), (30, True, 2.0), (29, False, 3.0), (1, True, 3)]
)
def test_how_wide_is_too_wide(reports, lenient, allowed):
    """A tenth below what is allowed holds, a tenth above does not."""
    assert judged(0.9 * allowed, reports=reports, lenient=lenient).verdict == HOLDS
    row = judged(1.1 * allowed, reports=reports, lenient=lenient)
    assert (row.verdict, row.limit) == (WIDE, allowed)


def test_averages_have_the_interval_of_one_of_their_parts():
    """Twice as wide, of four: as much as an average of four varies less."""
    assert judged(0.9 * 2.6, averaged=4).verdict == HOLDS
    row = judged(1.1 * 2.6, averaged=4)
    assert (row.verdict, row.limit) == (WIDE, 2.6)


def test_what_one_error_for_ever_hides_is_too_wide():
    """Slots whose errors fall to a third, and state the first slot's: each slot has a narrowest of
    its own. A twin that takes all slots together finds much less.
    """
    numbers = seen(spread=1 / 3)
    first = numbers.error.max()
    stale = numbers._replace(
        error=np.full(len(numbers.run), first),
        low=numbers.off - 1.96 * first,
        high=numbers.off + 1.96 * first,
    )
    row = row_of(NAME, stale, lenient=False)
    assert row.verdict == WIDE
    assert row.excess == pytest.approx(3**0.5, rel=0.1)
    together = row_of(NAME, stale._replace(slot=np.zeros_like(stale.slot)), lenient=False)
    assert together.excess < row.excess - 0.2


def test_runs_are_counted_and_not_slots():
    """Where the slots of a run have one error, they prove no more than one of them."""
    row = judged(alike=True)
    assert row.covered_error > 2 * judged().covered_error
    assert (row.verdict, row.proven) == (HOLDS, False)
    assert row.lower < judged().lower


def test_few_runs_prove_nothing():
    row = judged(runs=20)
    assert (row.verdict, row.proven, row.decided) == (HOLDS, False, False)
    assert judged().decided
    assert judged(0.5, runs=100).decided


def test_null_with_its_reason_is_null():
    """By design; without a reason it is no answer."""
    row = judged(reason="jumps_unseen")
    assert (row.verdict, row.proven, row.reason) == (NULL, True, "jumps_unseen")
    assert row.null == 1
    assert isnan(row.covered)
    assert judged(reason="").proven is False


def test_where_some_are_null_the_others_are_judged():
    whole, none = seen(), seen(reason="jumps_unseen")
    odd = whole.slot % 2 == 1
    mixed = Seen(*(np.where(odd, a, b) for a, b in zip(none, whole, strict=True)))
    row = row_of(NAME, mixed, lenient=False)
    assert (row.verdict, row.null, row.reason) == (HOLDS, 0.5, "jumps_unseen")
    assert row.numbers == RUNS * SLOTS // 2


def test_an_error_of_nothing():
    """Right where the value is the truth, and infinitely wrong elsewhere."""
    numbers = seen()
    exact = numbers._replace(**dict.fromkeys(("off", "error", "low", "high"), 0 * numbers.off))
    row = row_of(NAME, exact, lenient=False)
    assert (row.verdict, row.covered, row.rms_z, row.excess) == (HOLDS, 1, 0, 1)
    blind = numbers._replace(error=exact.error, low=numbers.off, high=numbers.off)
    row = row_of(NAME, blind, lenient=False)
    assert (row.verdict, row.covered, row.rms_z, row.excess) == (NARROW, 0, inf, 0)


def test_bounds_hold_in_all_cells_together():
    """600 runs are enough for what is asked: .92, where .95 is covered."""
    assert pytest.approx(0.05) == ALPHA * 2 * 10_000
    assert 0.92 < judged().lower < 0.95


def test_claims_and_the_page_say_which_cells_do_not_hold():
    rows = [
        judged(),
        judged(0.5)._replace(stream="jump"),
        judged(reason="jumps_unseen")._replace(method="lsp"),
        judged(runs=20)._replace(method="lpa"),
    ]
    assert [(one.settings, one.held, one.reproduced) for one in claims(rows)] == [
        (2, 1, False),
        (1, 1, True),
        (1, 0, False),
    ]
    assert claims(rows, estimates=True)[2].reproduced
    text = page(rows, ["600 runs"])
    summary = [line for line in text.splitlines() if line.startswith("| `sw_direct` | `mean` | 2")]
    assert len(summary) == 1
    assert "jump, 300 users, published" in summary[0]
    failed = text[text.index("## Cells that do not hold") : text.index("## Slots without")]
    assert failed.count("too narrow") == 1
    assert "| `lsp` | `mean` | jumps_unseen | 1 | 1 |" in text


def why(*others, **wide):
    """What the page says of an interval that is too wide, beside these other cells."""
    rows = [judged(2.0)._replace(**wide), *others]
    failed = page(rows, [""]).partition("## Cells that do not hold")[2]
    return failed.splitlines()[6].split("|")[-2].strip()


def test_the_page_says_where_so_wide_an_interval_is_needed():
    """Of cells of this method, statistic and number of users, that which comes nearest."""
    near, nearer = (
        judged(2.0, lenient=True)._replace(stream=stream, verdict=HOLDS, excess=excess)
        for stream, excess in (("jump", 1.2), ("skewed", 1.1))
    )
    assert why(near, nearer).startswith("needed in: skewed, 300 users, published (1.10")
    assert why(near, nearer._replace(users=30)).startswith("needed in: jump")
    wider = near._replace(width=1.2 * near.width)
    others = (near._replace(statistic="per_user"), near._replace(verdict=NULL), wider)
    assert why(*others) == ""
    assert why(*others, rms_z=0.2) == "the reports agree"
