"""The write of a fixed file: it is the old one or the new one, whole, whenever and however the program ends.

The new text goes to a temporary file beside the old one and takes its place in one step. A run that was killed leaves
at most that temporary file, which the next `--fix` that has to do with its directory removes.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress

from amplint.base.paths import TEMPORARY

_SUFFIX = ".tmp"
_OURS = re.compile(rf"{re.escape(TEMPORARY)}\w{{8}}{re.escape(_SUFFIX)}")


def replace(path: str | os.PathLike[str], old: bytes, new: bytes) -> str | None:
    """Put `new` in the place of a file's contents, which are `old`; of a link, of the file that it points to.

    Mode, owner and extended attributes are kept where that is permitted. What the user has to know is returned.

    Raises:
        OSError: the file may not be written, its directory takes no new file, there is no room, or somebody else has
            changed it meanwhile. The file is as it was.
    """
    target = os.path.realpath(path)
    known = os.stat(target)
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied")
    try:
        handle, temporary = _claimed(os.path.dirname(target))
    except OSError as error:
        why = f"{error.strerror} in its directory, where amplint creates a new file to replace the old one"
        raise OSError(error.errno, why) from error
    try:
        with open(handle, "wb") as file:
            file.write(new)
            file.flush()
            # Else what is renamed may still be empty when the power fails.
            os.fsync(handle)
            _dress(temporary, target, known)
            if sys.platform != "win32":  # where an open file can't be renamed
                _swap(temporary, target, old, new)
        if sys.platform == "win32":
            _swap(temporary, target, old, new)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    links = known.st_nlink - 1
    return (
        f"had {links} hard link{'s' * (links > 1)}, which keep{'s' * (links == 1)} the old text" if links > 0 else None
    )


def put(path: str, data: bytes) -> None:
    """Make `data` all that a file holds, which need not exist yet; what is no regular file is written to.

    Raises:
        OSError: it can't be written. The file is as it was.
    """
    target = os.path.realpath(path)
    try:
        known = os.stat(path)  # which finds a pipe by the link of /dev/stdout, where the target's name says nothing
    except FileNotFoundError:
        known = None
    if known and not stat.S_ISREG(known.st_mode):
        with open(path, "wb") as file:  # a pipe or a device, which nothing can take the place of
            file.write(data)
        return
    if known and not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied")
    handle, temporary = _claimed(os.path.dirname(target))
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        if known:
            _dress(temporary, target, known)
        else:
            os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    """What a new file's mode lacks; it can only be asked by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def remove_stale(directory: str, names: Iterable[str]) -> None:
    """Remove those of the files in a directory that are temporary ones of a run that was killed."""
    for name in names:
        if _OURS.fullmatch(name):
            with suppress(OSError):  # one that can't be removed hurts nobody
                _remove(os.path.join(directory, name))


def _claimed(directory: str) -> tuple[int, str]:
    """A new file, marked as in use: its descriptor and its path."""
    while True:
        handle, path = tempfile.mkstemp(_SUFFIX, TEMPORARY, directory)
        _lock(handle, wait=True)
        if sys.platform == "win32" or os.fstat(handle).st_nlink:
            return handle, path
        os.close(handle)  # another run took it for a stale one before it was locked


def _lock(handle: int, *, wait: bool) -> bool:
    """Lock a file for as long as it is open here; whether that was possible."""
    if sys.platform == "win32":
        return True  # there nobody can remove a file that is open
    import fcntl  # noqa: PLC0415 - which Windows lacks

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # in use, or on a file system without locks, where that can't be told
        return False
    return True


def _remove(path: str) -> None:
    # Neither a link that somebody has planted is followed, nor is a pipe waited for.
    careful = 0 if sys.platform == "win32" else os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(path, os.O_RDWR | careful)
    try:
        unused = _lock(handle, wait=False)
        if unused and sys.platform != "win32":
            os.unlink(path)
    finally:
        os.close(handle)
    if sys.platform == "win32":
        os.unlink(path)


def _dress(temporary: str, target: str, known: os.stat_result) -> None:
    """Give a new file what the old one has beside its contents."""
    mode = known.st_mode & 0o7777
    if sys.platform != "win32":
        try:
            os.chown(temporary, known.st_uid, known.st_gid)
        except OSError:  # only the superuser gives files away
            mode &= 0o777  # to run as the old owner is not to become to run as us
            with suppress(OSError):
                os.chown(temporary, -1, known.st_gid)
    os.chmod(temporary, mode)
    if sys.platform == "linux":
        with suppress(OSError):
            for name in os.listxattr(target):
                with suppress(OSError):
                    os.setxattr(temporary, name, os.getxattr(target, name))


def _swap(temporary: str, target: str, old: bytes, new: bytes) -> None:
    """Put a new file in the place of an old one that nobody has changed."""
    if not stat.S_ISREG(os.stat(target).st_mode):
        raise OSError("is no longer a regular file")
    with open(target, "rb") as file:
        now = file.read()
    if now == new:  # another amplint was faster
        os.unlink(temporary)
    elif now == old:
        os.replace(temporary, target)
    else:
        raise OSError("was changed by another program in the meantime; nothing is written")
