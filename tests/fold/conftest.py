"""What holds for the tests of the fold rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ldp_kafka.runtime import blocks, edge


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """A few rows make several chunks of a report batch, and a few slots several blocks of a state,
    so that crashes come between them too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge, "CHUNK_ROWS", 2)
        patch.setattr(blocks, "MOST", 2)
        yield
