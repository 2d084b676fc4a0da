"""Published sources on disk: downloaded, unpacked, never built and never imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

from tests.field.index import fetch_sdist
from tests.field.packages import FieldError, Package

PIP_TIME_LIMIT = 3600
OLDER_PYTHONS = ("3.12", "3.11", "3.10", "3.9", "3.8")
PLATFORM = "manylinux2014_x86_64"


def default_cache() -> Path:
    """Where sources are kept between runs: $AMPLINT_FIELD_CACHE, else in the user's cache folder."""
    return Path(os.environ.get("AMPLINT_FIELD_CACHE") or Path.home() / ".cache" / "amplint-field")


def folder_of(package: Package, cache: Path) -> Path:
    """Where this package's sources lie in the cache once they are fetched."""
    return cache / f"{package.normalized}-{package.version}"


def fetch(package: Package, cache: Path) -> Path:
    """The folder with the package's .py files, downloaded unless the cache has them.

    A folder under its final name is complete: it is filled under another name and renamed.

    Raises:
        FieldError: the package can't be downloaded or unpacked.
    """
    target = folder_of(package, cache)
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as scratch:
        downloads = Path(scratch, "download")
        downloads.mkdir()
        archive = _download_wheel(package, downloads) or fetch_sdist(package, downloads)
        unpacked = Path(scratch, "unpacked")
        unpacked.mkdir()
        try:
            unpack(archive, unpacked)
        except (OSError, ValueError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
            raise FieldError(f"{package}: {archive.name} can't be unpacked: {error}") from error
        if next(unpacked.rglob("*.py"), None) is None:
            raise FieldError(f"{package}: {archive.name} has no .py file")
        unpacked.rename(target)
    return target


def unpack(archive: Path, folder: Path) -> None:
    """Extract the .py files. Of a source archive the one outer folder is left out, so that paths don't name it."""
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            # By hand: Python 3.10 and 3.11 have the filters of `extractall` in their later patch releases alone.
            for member in tar.getmembers():
                data = tar.extractfile(member) if member.isreg() and _inner(member.name).endswith(".py") else None
                if data is not None:
                    _write(folder, _inner(member.name), data.read())
        return
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            info.filename = _inner(info.filename) if archive.suffix == ".zip" else info.filename
            if info.filename.endswith(".py"):
                zipped.extract(info, folder)


def _write(folder: Path, name: str, data: bytes) -> None:
    """Write a file of an archive.

    Raises:
        tarfile.TarError: it would be outside of the folder.
    """
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise tarfile.TarError(f"{name} is outside of the folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def _inner(name: str) -> str:
    return name.removeprefix("./").partition("/")[2]


def _download_wheel(package: Package, folder: Path) -> Path | None:
    """A wheel through pip; None where pip finds none for this or an older Python.

    The platform is fixed for the older ones, so that a compiled package's files are the same ones everywhere.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--retries", "10", "--ignore-requires-python", "--dest", str(folder)]
    variants = [[], *(["--python-version", version, "--platform", PLATFORM] for version in OLDER_PYTHONS)]
    for variant in variants:
        try:
            done = subprocess.run(
                [*command, *variant, str(package)], capture_output=True, text=True, check=False, timeout=PIP_TIME_LIMIT
            )
        except subprocess.TimeoutExpired as error:
            raise FieldError(f"{package}: pip was not done after {PIP_TIME_LIMIT} s") from error
        if done.returncode == 0:
            return next(folder.glob("*.whl"))
        if "No matching distribution" not in done.stderr:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise FieldError(f"{package}: pip can't download it: {last}")
    return None
