"""Tools over the folds of `tests.fold`."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def folds_keep_their_key(monkeypatch):
    """Which mutants of a fold a script shows is a matter of its key, and that one is older than the
    refusal of keys that follow a pattern.
    """
    for where in ("ldp_kafka.randomness", "ldp_kafka.runtime.keys"):
        monkeypatch.setattr(f"{where}.is_patterned", lambda _: False)
