"""Tests of amplint/model/names."""
