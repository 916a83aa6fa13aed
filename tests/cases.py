"""Many small cases as one test. `pytest.mark.parametrize` makes a test of each value, which costs
more than most cases do; what leaves nothing behind can run in one.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

__all__ = ["cases", "table"]


def cases(
    names: str | Iterable[str], values: Iterable[Any]
) -> Callable[[Any], Callable[..., None]]:
    """Used as `pytest.mark.parametrize` is, and stacks with it and with itself; the test runs once
    for each value, and a failure says which one it was. Fixtures are shared by all cases: not for
    tests that write into ``tmp_path`` or patch what the next case must find whole. The test skips
    where every case does, and fails where some do and others run: these would hide them.

    Parameters
    ----------
    names : one argument name, several separated by commas, or several
    values : for one name its values; for several tuples, or `pytest.param`

    Raises
    ------
    ValueError : there are no values, or of another number than the names
    """
    wanted = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    every = [_case(wanted, value) for value in values]
    if not every:
        raise ValueError(f"no cases of {wanted}")

    def loop(test: Any) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            skips: list[tuple[dict[str, Any], pytest.skip.Exception]] = []
            for case in every:
                try:
                    test(**fixtures, **case)
                except pytest.skip.Exception as skipped:
                    skips.append((case, skipped))
                except BaseException as error:
                    error.add_note(f"in the case {_words(case)}")
                    raise
            if not skips:
                return
            case, skipped = skips[0]
            if len(skips) < len(every):
                raise RuntimeError(f"the case {_words(case)} skips") from skipped
            raise skipped

        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[p for name, p in signature.parameters.items() if name not in wanted]
        )
        run.cases = [_name(case) for case in every]  # type: ignore[attr-defined]
        return run

    return loop


def table(text: str) -> list[tuple[str, ...]]:
    r"""The rows of a table that is written as text: a row a line, which goes on in lines that begin
    with four spaces; `` | `` parts cells, ``\n`` and ``\t`` in a cell are a line break and a tab.
    """
    lines: list[str] = []
    for line in text.strip("\n").split("\n"):
        if line.startswith("    "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return [
        tuple(cell.replace(r"\n", "\n").replace(r"\t", "\t") for cell in line.split(" | "))
        for line in lines
    ]


def _case(names: list[str], value: Any) -> dict[str, Any]:
    """The arguments of one case."""
    if isinstance(value, type(pytest.param())):
        if value.marks:
            raise ValueError("a case has no marks: make it a test of its own")
        value = value.values
    elif len(names) == 1:
        value = (value,)
    if len(value) != len(names):
        raise ValueError(f"{len(value)} values for {names}")
    return dict(zip(names, value, strict=True))


def _name(case: dict[str, Any]) -> str:
    """As pytest would name it, without addresses in memory."""
    values = (getattr(value, "__name__", None) or str(value) for value in case.values())
    return "-".join(re.sub(r" at 0x[0-9a-f]+", "", value) for value in values)


def _words(case: dict[str, Any]) -> str:
    return ", ".join(f"{name}={str(value)[:200]}" for name, value in case.items())
