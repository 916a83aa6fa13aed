"""Methods end to end on the embedded broker, by worker processes of which one is killed half way:
what comes out is what `runtime.local` says, byte for byte.

One of each kind of report and level; the others in the long run, and on a real broker all of them
in every run (`tests/broker/test_chaos.py`).
"""

from __future__ import annotations

import pytest

from tests.broker.conftest import embedded, prefix  # noqa: F401
from tests.broker.test_methods import GROUPS, run

SOME = ["capp", "cgm_vector", "lpu", "sppa"]


@pytest.mark.parametrize(
    "methods",
    [SOME, *(pytest.param(group, marks=pytest.mark.long) for group in GROUPS)],
    ids="-".join,
)
def test_methods_on_the_embedded_broker(embedded, tmp_path, prefix, methods):  # noqa: F811
    run(embedded.bootstrap_servers, tmp_path, prefix, methods, embedded=embedded, session="2s")
