"""What tests beside a broker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ldp_kafka.runtime.brokers.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One for the tests of a file."""
    with EmbeddedBroker() as made:
        yield made
