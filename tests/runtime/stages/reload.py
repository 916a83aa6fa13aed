"""A state written down and read again, as the next owner of its partition does."""

from __future__ import annotations

import json


def again(stage, state, offset):
    """The state that was written at this offset."""
    shards = stage.dump(state, stage.shards_of(state))
    return stage.load(
        json.loads(json.dumps(stage.meta(state))),
        {name: (offset, payload) for name, payload in shards.items()},
    )


def whole(stage, state):
    """All that a state says."""
    return stage.meta(state), {
        name: json.loads(payload)
        for name, payload in stage.dump(state, stage.shards_of(state)).items()
    }
