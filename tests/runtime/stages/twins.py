"""Stages of which one rule is broken, each as what stands before the class of the stage, and the
kind of stage on which the rule matters.
"""

from __future__ import annotations

import numpy as np

from ldp_kafka.runtime.stages.parts import Counted, PartOf
from ldp_kafka.runtime.stages.windows import NO_ZEROS


class AllBehind:
    """Steps streams of shards that have done so before the crash."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.shard_offsets[:] = -1
        return state


class DrawsAgain(AllBehind):
    """Reports at a slot's close whatever its shard has reported before the crash."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.users.state.columns["last"][:] = np.iinfo(np.int64).min
        return state


class AveragesAgain:
    """Takes users of shards that are ahead for users who have released nothing since."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.phases[0].latest._offsets[:] = -1
        return state


class ForgetsReleases:
    """Writes down nothing of what users released last."""

    def shards_of(self, state):
        return super().shards_of(state) - state.phases[0].latest.names()

    def dirty(self, state):
        return {name for name in super().dirty(state) if not name.startswith("user-")}


class NoCovers:
    """Counts values again that a pane has folded."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.panes._ahead = -1
        return state


class KeepsNoPanes:
    """Writes no panes down."""

    def shards_of(self, state):
        return super().shards_of(state) - state.panes.names()

    def dirty(self, state):
        return {name for name in super().dirty(state) if "." not in name}


class NoZeros:
    """Forgets streams without events after a crash."""

    def load(self, meta, shards):
        state = super().load(meta, shards)
        state.zeros = NO_ZEROS
        return state


class ForgetsWhoIsKnown:
    """Covers after a crash whom it has heard since."""

    PART = "gate"

    def _closed(self, state, *more):
        heard = state.__dict__.setdefault("heard", set())
        for placed in super()._closed(state, *more):
            with_value = placed.values != self.nothing
            heard |= set(placed.users[with_value].tolist())
            yield placed.take(np.isin(placed.users, list(heard)))


class SkipsWhoHasNoValue:
    """Takes no part in a slot of which nobody has a value, once it was loaded."""

    PART = "gate"

    def _closed(self, state, *more):
        loaded = state.shard_offsets.max() >= 0
        for placed in super()._closed(state, *more):
            if (placed.values != self.nothing).any() or not loaded:
                yield placed


class AsksAgain:
    """An edge whose requests settle nothing."""

    def _ask(self, state, *more):
        before = state.asked.settled
        super()._ask(state, *more)
        state.asked.settled = before


class ForgetsAtClose:
    """Lets go of values when they have given their first report."""

    def _answer(self, state, batch):
        step = super()._answer(state, batch)
        state.users.state.columns["held"][:, batch.rows] = -1
        return step


class OnePlaceTooFew:
    """Holds values of one slot fewer than may be asked for."""

    PART = "requested"

    def __init__(self, **given):
        super().__init__(**given | {"places": given["hold"] - 1})


class ForgetsWhatIsAhead:
    """An edge that lets go of values in shards that are ahead of it."""

    PART = "requested"

    def forget(self, state, before, offset):
        super().forget(state, before, 2**62)


class NoOffset:
    """Takes every id that is there for a repetition, also where a part is ahead of the rest."""

    def _report(self, state, one, message, output):
        super()._report(state, one, message._replace(offset=2**40), output)


class NoIds:
    """Counts what comes again."""

    def _report(self, state, one, message, output):
        part = state.parts.get(PartOf.of(int(one.slots[0]), 0, one.ids.tobytes()))
        if part:
            part.ids.pop(one.ids.tobytes(), None)
        super()._report(state, one, message, output)


class OneWriting:
    """Writes ids down without those of the last messages."""

    def dump(self, state, shards):
        held = {at: dict(part.ids) for at, part in state.parts.items()}
        for part in state.parts.values():
            for name in list(part.ids)[-1:]:
                part.ids[name] = Counted(-1, part.ids[name].said)
        found = super().dump(state, shards)
        for at, part in state.parts.items():
            part.ids.update(held[at])
        return found


class OneClosing:
    """Closes both phases together."""

    def _close(self, state, through, output):
        super()._close(state, through, output)
        self._phases[1].close(state.phases[1], through, output)


class ForgetsSecond:
    """Loses how far the second phase is closed."""

    def meta(self, state):
        found = super().meta(state)
        return {**found, "second": {**found["second"], "closed": None}}


class AnyCost:
    """Counts an id under each cost."""

    def _known(self, state, mine, name):
        part = state.parts.get(mine)
        return None if part is None else part.ids.get(name)


SETTINGS = ("batch", "sliding")
TWINS = [
    *((NoCovers, f"settle/{kind}") for kind in ("count capp", "sum budget_split")),
    *((KeepsNoPanes, f"settle/last {kind}") for kind in ("capp", "budget_split")),
    *((DrawsAgain, f"settle/mean {kind}") for kind in ("capp", "budget_split")),
    *(
        (twin, "cover/first sw_direct")
        for twin in (KeepsNoPanes, DrawsAgain, ForgetsWhoIsKnown, SkipsWhoHasNoValue)
    ),
    (ForgetsWhoIsKnown, "cover/last lpu"),
    (AllBehind, "delay/segment_mean sliding first"),
    *(
        (twin, f"curate/segment_mean {setting} {how}")
        for setting in SETTINGS
        for twin, how in ((AllBehind, "first"), (NoCovers, "count"), (KeepsNoPanes, "first"))
    ),
    *(
        (twin, f"known/segment_mean {setting} sum")
        for setting in SETTINGS
        for twin in (AllBehind, KeepsNoPanes, NoZeros)
    ),
    *(
        (twin, f"ticked/{setting} any")
        for setting in SETTINGS
        for twin in (AllBehind, KeepsNoPanes)
    ),
    (NoCovers, "answer_at_close/lba count numbers"),
    (DrawsAgain, "answer_at_close/lba mean numbers"),
    *(
        (twin, "answer_at_close/lba last codes")
        for twin in (KeepsNoPanes, ForgetsWhatIsAhead, ForgetsAtClose, OnePlaceTooFew)
    ),
    *(
        (twin, kind)
        for twin in (AveragesAgain, ForgetsReleases)
        for kind in ("collect/averaged users", "devices/averaged")
    ),
    *((twin, "devices/per-user") for twin in (NoOffset, NoIds, OneWriting)),
    *((twin, "devices/lba") for twin in (OneClosing, ForgetsSecond, AnyCost)),
]
