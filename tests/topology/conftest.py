"""All tests of topologies may plan them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _simulated_once(simulated_once: None) -> None:
    """Share what plans simulate."""
