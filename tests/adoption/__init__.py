"""Tests of amplint/adoption."""
