"""Tests of amplint/model/usage."""
