"""Tests of amplint."""
