"""Tests of amplint/model/flow."""
