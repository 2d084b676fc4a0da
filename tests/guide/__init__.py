"""Tests of amplint/guide."""
