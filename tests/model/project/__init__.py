"""Tests of amplint/model/project."""
