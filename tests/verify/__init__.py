"""Tests of amplint/verify."""
