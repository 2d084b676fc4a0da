"""Tests of amplint/model."""
