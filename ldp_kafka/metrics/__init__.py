"""The Prometheus metrics of a worker, made from one registry.

Names begin with ``ldp_``, units are seconds and ratios, counters end in ``_total``. Labels are the
topology, the role and the method, which are constant in a process, and so is how windows lie; the
reason of dead letters and of dropped requests, and what a guarantee says. Never a user and never a
value: a reason that is none of `ldp_kafka.errors.Reason`, or of `ldp_kafka.errors.Dropped`, is
refused, and so is a setting of windows that there is none of.

What depends on values stays at the edge. How many values were clamped or refused, how many were
late, the greatest event time: these are exact functions of raw data, without any noise. So they
exist in the processes of the edge's roles alone (`EDGE_ONLY`), which serve them on loopback unless
they are told otherwise; whoever scrapes them is trusted by the users as the edge is. The
collector's roles refuse to count them.
"""

from __future__ import annotations

from ldp_kafka.metrics.families import EDGE_ONLY, FAMILIES, LABELS, NAMES, PROGRESS
from ldp_kafka.metrics.registry import Metrics
from ldp_kafka.metrics.server import Probe, listening, serve

__all__ = [
    "EDGE_ONLY",
    "FAMILIES",
    "LABELS",
    "NAMES",
    "PROGRESS",
    "Metrics",
    "Probe",
    "listening",
    "serve",
]
