"""AMP0: what amplint says of itself and of files that it can't read."""
