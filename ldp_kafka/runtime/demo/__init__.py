"""``ldp-kafka demo``: a shipped topology, made-up users, a broker of its own, and what comes out
beside the truth.
"""

from __future__ import annotations

from ldp_kafka.runtime.demo.run import run_demo
from ldp_kafka.runtime.demo.streams import SHAPES, Given

__all__ = ["SHAPES", "Given", "run_demo"]
