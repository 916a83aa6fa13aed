"""Methods that release a stream window by window, and so may be late: batches, or windows that
slide (Li et al., Delay-allowed Differentially Private Data Stream Release).
"""

from __future__ import annotations

from ldp_kafka.methods.delay.adapub import AdaPub
from ldp_kafka.methods.delay.base import DelayMethod
from ldp_kafka.methods.delay.buc_order import BucOrder
from ldp_kafka.methods.delay.choice import choose_delay
from ldp_kafka.methods.delay.closed import Closed
from ldp_kafka.methods.delay.comp_order import CompOrder
from ldp_kafka.methods.delay.contin import ContinGroup
from ldp_kafka.methods.delay.discontin import DiscontinGroup
from ldp_kafka.methods.delay.dpi import Dpi
from ldp_kafka.methods.delay.matrix import Matrix
from ldp_kafka.methods.delay.naive import Naive
from ldp_kafka.methods.delay.names import DelayName
from ldp_kafka.methods.delay.pegasus import Pegasus, PegasusDelay
from ldp_kafka.methods.delay.segments import SegmentMean
from ldp_kafka.methods.delay.stream import StreamMethod
from ldp_kafka.methods.delay.truncate import Truncate
from ldp_kafka.methods.delay.windows import Setting

__all__ = [
    "AdaPub",
    "BucOrder",
    "Closed",
    "CompOrder",
    "ContinGroup",
    "DelayMethod",
    "DelayName",
    "DiscontinGroup",
    "Dpi",
    "Matrix",
    "Naive",
    "Pegasus",
    "PegasusDelay",
    "SegmentMean",
    "Setting",
    "StreamMethod",
    "Truncate",
    "choose_delay",
]
