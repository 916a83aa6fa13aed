"""Who calls statistics knows none of them by name, and asks a method for no attribute that it may
not have.
"""

from __future__ import annotations

import ast
from pathlib import Path

import ldp_kafka
from ldp_kafka.statistics import STATISTICS

ROOT = Path(ldp_kafka.__file__).parent
CALLERS = ("topology", "runtime", "cli", "metrics")
OTHERWISE = {
    ("runtime/stages/per_slot.py", "mean"),  # of the values of one slot
    ("topology/sections.py", "mean"),  # the same
    ("topology/contribution.py", "mean"),  # the same
    ("runtime/device/state.py", "per_user"),  # the key of a layout, whose bytes must stay
}


def files(*rooms):
    """Python files of rooms, or those that are rooms themselves."""
    for room in rooms:
        place = ROOT / room
        yield from [place] if place.is_file() else sorted(place.rglob("*.py"))


def names(path):
    """Statistics that a file names as text."""
    return {
        (str(path.relative_to(ROOT)), node.value)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in STATISTICS
    }


def probes(path):
    """Lines that look whether a method has an attribute."""
    return [
        (str(path.relative_to(ROOT)), node.lineno)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("hasattr", "getattr")
        and ast.unparse(node.args[0]).split(".")[-1].strip("_") in ("method", "mechanism")
    ]


def test_no_statistic_is_named_by_those_who_call():
    found = set().union(*(names(path) for path in files(*CALLERS)))
    assert found <= OTHERWISE
    own = set().union(*(names(path) for path in files("statistics")))
    assert {name for _, name in own} == set(STATISTICS)  # the search finds what is there


def test_no_method_is_probed():
    assert not [line for path in files(*CALLERS, "statistics") for line in probes(path)]
    assert probes(ROOT / "mechanisms" / "base.py")  # the two places where a mechanism is asked
