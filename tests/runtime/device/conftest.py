"""What tests of devices share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.device.lives import MEMORY


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder for many lives, each with syncs, which cost nothing there."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)
