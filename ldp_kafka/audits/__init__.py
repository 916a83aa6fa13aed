"""Attacks on randomizers: lower bounds on epsilon for anything that can be called, or for reports
alone.

A certificate bounds the loss from above, for the mechanism that its author had in mind; an audit
bounds it from below, for the code that runs. Where the two cross, one is wrong.

- `audit`: a mechanism or a function, and two inputs: its law's supports, its formula's preimages,
  and the black box
- `audit_reports`: two sets of reports, wherever they come from: the black box, which also looks at
  last bits
- `audit_bits`: two sets of packed bits: which bit tells
- `low_bits`: the last bits of float64 alone
- `preimage_attack`: which floats a textbook formula can produce from each input
- `compare_laws`: exact laws: are the same reports possible?
- `compare_supports`: reports: are the same ones possible?

A million reports of each input nearly always show a loss of 1.2 where 1 is claimed, where the loss
is on outputs of probability 1e-3 or more. Of rows they show a loss in sums of the columns' log
likelihood ratios, in a line through the columns, in a few columns together, and in rows that come
several times, such as pairs of a 16-bit seed and its cell. The result's ``power`` says which loss
an audit would have found, with probability 95 %, on as many reports as its event's and on fewer.

What so many reports do not show: a loss on outputs of probability 1e-4; an input that is given away
with probability 1e-5; a function of many columns of which few together tell nothing, such as a
parity; hashing by more functions than there are reports, unless the mechanism states its law.

>>> import ldp_kafka as lk
>>> audit(lk.mechanism("grr", epsilon=1.0, categories=4), 0, 1, reports=100_000).violated
False
"""

from __future__ import annotations

from ldp_kafka.audits.bits import BitsResult, audit_bits
from ldp_kafka.audits.bound import ALPHA, audit_reports
from ldp_kafka.audits.formulas import FORMULAS
from ldp_kafka.audits.preimage import Part, preimage_attack, reach_of
from ldp_kafka.audits.result import AuditResult
from ldp_kafka.audits.run import audit, audit_pairs, each, low_bits, pairs_of
from ldp_kafka.audits.support import compare_laws, compare_supports
from ldp_kafka.audits.views import VIEWS

__all__ = [
    "ALPHA",
    "FORMULAS",
    "VIEWS",
    "AuditResult",
    "BitsResult",
    "Part",
    "audit",
    "audit_bits",
    "audit_pairs",
    "audit_reports",
    "compare_laws",
    "compare_supports",
    "each",
    "low_bits",
    "pairs_of",
    "preimage_attack",
    "reach_of",
]
