"""Every method end to end on the embedded broker, by worker processes of which one is killed half way: what comes out is what `runtime.local` says, byte for byte."""

from __future__ import annotations

import pytest

from tests.broker.conftest import embedded, prefix  # noqa: F401
from tests.broker.test_methods import GROUPS, run


@pytest.mark.parametrize("methods", GROUPS, ids="-".join)
def test_methods_on_the_embedded_broker(embedded, tmp_path, prefix, methods):  # noqa: F811
    run(embedded.bootstrap_servers, tmp_path, prefix, methods, embedded=embedded, session="2s")
