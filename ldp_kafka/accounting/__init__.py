"""Guarantees as data, and the ledgers that keep them."""

from __future__ import annotations

from ldp_kafka.accounting.guarantee import MICRO, PRESENCE, Guarantee, micro
from ldp_kafka.accounting.ledger import Ledger
from ldp_kafka.accounting.lifetime import LifetimeLedger
from ldp_kafka.accounting.protocol import Account, BudgetLedger
from ldp_kafka.accounting.state import NEVER, Field, State

__all__ = [
    "MICRO",
    "NEVER",
    "PRESENCE",
    "Account",
    "BudgetLedger",
    "Field",
    "Guarantee",
    "Ledger",
    "LifetimeLedger",
    "State",
    "micro",
]
