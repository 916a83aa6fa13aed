"""One page of all experiments: what the papers show, ours beside it, and what does not agree."""
