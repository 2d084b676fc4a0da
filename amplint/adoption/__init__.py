"""Adopting amplint in a project that has findings: `--add-noqa` and baselines."""
