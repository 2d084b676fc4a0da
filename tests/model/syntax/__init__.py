"""Tests of amplint/model/syntax."""
