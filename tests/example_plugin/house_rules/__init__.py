"""Rules of one house for amplint."""
