"""Tests of amplint/suppression."""
