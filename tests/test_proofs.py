"""What is gone of the suite's proofs is found."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tests import proofs
from tests.cases import cases

KEPT = {"broken twins": ["test_a[one]", "test_a[two]", "test_b[]"], "faults": ["outage"]}


def test_nothing_is_gone_where_all_is_there_and_more():
    more = {kind: [*names, "more"] for kind, names in KEPT.items()}
    assert proofs.lost(KEPT, more, "") == {}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in KEPT.items() for name in names]
)
def test_each_that_is_gone_is_found(kind, name):
    """Unless the changes speak of its test."""
    found = KEPT | {kind: [each for each in KEPT[kind] if each != name]}
    assert proofs.lost(KEPT, found, "- Something else.") == {kind: [name]}
    said = f"- `{name.partition('[')[0]}` is a row of another table."
    assert proofs.lost(KEPT, found, said) == {}


def test_a_list_that_is_gone_is_found():
    assert proofs.lost(KEPT, {"faults": ["outage"]}, "") == {"broken twins": KEPT["broken twins"]}


def test_cases_are_named_whichever_way_they_are_written():
    @cases("twin", [len, "text", 3])
    def looped(twin):
        del twin

    plain = SimpleNamespace(function=len)
    once = SimpleNamespace(function=looped, callspec=SimpleNamespace(id="a-1"))
    assert proofs._cases(plain, "test_x") == ["test_x[]"]
    assert proofs._cases(once, "test_x") == ["test_x[a-1-len]", "test_x[a-1-text]", "test_x[a-1-3]"]


def test_the_list_that_is_kept_has_every_kind():
    kept = json.loads(proofs.KEPT.read_text("utf-8"))
    assert set(kept) == {*proofs.KINDS, "checks", "faults", "public names"}
    assert all(names == sorted(set(names)) for names in kept.values())
