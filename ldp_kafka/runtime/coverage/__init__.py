"""``ldp-kafka evaluate coverage``: the releases that topologies of every method publish of made-up
streams, and whether their intervals hold the truth as often as they state.
"""
