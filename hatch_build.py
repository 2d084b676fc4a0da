"""What hatchling calls while it builds: the README as PyPI shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"!\[([^]]*)\]\((?:\./)?\.github/([^)]+)\)")
_LINK = re.compile(r"(?<!!)\[([^]]*)\]\((?!\w+:|#)([^)]+)\)")


class Readme(MetadataHookInterface):
    """README.md, in which images and links lead to the site and the repository that [project.urls] names."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, metadata["urls"])}


def absolute(text: str, urls: dict[str, str]) -> str:
    """A README whose relative images are those of the site, and whose relative links lead into the repository."""
    text = _IMAGE.sub(rf"![\1]({urls['Documentation']}assets/\2)", text)
    return _LINK.sub(rf"[\1]({urls['Repository']}/blob/main/\2)", text)
