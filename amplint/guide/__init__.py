"""What amplint has to read: the guide, and the pages of the rules."""

from __future__ import annotations

from pathlib import Path

GUIDE = Path(__file__).parent / "nan.md"
RULES = Path(__file__).parent / "rules.md"


def guide() -> str:
    """The guide "My loss is NaN under AMP", in Markdown."""
    return GUIDE.read_text("utf-8")
