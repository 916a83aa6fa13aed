"""The checks that every streaming method must pass."""
