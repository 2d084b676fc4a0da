"""Which autocast regions are open at a node."""
