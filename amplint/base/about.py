"""What amplint says of itself."""

from __future__ import annotations

# What to do about a bug of ours.
REPORT = "please report it, with the code that causes it: https://github.com/amplint/amplint/issues"
# The version of the JSON that amplint prints, which each of its objects has as `schema_version`. It goes up where a key
# goes, is renamed or means something else. That a key is new doesn't count.
SCHEMA_VERSION = 1
