"""Tests of amplint/config."""
