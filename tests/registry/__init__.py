"""Tests of amplint/registry."""
