"""Tests of amplint/model/calls."""
