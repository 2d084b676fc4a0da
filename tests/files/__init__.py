"""Tests of amplint/files."""
