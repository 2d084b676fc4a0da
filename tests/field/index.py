"""Source archives straight from the package index, for what has no wheel.

`pip download` of a source archive runs the package's own build code to learn its metadata; here nothing that was
downloaded is ever executed, so the archive is looked up and fetched without pip. Which index is asked is pip's to say.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from tests.field.packages import FieldError, Package

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
ATTEMPTS = 4
TIMEOUT = 180


class IndexFile(NamedTuple):
    """One file that the index offers. `sha256` is empty where the index doesn't give it."""

    filename: str
    url: str
    sha256: str


def fetch_sdist(package: Package, folder: Path) -> Path:
    """Download the package's source archive into `folder`, checked against the index's sha256.

    Raises:
        FieldError: there is no such archive, it can't be fetched, or it isn't what the index says.
    """
    page = f"{_index_url().rstrip('/')}/{package.normalized}/"
    body, kind = _get(page)
    try:
        offered = parse_json_page(body, page) if "json" in kind else parse_html_page(body, page)
    except (ValueError, KeyError, TypeError) as error:
        raise FieldError(f"{package}: the index's answer can't be read: {error}") from error
    found = find_sdist(offered, package)
    if found is None:
        raise FieldError(f"{package}: the index has neither a wheel that pip can download nor a source archive")
    if not found.sha256:
        raise FieldError(f"{package}: the index gives no sha256 for {found.filename}")
    content, _ = _get(found.url)
    if hashlib.sha256(content).hexdigest() != found.sha256:
        raise FieldError(f"{package}: {found.filename} doesn't have the sha256 that the index gives")
    target = folder / found.filename
    target.write_bytes(content)
    return target


def find_sdist(offered: list[IndexFile], package: Package) -> IndexFile | None:
    """The source archive of exactly this version, whichever way its name is spelt."""
    for file in offered:
        for suffix in (".tar.gz", ".zip"):
            if file.filename.endswith(suffix):
                name, _, version = file.filename.removesuffix(suffix).rpartition("-")
                if version == package.version and Package(name, "").normalized == package.normalized:
                    return file
    return None


def parse_json_page(body: bytes, page: str) -> list[IndexFile]:
    """The files of a project's page in the index's JSON form."""
    files = json.loads(body)["files"]
    return [
        IndexFile(file["filename"], urljoin(page, file["url"]), file.get("hashes", {}).get("sha256", ""))
        for file in files
    ]


def parse_html_page(body: bytes, page: str) -> list[IndexFile]:
    """The files of a project's page in the index's HTML form, which some mirrors answer whatever is asked for."""
    parser = _Links()
    parser.feed(body.decode("utf-8"))
    files: list[IndexFile] = []
    for href in parser.hrefs:
        url, fragment = urldefrag(urljoin(page, href))
        algorithm, _, digest = fragment.partition("=")
        files.append(IndexFile(unquote(url.rpartition("/")[2]), url, digest if algorithm == "sha256" else ""))
    return files


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            self.hrefs.append(href)


def _index_url() -> str:
    """The index that pip would ask: its environment, its configuration, its default."""
    from_environment = os.environ.get("PIP_INDEX_URL")
    if from_environment:
        return from_environment
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(command, capture_output=True, text=True, check=False)
    if configured.returncode == 0 and configured.stdout.strip():
        return configured.stdout.strip()
    from pip._internal.models.index import PyPI

    return PyPI.simple_url


def _get(url: str) -> tuple[bytes, str]:
    """The body and its content type, with the patience that a slow network needs."""
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    request = urllib.request.Request(url, headers={"Accept": ACCEPT})
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=context) as answer:
                return answer.read(), answer.headers.get("Content-Type", "")
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise FieldError(f"the index answers {error.code} for {url}") from error
            last: Exception = error
        except (OSError, ValueError) as error:
            last = error
        if attempt < ATTEMPTS:
            time.sleep(2**attempt)
    raise FieldError(f"{url} can't be fetched: {last}")
