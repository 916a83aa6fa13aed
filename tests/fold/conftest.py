"""What holds for the tests of the fold rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ldp_kafka.runtime.stages import report_messages, slot_sums


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """A few rows make several chunks of a report batch, and a few slots several slot shards of a
    state, so that crashes come between them too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_messages, "CHUNK_ROWS", 2)
        patch.setattr(slot_sums, "MOST", 2)
        yield
