"""amplint on real code: what it finds in published packages, held against verdicts given by eye.

Fixtures show what a rule is meant to find; only other people's code shows what it finds besides.
Run it with `python -m tests.field`.
"""
