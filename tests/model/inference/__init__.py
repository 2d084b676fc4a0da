"""Tests of amplint/model/inference."""
