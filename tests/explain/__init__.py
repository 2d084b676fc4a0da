"""Tests of amplint/explain."""
