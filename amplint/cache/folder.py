"""The folder of a cache: files that are whole or not there, whoever writes and however that ends.

A file has the digest of its contents in front. What is broken, or was put there by somebody else, is not read; a folder
that can't be written stays as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from amplint import __version__
from amplint.base.paths import contents
from amplint.base.reads import digest

_TAG = "CACHEDIR.TAG"
_SAYS = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of amplint.\n"
_IGNORED = b"# Made by amplint.\n*\n"
_TEMPORARY = "writing-"
_FORMAT = "amplint 1 "
# Seconds after which a file that nobody has used goes, is said to be in use again, and after which a run has surely
# ended that was writing one.
_OLD, _STALE, _WRITTEN = 30 * 86400, 86400, 3600


class Folder:
    """A cache's folder, for this version; made when something is written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._own = os.path.join(path, __version__)
        self._writes = True

    def read(self, name: str) -> bytes | None:
        """What a file holds; None where there is none that is whole."""
        path = os.path.join(self._own, name)
        try:
            head, _, data = contents(path).partition(b"\n")
        except OSError:
            return None
        return data if head == _head(data) else None

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None where there is none."""
        try:
            return os.stat(os.path.join(self._own, name)).st_size
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Put a file into the folder, whole or not at all; not at all where nothing can be written."""
        if not self._writes:
            return
        try:
            self._make()
            temporary = os.path.join(self._own, f"{_TEMPORARY}{os.getpid()}-{time.monotonic_ns()}")
            try:
                with open(temporary, "xb") as file:
                    file.write(_head(data) + b"\n" + data)
                os.replace(temporary, os.path.join(self._own, name))
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError:  # read-only, no room: the next run has more to do
            self._writes = False

    def touch(self, name: str) -> None:
        """Say that a file is in use."""
        path = os.path.join(self._own, name)
        with suppress(OSError):
            if os.stat(path).st_mtime < time.time() - _STALE:
                os.utime(path)

    def tidy(self) -> None:
        """Remove what nobody has used for long, and what runs that were killed have left."""
        now = time.time()
        with suppress(OSError), os.scandir(self._own) as entries:
            for each in entries:
                age = now - each.stat(follow_symlinks=False).st_mtime
                if age > (_WRITTEN if each.name.startswith(_TEMPORARY) else _OLD):
                    os.unlink(each.path)

    def _make(self) -> None:
        if os.path.isdir(self._own):
            return
        os.makedirs(self._own, exist_ok=True)
        for name, says in ((_TAG, _SAYS), (".gitignore", _IGNORED)):
            with suppress(FileExistsError), open(os.path.join(self.path, name), "xb") as file:
                file.write(says)


def _head(data: bytes) -> bytes:
    return f"{_FORMAT}{digest(data)}".encode()


def is_cache(path: str) -> bool:
    """Whether a folder is one of amplint's caches, going by its tag."""
    try:
        return contents(os.path.join(path, _TAG)) == _SAYS
    except OSError:
        return False


def remove(path: str) -> None:
    """Remove a cache, of all versions; what is not amplint's stays.

    Raises:
        OSError: something of it can't be removed.
    """
    with os.scandir(path) as entries:
        versions = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
    for each in versions:
        _remove_files(os.path.join(each, name) for name in os.listdir(each))
        with suppress(OSError):  # somebody has put a folder there
            os.rmdir(each)
    _remove_files(os.path.join(path, name) for name in (".gitignore", _TAG))
    with suppress(OSError):
        os.rmdir(path)


def _remove_files(paths: Iterable[str]) -> None:
    for path in paths:
        if os.path.islink(path) or os.path.isfile(path):
            with suppress(FileNotFoundError):
                os.unlink(path)
