"""Training steps: trials, comparison with the reference, verdict."""
