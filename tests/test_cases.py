"""The loop over cases runs all of them, and says which one failed."""

from __future__ import annotations

import inspect

import pytest

from tests.cases import cases, table


def test_every_case_runs():
    """Stacked as parameters are: all pairs."""
    seen = []

    @cases("a", [1, 2])
    @cases(("b", "c"), [(3, 4), pytest.param(5, 6, id="five")])
    def run(a, b, c):
        seen.append((a, b, c))

    run()
    assert sorted(seen) == [(1, 3, 4), (1, 5, 6), (2, 3, 4), (2, 5, 6)]


def test_a_failure_names_its_case():
    """Of every loop around it, the innermost first; later cases do not hide it."""

    @cases("a", ["x", "y"])
    @cases("b, c", [(1, 2), (3, 4)])
    def run(a, b, c):
        assert (a, b, c) != ("y", 1, 2)

    with pytest.raises(AssertionError) as caught:
        run()
    assert caught.value.__notes__ == ["in the case b=1, c=2", "in the case a=y"]


def test_fixtures_are_asked_for_and_cases_are_not():
    """What pytest reads of a test is its signature."""

    @cases("a", [1])
    def run(a, tmp_path):
        """Words."""

    assert list(inspect.signature(run).parameters) == ["tmp_path"]
    assert run.__doc__ == "Words."


@cases("a", [1])
def test_a_fixture_reaches_a_case(tmp_path, a):
    """Through pytest itself."""
    assert tmp_path.is_dir()
    assert a == 1


def test_a_case_may_not_skip_alone():
    """It would look as if it had run."""

    @cases("a", [1, 2])
    def run(a):
        if a == 2:
            pytest.skip(f"no {a}")

    with pytest.raises(RuntimeError, match="a=2 skips"):
        run()


def test_what_no_case_can_have_skips_the_test():
    """With the reason of the first, also in loops around loops; the others are tried all the
    same.
    """
    tried = []

    @cases("a", [1, 2])
    @cases("b", [3, 4])
    def run(a, b):
        tried.append((a, b))
        pytest.skip(f"no {a}, {b}")

    with pytest.raises(pytest.skip.Exception, match=r"no 1, 3"):
        run()
    assert len(tried) == 4


@pytest.mark.parametrize("values", [[], [(1, 2, 3)], [pytest.param(1, 2, marks=pytest.mark.skip)]])
def test_what_is_no_case_is_refused(values):
    """A test of nothing would pass."""
    with pytest.raises(ValueError, match=r"case|values"):
        cases("a, b", values)


def test_a_table_is_its_text():
    """Spaces that a cell begins with are its own; a cell may be empty."""
    text = r"""
one |   two\n  lines | and
    more
a |  | \tb |
    c
"""
    assert table(text) == [("one", "  two\n  lines", "and more"), ("a", "", "\tb", "c")]
