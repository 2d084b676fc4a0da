"""Edits, and why a fix is refused. Nothing here detects a misuse."""
