"""Tests of amplint/sources."""
