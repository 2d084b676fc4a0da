"""Tests of amplint/base."""
