"""What pages say of the code in numbers and lists is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ldp_kafka as lk
from ldp_kafka.methods.runnable import names, runnable
from ldp_kafka.methods.values import VALUES
from ldp_kafka.topology import loads
from tests.broker.chaos.faults import FAULTS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "deploy" / "docs" / "pages"
GUARANTEE = (PAGES / "guarantee.md").read_text("utf-8")
RUN = (PAGES / "how-to" / "run-it-for-real.md").read_text("utf-8")
KEYS = (ROOT / "topologies" / "README.md").read_text("utf-8")


def test_it_is_one_page():
    """What does not fit is on the pages that it links."""
    text = (ROOT / "README.md").read_bytes()
    assert len(text.splitlines()) <= 230
    assert len(text) <= 12_000


def test_so_many_kinds_of_fault_are_injected():
    drawn = {fault.name for fault in FAULTS if fault.one + fault.three + fault.long}
    assert re.findall(r"(\d+)\s+kinds\s+of\s+fault", GUARANTEE) == [str(len(drawn))]


@pytest.mark.parametrize("method", sorted(lk.PROTOCOLS))
@pytest.mark.parametrize(
    ("shape", "statistic"), [("domain: [0, 1]", "mean"), ("categories: 4", "frequencies")]
)
def test_who_has_a_coordinator(method, shape, statistic):
    """All of the seven but `lpu` over categories; four of them ask."""
    made = loads(f"""
topology: t
input: {{slot: 1h}}
privacy: {{method: {method}, {shape}, epsilon: 1.0, window: 4}}
output: {{statistics: [{statistic}]}}
""")
    writes = "coordinate" in {role.name for role in made.flow.roles}
    assert writes == ((method, statistic) != ("lpu", "frequencies"))
    assert (made.flow.requests is not None) == (method in ("lbd", "lba", "lpd", "lpa"))
    words = " ".join(RUN.split())
    assert "Others have none, nor has `lpu` over `categories`, whose releases `collect` writes" in (
        words
    )


def test_the_mechanism_that_each_method_takes_where_none_is_named():
    """As the list of keys has it, by the kind of values."""
    words = " ".join(KEYS.split())
    start, end = "The method's own is `square_wave`, but ", "`cgm_vector`."
    listed = words[words.index(start) + len(start) : words.index(end) + len(end)]
    said = {}
    for part in listed.split(";"):
        mechanism, *methods = re.findall(r"`(\w+)`", part)
        for name in methods:
            said.setdefault(name, set()).add(mechanism)
    found = {}
    for name in names():
        for each in (runnable(name, kind) for kind in VALUES):
            if each is not None and not each.own_noise:
                found.setdefault(name, set()).add(each.default_mechanism)
    assert {name: each for name, each in found.items() if each != {"square_wave"}} == said
