"""The contract of a device's client holds for ours."""

from __future__ import annotations

import ldp_kafka as lk
from ldp_kafka.checks import check_client


def test_our_client_passes():
    check_client(lk.Client)
