"""What a topology does at its brokers, and what its next release waits for."""
