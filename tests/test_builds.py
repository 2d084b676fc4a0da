"""What is built for PyPI is complete, and its README shows there."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import EmailPolicy
from pathlib import Path

import pytest

from amplint.base.about import DOCUMENTATION, REPOSITORY
from tests import ROOT

pytest.importorskip("hatchling")

# What hatchling adds.
_ADDED = {"PKG-INFO"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def _tracked() -> set[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    return {each for each in listed if each and (ROOT / each).is_file()}


def _metadata(built: Path) -> EmailMessage:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        message: EmailMessage = BytesParser(policy=EmailPolicy(utf8=True)).parsebytes(archive.read(name))  # type: ignore[arg-type, assignment]
        return message


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git says what there is")
def test_the_sdist_has_all_that_git_has(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        found = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    assert found == _tracked() | _ADDED


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git says what there is")
def test_the_wheel_has_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = {each for each in archive.namelist() if ".dist-info/" not in each}
    assert found == {each for each in _tracked() if each.startswith("amplint/")}


def test_pypi_can_show_the_readme(built: Path) -> None:
    message = _metadata(built)
    assert message["Description-Content-Type"] == "text/markdown"
    text = message.get_payload()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    images = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert images == [f"{DOCUMENTATION}assets/terminal.svg"]
    # Each link into the repository leads to what is there.
    for each in targets:
        if each.startswith(f"{REPOSITORY}/blob/main/"):
            place = each.removeprefix(f"{REPOSITORY}/blob/main/").partition("#")[0]
            assert (ROOT / place).exists(), each
    assert sum(each.startswith(f"{REPOSITORY}/blob/main/docs/") for each in targets) > 10
