"""Tests of amplint/cli."""
