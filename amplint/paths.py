"""Paths as the program and as the user see them."""

from __future__ import annotations

import os
from pathlib import Path


def absolute(path: str) -> Path:
    """A path from the root, without `..`; symbolic links stay what the user wrote."""
    return Path(os.path.normpath(Path(path).absolute()))


def shown(path: str) -> str:
    """An absolute path as it is reported: relative to the current directory where it is below it."""
    below = str(Path.cwd()).rstrip(os.sep) + os.sep
    return path[len(below) :] if path.startswith(below) else path
