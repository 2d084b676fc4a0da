"""What a git repository tracks: git ignores none of that, whatever a .gitignore says."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from amplint.base.paths import contents

_HEADER = 12  # bytes: "DIRC", the version, the number of entries
_VERSIONS = (2, 3)  # version 4 doesn't write whole paths
_LENGTH = 0xFFF  # the bits of an entry's flags that hold the length of its path
_LINK = b"gitdir: "


class Tracked:
    """The paths in the index of one repository.

    The index is searched, not parsed: a path is preceded by its flags, which hold its length, and ended by a zero byte
    (https://git-scm.com/docs/index-format).
    """

    def __init__(self, root: str, index: bytes) -> None:
        known = index[:4] == b"DIRC" and int.from_bytes(index[4:8], "big") in _VERSIONS
        self._root = root.rstrip(os.sep) + os.sep
        self._index = index if known else b""

    def has(self, path: str, is_directory: bool) -> bool:
        """Whether a file (absolute path), or a file below a directory, is tracked."""
        relative = os.fsencode(path[len(self._root) :].replace(os.sep, "/")) + (b"/" if is_directory else b"\0")
        at = self._index.find(relative, _HEADER)
        while at != -1:
            length = int.from_bytes(self._index[at - 2 : at], "big") & _LENGTH
            end = self._index.find(b"\0", at)
            if length == min(end - at, _LENGTH):
                return True
            at = self._index.find(relative, at + 1)
        return False


def tracked(root: str) -> Tracked:
    """What the repository at `root` tracks: nothing if it has no index, or one of a version with shortened paths."""
    index = b""
    with suppress(OSError):
        index = contents(str(_folder(Path(root)) / "index"))
    return Tracked(root, index)


def _folder(root: Path) -> Path:
    """The git directory of a repository: in worktrees and submodules, `.git` is a file that names it."""
    git = root / ".git"
    if git.is_file():
        named = contents(str(git)).removeprefix(_LINK).strip()
        return root / os.fsdecode(named)
    return git
