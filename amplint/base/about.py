"""What amplint says of itself."""

from __future__ import annotations

# What to do about a bug of ours.
REPORT = "please report it, with the code that causes it: https://github.com/amplint/amplint/issues"
