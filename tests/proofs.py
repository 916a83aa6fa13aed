"""What this suite proves, listed from the suite itself: the checks of the contract and what each is
tried on, the broken twins that it finds, the faults that it injects, the crash points that it goes
through, and the public names that it uses.

`poe proofs` compares the lists with `proofs.json`. What is missing has to be named in CHANGELOG.md,
in a line that says what proves it now; then `poe proofs --write` takes it out. So a redesign of the
tests loses nothing unseen.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import ldp_kafka as lk
from ldp_kafka.checks.client import CLIENT_CHECKS
from ldp_kafka.checks.delay.trial import DelayTrial
from ldp_kafka.checks.mechanism import MECHANISM_CHECKS
from ldp_kafka.checks.method.trial import MethodTrial
from ldp_kafka.checks.methods import fit
from tests.broker.chaos.faults import FAULTS

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).with_name("proofs.json")
CHECKS = {
    "mechanism": MECHANISM_CHECKS,
    "method": fit(MethodTrial),
    "delay": fit(DelayTrial),
    "client": CLIENT_CHECKS,
}
KINDS = {
    "specimens": re.compile(r"contract"),
    "broken twins": re.compile(
        r"broken|mutant|twin|doctored|damaged|leak|dies\b|can_fail|accuse|slip|found\b|_found_"
    ),
    "crash points": re.compile(r"await|crash|cut_|kill|fault|stopped_at|torn|replay"),
}
"""Of tests, by what is in their names; the first that fits."""
SEEN = 10
"""Names of each list that are printed."""


class Collected:
    """pytest's plugin that keeps what is collected."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep all tests."""
        self.items = session.items


def collect() -> list[Any]:
    """All tests of this suite, none of which runs."""
    found = Collected()
    words = ["--collect-only", "-qq", str(ROOT / "tests")]
    if code := pytest.main(words, plugins=[found]):
        raise SystemExit(code)
    return found.items


def proofs(items: list[Any]) -> dict[str, list[str]]:
    """The lists, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for kind, checks in CHECKS.items():
        found["checks"] |= {f"{kind}: {name}" for name in checks}
    found["faults"] = {fault.name for fault in FAULTS if fault.one + fault.three + fault.long}
    for item in items:
        name = getattr(item, "originalname", item.name)
        kind = next((kind for kind, words in KINDS.items() if words.search(name)), None)
        if kind is not None:
            found[kind] |= set(_cases(item, name))
    text = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    words = set(re.findall(r"\w+", text))
    found["public names"] = {name for name in lk.__all__ if name in words}
    return {kind: sorted(names) for kind, names in sorted(found.items())}


def _cases(item: Any, name: str) -> list[str]:
    """Of a test and what it is tried on, whichever way its cases are written."""
    looped = getattr(item.function, "cases", [""]) if hasattr(item, "function") else [""]
    own = item.callspec.id if hasattr(item, "callspec") else ""
    return [f"{name}[{'-'.join(filter(None, (own, each)))}]" for each in looped]


def lost(
    kept: dict[str, list[str]], found: dict[str, list[str]], changes: str
) -> dict[str, list[str]]:
    """Of each list what is gone, and of whose test no line of ``changes`` speaks."""
    gone = {kind: sorted(set(names) - set(found.get(kind, ()))) for kind, names in kept.items()}
    return {
        kind: names
        for kind, each in gone.items()
        if (names := [name for name in each if name.partition("[")[0] not in changes])
    }


def main(words: list[str]) -> int:
    """Compare, or write."""
    found = proofs(collect())
    print("; ".join(f"{len(names)} {kind}" for kind, names in found.items()))
    if words == ["--write"]:
        KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return 0
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    gone = lost(json.loads(KEPT.read_text("utf-8")), found, changes)
    for kind, names in gone.items():
        print(
            f"gone, without a line in CHANGELOG.md: {len(names)} {kind}", *names[:SEEN], sep="\n  "
        )
    return int(bool(gone))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
