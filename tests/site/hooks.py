"""What mkdocs calls while it builds the site (`hooks` in mkdocs.yml): pages that are made, links to rules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # `mkdocs` doesn't look in the folder that it is started in

from mkdocs.structure.files import File, Files  # noqa: E402

from tests.site import pages  # noqa: E402


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made, and the picture."""
    for place, text in pages.pages().items():
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, pages.PICTURE, abs_src_path=str(ROOT / ".github" / "terminal.svg")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link the rules that a page names; of a page in docs/ the links are those of the repository."""
    place = page.file.src_uri
    if place not in pages.pages():
        markdown = pages.moved(markdown, f"docs/{place}")
    return pages.spaced(pages.linked(markdown, place))
