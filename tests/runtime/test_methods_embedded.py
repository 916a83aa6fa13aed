"""Methods end to end on the embedded broker, by worker processes of which one is killed half way:
what comes out is what `runtime.local` says, byte for byte.

One method, and in the long run one of each kind of report and level, then all of them. What a
method has of its own lies in the pure stages (`tests/runtime/test_methods.py`); on a real broker
all of them run, and are killed, every time (`tests/broker/test_chaos.py`).
"""

from __future__ import annotations

import pytest

from tests.broker.conftest import embedded, prefix  # noqa: F401
from tests.broker.test_methods import GROUPS, run
from tests.depth import depth

SOME = depth(["capp"], ["capp", "cgm_vector", "lpu", "sppa"])


@pytest.mark.parametrize(
    "methods",
    [SOME, *(pytest.param(group, marks=pytest.mark.long) for group in GROUPS)],
    ids="-".join,
)
def test_methods_on_the_embedded_broker(embedded, tmp_path, prefix, methods):  # noqa: F811
    run(embedded.bootstrap_servers, tmp_path, prefix, methods, embedded=embedded, session="2s")
