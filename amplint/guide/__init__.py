"""What amplint has to read: the guide, and the pages of the rules."""

from __future__ import annotations

import re
from pathlib import Path

from amplint.base.about import DOCUMENTATION

_LINK = re.compile(r"\]\(\.\./\.\./docs/([\w-]+)\.md(#[\w-]+)?\)")  # to a page in docs/
GUIDE = Path(__file__).parent / "nan.md"
GLOSSARY = Path(__file__).parent / "glossary.md"
RULES = Path(__file__).parent / "rules.md"


def guide() -> str:
    """The guide "My loss is NaN under AMP", in Markdown, with links that lead to the site."""
    return _printed(GUIDE)


def glossary() -> str:
    """What words on the rules' pages mean, in Markdown, with links that lead to the site."""
    return _printed(GLOSSARY)


def _printed(page: Path) -> str:
    return _LINK.sub(rf"]({DOCUMENTATION}\1/\2)", page.read_text("utf-8"))
