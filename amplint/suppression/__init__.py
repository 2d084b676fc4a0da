"""What comments in a file silence."""
