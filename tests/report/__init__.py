"""Tests of amplint/report."""
