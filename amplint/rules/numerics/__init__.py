"""AMP5: what half precision does to numbers."""
