"""What amplint says of itself."""

from __future__ import annotations

# What to do about a bug of ours.
REPORT = "please report it, with the code that causes it: https://github.com/amplint/amplint/issues"
# The version of the JSON that amplint prints, which each of its objects has as `schema_version`. It goes up where a key
# goes, is renamed or means something else. That a key is new doesn't count.
SCHEMA_VERSION = 1
# Where the documentation is: `Documentation` in pyproject's [project.urls], and `site_url` in mkdocs.yml.
DOCUMENTATION = "https://amplint.github.io/amplint/"


def rule_url(code: str) -> str | None:
    """The page of a rule; None for a plugin's rule, which has none here."""
    return f"{DOCUMENTATION}rules/{code}/" if code.startswith("AMP") else None
