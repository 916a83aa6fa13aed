"""The tests: a package, so that none of another distribution takes its name."""
