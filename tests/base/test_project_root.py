"""What the project of a file is: the same for each way to lint it, in each layout."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from amplint import check, settings_for
from amplint.base.paths import shown
from amplint.base.project_root import MARKS, Project, Reason, Start, project_of, told, top_of
from amplint.config.selection import SettingsError
from amplint.config.settings import Overrides, Resolver
from tests import some
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

MAIN = """\
import torch
from common.clips import clip


def step(scaler, optimizer, model, loss):
    scaler.scale(loss).backward()
    clip(model)
    scaler.step(optimizer)
    scaler.update()
"""
CLIPS = "import torch\n\n\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
TREE = {"train/main.py": MAIN, "common/__init__.py": "", "common/clips.py": CLIPS}
FOUND = ["AMP401"]


class Layout(NamedTuple):
    """Files in and around the folder `here`; which folder they mark as the project, and by what."""

    files: dict[str, str]
    project: str | None  # None: nothing marks it
    mark: str | None = None


LAYOUTS = {
    "pyproject": Layout({"here/pyproject.toml": ""}, "here", "pyproject.toml"),
    "broken pyproject": Layout({"here/pyproject.toml": "[project\n"}, "here", "pyproject.toml"),
    "amplint.toml": Layout({"here/amplint.toml": ""}, "here", "amplint.toml"),
    "setup.cfg": Layout({"here/setup.cfg": ""}, "here", "setup.cfg"),
    "git": Layout({"here/.git/HEAD": ""}, "here", ".git"),
    "worktree": Layout({"here/.git": "gitdir: ../x\n"}, "here", ".git"),
    "mercurial": Layout({"here/.hg/requires": ""}, "here", ".hg"),
    "setup.py": Layout({"here/setup.py": ""}, "here", "setup.py"),
    "repository above": Layout({".git/HEAD": ""}, "", ".git"),
    "repository above a mark": Layout({".git/HEAD": "", "here/setup.cfg": ""}, "here", "setup.cfg"),
    "repository above an extension": Layout({".git/HEAD": "", "here/train/setup.py": ""}, "", ".git"),
    "extension": Layout({"here/setup.py": "", "here/train/setup.py": ""}, "here", "setup.py"),
    "module of a package": Layout({"here/setup.py": "", "here/__init__.py": ""}, None),
    "several": Layout({"here/setup.py": "", "here/setup.cfg": "", "here/.git/HEAD": ""}, "here", "setup.cfg"),
    "mark in the way": Layout({"here/.git/HEAD": "", "here/train/setup.cfg": ""}, "here/train", "setup.cfg"),
    "folder called like a mark": Layout({"here/.git/HEAD": "", "here/train/pyproject.toml/x": ""}, "here", ".git"),
    "folders called like marks": Layout(
        {f"here/{each}/x": "" for each in ("pyproject.toml", "setup.cfg", "setup.py")}, None
    ),
    "nothing": Layout({}, None),
    "other files": Layout({"here/requirements.txt": "", "here/README.md": "", "here/tox.ini": ""}, None),
}


def lay_out(project: Write, name: str) -> tuple[Path, Layout]:
    layout = LAYOUTS[name]
    tree: dict[str, str | bytes] = {f"here/{path}": text for path, text in TREE.items()}
    return project({**tree, **layout.files, "elsewhere/x.py": ""}), layout


class Way(NamedTuple):
    """One way to have the file linted: from where, by which path, and what is the project where nothing marks one."""

    place: str
    path: str
    project: str
    reason: Reason


# `train/main.py` is what is linted; what imports lead to lies in `here`.
WAYS = {
    "the folder, in it": Way("here", ".", "here", Reason.GIVEN),
    "nothing, in it": Way("here", "", "here", Reason.GIVEN),
    "the folder": Way(".", "here", "here", Reason.GIVEN),
    "the folder, from elsewhere": Way("elsewhere", "../here", "here", Reason.GIVEN),
    "the folder, by its whole path": Way("elsewhere", "{root}/here", "here", Reason.GIVEN),
    "the file, in the folder": Way("here", "train/main.py", "here", Reason.WORKING),
    "the file, by its whole path": Way("here", "{root}/here/train/main.py", "here", Reason.WORKING),
    "the file's folder": Way("here", "train", "here/train", Reason.GIVEN),
    "the file, beside it": Way("here/train", "main.py", "here/train", Reason.WORKING),
    "the file, from elsewhere": Way("elsewhere", "../here/train/main.py", "here/train", Reason.OWN),
    "the file, from elsewhere, by its whole path": Way(
        "elsewhere", "{root}/here/train/main.py", "here/train", Reason.OWN
    ),
}


def codes(out: str) -> list[str]:
    return [each["code"] for each in json.loads(out)]


@pytest.mark.parametrize(("name", "way"), some(product(LAYOUTS, WAYS), 40))
def test_the_same_project_and_the_same_findings(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    root, layout = lay_out(project, name)
    place, path, unmarked, reason = WAYS[way]
    path = path.format(root=root)
    monkeypatch.chdir(root / place)
    paths = (path,) if path else ()
    expected = Project(f"{root}/{unmarked}", reason)
    if layout.project is not None:
        expected = Project(f"{root}/{layout.project}".rstrip("/"), Reason.MARKED, layout.mark)
    found = [] if expected.folder == f"{root}/here/train" else FOUND

    ran = amplint("--output-format=json", "--isolated", "--verbose", *paths)
    assert codes(ran.out) == found
    if name == "broken pyproject":
        assert ran.err.startswith(
            f"amplint: {shown(expected.folder)}/pyproject.toml is not valid TOML (".replace(f"{os.getcwd()}/", "")
        )
    else:
        assert ran.err == ("" if expected.mark else f"amplint: project: {told(expected)}\n")
    if name != "mark in the way" or reason is not Reason.GIVEN:  # else the folder's is another one
        said = json.loads(amplint("config", "--isolated", "--output-format=json", *paths).out)
        assert (said["project"], said["project_origin"]) == (expected.folder, expected.why)
        assert amplint("config", "--isolated", *paths).out.splitlines()[1] == f"Its project: {told(expected)}."
    # Among other paths, and in other formats, it comes to the same.
    ran = amplint("--output-format=json", "--isolated", *paths, *([f"{root}/elsewhere"] if paths else []))
    assert codes(ran.out) == found
    if reason is not Reason.GIVEN:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MAIN.encode())))
        assert codes(amplint("--output-format=json", "--isolated", "--stdin-filename", path).out) == found
        try:
            settings = settings_for(path)
        except SettingsError:
            assert name == "broken pyproject"
            return
        assert [each.code for each in check(MAIN, path, settings)] == found
        assert settings.project(path) == expected


@pytest.mark.parametrize("name", ["setup.cfg", "setup.py", "mark in the way", "nothing"])
def test_flake8_agrees(project: Write, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pytest.importorskip("flake8")
    from tests.integrations.test_flake8 import flake8

    root, _ = lay_out(project, name)

    def of_flake8(place: Path, *arguments: str) -> list[str]:
        monkeypatch.chdir(place)
        return [line.split(" ")[1] for line in flake8(*arguments)]

    found = [] if name == "mark in the way" else FOUND
    for place, path in (("here", "."), ("here", "train/main.py"), ("elsewhere", "../here")):
        assert of_flake8(root / place, path) == found, path
    assert of_flake8(root / "elsewhere", "../here/train/main.py") == ([] if name == "nothing" else found)
    assert of_flake8(root / "here") == found


@pytest.mark.parametrize("name", ["setup.cfg", "setup.py", "mark in the way", "nothing"])
def test_the_server_agrees(project: Write, name: str) -> None:
    pytest.importorskip("pygls")
    from tests.integrations.test_lsp_server import Editor, session

    root, _ = lay_out(project, name)

    seen: list[list[str]] = []

    async def work(editor: Editor) -> None:
        uri = editor.open("train/main.py" if editor.root.name == "here" else "main.py", MAIN)
        seen.append([str(each.code) for each in await editor.diagnostics(uri)])

    for folder in ("here", "here/train"):
        session(root / folder, work)
    found = [] if name == "mark in the way" else FOUND
    assert seen == [found, [] if name == "nothing" else found]


@pytest.mark.parametrize("name", ["setup.cfg", "nothing"])
def test_verify_agrees(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pytest.importorskip("torch")
    root, _ = lay_out(project, name)
    assert "misbehaves" in amplint("verify", "here").out
    monkeypatch.chdir(root / "elsewhere")
    assert "misbehaves" in amplint("verify", root / "here").out
    assert ("misbehaves" in amplint("verify", "../here/train/main.py").out) == (name != "nothing")


@pytest.mark.parametrize(
    ("name", "path"),
    # Each with one path; with AMPLINT_TEST_ALL=1 with each.
    [
        each
        for name in (*LAYOUTS, "src")
        for each in some([(name, path) for path in (".", "train", "train/main.py")], 1)
    ],
)
def test_the_default_of_src_written_out_changes_nothing(
    project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    root, _ = lay_out(project, "nothing" if name == "src" else name)
    if name == "src":
        (root / "here/src").mkdir()
        (root / "here/common").rename(root / "here/src/common")
    said = 'src = [".", "src"]\n'
    project({"written/amplint.toml": said, "bare/amplint.toml": ""})
    monkeypatch.chdir(root / "here")
    bare, written = (
        amplint("--output-format=json", path, "--config", f"{root}/{each}/amplint.toml").out
        for each in ("bare", "written")
    )
    assert bare == written
    # Nor does it in the project's own file.
    before = root / "here/amplint.toml"
    before.write_text("")
    bare = amplint("--output-format=json", "--config", str(before), path).out
    before.write_text(said)
    assert amplint("--output-format=json", "--config", str(before), path).out == bare


def test_what_else_is_linted_does_not_matter(project: Write, amplint: Run) -> None:
    project(dict(TREE))
    for paths in ((".",), (".", "train"), ("train", "."), ("train/main.py",), ("train/main.py", "common")):
        assert codes(amplint("--output-format=json", *paths).out) == FOUND, paths
    for paths in (("train",), ("train", "common"), ("train", "train/main.py")):
        assert codes(amplint("--output-format=json", *paths).out) == [], paths


def test_a_package_is_not_cut(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(
        {
            "away/x.py": "",
            "pkg/__init__.py": "",
            "pkg/train/__init__.py": "",
            "pkg/train/main.py": MAIN.replace("from common", "from ..common"),
            "pkg/common/__init__.py": "",
            "pkg/common/clips.py": CLIPS,
        }
    )
    for place, path in (("away", "../pkg/train/main.py"), ("away", "../pkg/train"), ("pkg/train", "main.py")):
        monkeypatch.chdir(root / place)
        assert codes(amplint("--output-format=json", path).out) == FOUND, (place, path)
        assert settings_for(root / "pkg/train/main.py").project(f"{root}/pkg/train/main.py").folder == f"{root}/pkg"


def test_the_whole_disk_is_no_project(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert project_of(folder, Start(("/",), "/")) == Project(folder, Reason.OWN)


def test_the_highest_of_the_folders_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    folders = [str(tmp_path / each) for each in ("a", "a/b", "a/b/c")]
    for given in (folders, folders[::-1]):
        assert project_of(folders[2], Start(tuple(given), str(tmp_path))) == Project(folders[0], Reason.GIVEN)
    # A folder whose name only starts like another's is another one.
    assert project_of(folders[0], Start((f"{tmp_path}/a/b", f"{tmp_path}/aa"), None)).reason is Reason.OWN


def test_settings_know_where_they_were_made(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({**TREE, "elsewhere/x.py": ""})
    file = root / "train/main.py"
    settings = Resolver(Overrides()).for_file(str(file))
    monkeypatch.chdir(root / "elsewhere")
    assert [each.code for each in check(MAIN, file, settings)] == FOUND
    assert check(MAIN, file, Resolver(Overrides()).for_file(str(file))) == []


@pytest.mark.parametrize("mark", [*MARKS, "setup.py"])
def test_the_top_is_the_repository(tmp_path: Path, mark: str) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b" / mark).mkdir() if mark.startswith(".") else (tmp_path / "a/b" / mark).touch()
    assert top_of(f"{tmp_path}/a/b/c", Start()) == f"{tmp_path}/a/b"
    (tmp_path / ".git").mkdir()
    above = mark in (".git", ".hg")
    from amplint.base.paths import look_again

    look_again()
    assert top_of(f"{tmp_path}/a/b/c", Start()) == (f"{tmp_path}/a/b" if above else str(tmp_path))
