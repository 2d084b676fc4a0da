"""amplint inside other tools."""
