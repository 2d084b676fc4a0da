"""Measurements, to be run by hand with `python -m tests.benchmarks`: times depend on the machine and are no tests."""
