"""amplint on what nobody would write: mutated programs, and every odd file that there is.

Run it with `python -m tests.fuzz`.
"""
