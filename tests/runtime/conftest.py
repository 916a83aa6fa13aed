"""What tests of the runtime share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for localhost, its key and its authority."""
    from tests.broker.secured import certificate

    folder = tmp_path_factory.mktemp("tls")
    certificate(folder)
    return folder
