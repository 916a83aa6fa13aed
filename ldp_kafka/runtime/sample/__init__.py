"""What the workers would make of real messages, before any worker runs: how many are events, why
the others are none, and what ids, times and values look like.

All of it is computed from raw data, without noise: it is for the edge's own eyes.
"""
