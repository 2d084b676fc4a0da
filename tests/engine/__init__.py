"""Tests of amplint/engine."""
