"""AMP1: deprecated names."""
