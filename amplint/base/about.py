"""What amplint says of itself."""

from __future__ import annotations

# Where the code is: `Repository` in pyproject's [project.urls].
REPOSITORY = "https://github.com/amplint/amplint"
# What to do about a bug of ours.
REPORT = f"please report it, with the code that causes it: {REPOSITORY}/issues"
# The version of the JSON that amplint prints, which each of its objects has as `schema_version`. It goes up where a key
# goes, is renamed or means something else. That a key is new doesn't count.
SCHEMA_VERSION = 1
# Where the documentation is: `Documentation` in pyproject's [project.urls], and `site_url` in mkdocs.yml.
DOCUMENTATION = "https://amplint.github.io/amplint/"


def installing(extra: str) -> str:
    """The command that installs amplint with one of its extras: from the repository, until there is a release."""
    return f'pip install "amplint[{extra}] @ git+{REPOSITORY}"'


def rule_url(code: str) -> str | None:
    """The page of a rule; None for a plugin's rule, which has none here."""
    return f"{DOCUMENTATION}rules/{code}/" if code.startswith("AMP") else None
