"""How many events a record stands for, told from its value alone: a record may be one event or
report, a batch of them, or none.
"""

from __future__ import annotations

import pyarrow as pa

from ldp_kafka.runtime.wire.arrow import ARROW
from ldp_kafka.runtime.wire.reports import read_reports

REPORT = b'"type":"report"'


def rows(value: bytes) -> int:
    """Of an input, or of a copy of it: its rows, or one."""
    if not value.startswith(ARROW):
        return 1
    with pa.ipc.open_stream(value) as stream:
        return sum(batch.num_rows for batch in stream)


def reports(value: bytes) -> int:
    """Of what a perturb worker writes. Batches are read as the collector reads them; single ones,
    a million of them, are known by their type. A header is none.
    """
    if not value.startswith(ARROW):
        return int(REPORT in value)
    return len(read_reports(value) or ())
