"""Tests of amplint/model/torch_facts."""
