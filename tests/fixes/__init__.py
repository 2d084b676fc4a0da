"""Tests of amplint/fixes."""
