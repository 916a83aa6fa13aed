"""Guarantees as data, and the ledger that keeps them."""

from __future__ import annotations

from ldp_kafka.accounting.guarantee import MICRO, Guarantee, micro
from ldp_kafka.accounting.ledger import NEVER, Field, Ledger, State, take16
from ldp_kafka.accounting.lifetime import LifetimeLedger

__all__ = [
    "MICRO",
    "NEVER",
    "Field",
    "Guarantee",
    "Ledger",
    "LifetimeLedger",
    "State",
    "micro",
    "take16",
]
