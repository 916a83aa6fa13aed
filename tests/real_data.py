"""What a test does where the real streams are not: they are not part of this repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def needed() -> Iterator[None]:
    """Skip where a file of data is missing, or fail where LDP_KAFKA_REQUIRE_DATA=1 says that it
    must be there.
    """
    try:
        yield
    except FileNotFoundError as missing:
        if os.environ.get("LDP_KAFKA_REQUIRE_DATA") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
