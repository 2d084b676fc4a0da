"""Tests of amplint/model/regions."""
