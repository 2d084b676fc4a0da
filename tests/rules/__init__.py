"""Tests of amplint/rules."""
