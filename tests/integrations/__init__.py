"""Tests of amplint/integrations."""
