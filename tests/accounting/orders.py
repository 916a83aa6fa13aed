"""Every order of charges to a ledger, and what goes wrong with any."""

from __future__ import annotations

import itertools

import numpy as np

from ldp_kafka.accounting import NEVER, State
from ldp_kafka.checks.failure import require

__all__ = ["COSTS", "LEDGER_CHECKS", "explored", "users_of"]

COSTS = {1: (0, 1), 2: (0, 1, 2), 3: (0, 1, 3)}
"""What is charged, by budget."""


def users_of(n):
    """Digests of n users."""
    return np.column_stack([np.arange(n), np.arange(n)]).astype(np.uint64)


def explored(ledger, costs, slots):
    """Every order of charges of these costs to these many slots: what went wrong with any, and how
    many different states were met. Each state is a row, with what was truly charged beside it.
    """
    run, budget, lag = ledger.run, ledger.budget, ledger.lag
    state = State(ledger.fields, users_of(1))
    states = [{name: column[..., :1].copy() for name, column in state.columns.items()}]
    history, clock = np.zeros((1, slots), np.int64), np.full(1, NEVER)
    met, wrong = set(), set()
    while len(history):
        found = []
        for slot, cost in itertools.product(range(slots), costs):
            state = State(ledger.fields, np.zeros((len(history), 2), np.uint64))
            for name, column in states[0].items():
                state.columns[name][..., : len(history)] = column
            allowed = ledger.charge(state, np.arange(len(history)), slot, cost)
            spent, now = history.copy(), np.maximum(clock, slot)
            spent[:, slot] += cost
            over = (runs(spent, run) > budget).any(1)
            touched = runs(spent, run)[:, slot : slot + run].max(1)
            fits = (now - slot <= lag) & (touched <= budget)
            wrong |= {"overspent"} if (over & allowed & (cost > 0)).any() else set()
            wrong |= {"too old"} if (allowed & (now - slot > lag)).any() else set()
            wrong |= {"refused"} if (fits & ~allowed).any() else set()
            spent[:, slot] -= cost * ~allowed
            kept = {name: column[..., : len(history)] for name, column in state.columns.items()}
            if "overspent" not in wrong:
                wrong |= {"audit"} if ledger.audit(state) != (0, 0) else set()
            found.append((kept, spent, now))
        if "overspent" in wrong:
            break
        states = [
            {
                name: np.concatenate([kept[name] for kept, *_ in found], axis=-1)
                for name in states[0]
            }
        ]
        history, clock = (np.concatenate([each[i] for each in found]) for i in (1, 2))
        whole = np.column_stack(
            [history, clock, *(c.reshape(-1, len(clock)).T for c in states[0].values())]
        )
        _, first = np.unique(whole, axis=0, return_index=True)
        new = [at for at in first.tolist() if whole[at].tobytes() not in met]
        met |= {whole[at].tobytes() for at in new}
        history, clock = history[new], clock[new]
        states = [{name: column[..., new] for name, column in states[0].items()}]
    return wrong, len(met)


def runs(spent, run):
    """What every run of slots has spent, (n, slots + run - 1): those that reach beyond the first
    and the last slot too.
    """
    whole = np.cumsum(np.pad(spent, ((0, 0), (run, run - 1))), axis=1)
    return whole[:, run:] - whole[:, :-run]


def _never(wrong):
    def check(ledger):
        slots = 7
        require(
            wrong not in explored(ledger, COSTS[ledger.budget], slots)[0],
            f"no charge may be {wrong}",
        )

    return check


LEDGER_CHECKS = {wrong: _never(wrong) for wrong in ("overspent", "refused")}
"""What must not be found of a ledger in any order of charges."""
