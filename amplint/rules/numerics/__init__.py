"""AMP501 to AMP510: what half precision does to numbers."""
