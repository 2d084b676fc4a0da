"""AMP3: where autocast regions stand."""
