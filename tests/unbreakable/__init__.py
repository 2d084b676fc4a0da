"""Runs of `--fix` that are killed, run at once and over files of all kinds: nothing is lost.

`python -m tests.unbreakable` runs the long versions and prints what the README says; the tests run short ones.
"""
