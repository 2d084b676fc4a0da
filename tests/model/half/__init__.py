"""Tests of amplint/model/half."""
