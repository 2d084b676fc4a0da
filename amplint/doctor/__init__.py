"""The run-time doctor: `amplint run` and `observe` watch a program that trains, and name what went wrong in it."""
