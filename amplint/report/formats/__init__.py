"""The output formats, one module for a format."""
