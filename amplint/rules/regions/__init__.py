"""AMP301 to AMP312: where autocast regions stand."""
