from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amplint.config.settings import Overrides, Resolver
from amplint.files.discovery import Found, discover
from tests.conftest import LEGACY, MODERN, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]


def find(*paths: str | Path) -> Found:
    return discover(list(map(str, paths)), Resolver(Overrides()))


def files(*paths: str | Path) -> list[str]:
    return find(*paths).files


def test_a_directory_is_walked_for_python(project: Write) -> None:
    project(dict.fromkeys(("b.py", "a/z.pyi", "a.txt", "a/c/d.py", "c.py/e.py", "a/pyproject.toml"), ""))
    assert files(".") == ["a/c/d.py", "a/z.pyi", "b.py", "c.py/e.py"]


def test_paths_are_shown_as_seen_from_here(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"a/x.py": "", "b/y.py": ""})
    monkeypatch.chdir(root / "a")
    assert files("..", root / "a") == [f"{root}/b/y.py", "x.py"]


def test_a_file_comes_once(project: Write) -> None:
    root = project({"a/x.py": "", "b/y.py": ""})
    (root / "link.py").symlink_to("a/x.py")
    assert files("a", ".", "a/x.py", root / "a" / ".." / "a" / "x.py", "b/y.py", "link.py") == ["a/x.py", "b/y.py"]


def test_a_link_takes_no_files_place(project: Write, amplint: Run) -> None:
    """Where both are linted the file is, under its own name, which is where its imports are looked for."""
    from tests.base.test_project_root import TREE, codes

    root = project({**TREE, "x.py": ""})
    (root / "aaa.py").symlink_to("train/main.py")
    for paths in (["."], ["aaa.py", "train/main.py"], ["train/main.py", "aaa.py"]):
        assert [each for each in files(*paths) if "main" in each or "aaa" in each] == ["train/main.py"]
        assert codes(amplint("--output-format=json", *paths).out) == ["AMP401"]


def test_a_link_imports_what_its_target_does(project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.base.test_project_root import TREE, codes

    root = project({**{f"its/{name}": text for name, text in TREE.items()}, "its/setup.cfg": "", "away/x.py": ""})
    (root / "away/main.py").symlink_to("../its/train/main.py")
    monkeypatch.chdir(root / "away")
    assert codes(amplint("--output-format=json", "main.py").out) == ["AMP401"]


def test_links_end_no_walk(project: Write) -> None:
    root = project({"a/x.py": "", "elsewhere/z.py": ""})
    (root / "a" / "loop").symlink_to(root / "a")
    (root / "a" / "self.py").symlink_to("self.py")
    (root / "a" / "broken.py").symlink_to("nowhere.py")
    (root / "a" / "other.py").symlink_to(root / "elsewhere" / "z.py")
    assert files("a") == ["a/other.py", "a/x.py"]
    # A link that is named is followed.
    assert files("a/loop") == ["a/loop/other.py", "a/loop/x.py"]


@pytest.mark.parametrize("pattern", ["/a", "/a/", "//a", "./a", "{root}/a", "{root}/a/"])
def test_a_slash_in_front_anchors(project: Write, pattern: str) -> None:
    root = project({"[o]/a/x.py": "", "[o]/b/a/x.py": "", "[o]/b/y.py": ""}) / "[o]"
    pattern = pattern.format(root=root)
    said: dict[str, object]
    for said in ({"exclude": [pattern]}, {"extend-exclude": [pattern]}):
        found = discover([str(root)], Resolver(Overrides(said, directory=str(root)))).files
        assert found == ["[o]/b/a/x.py", "[o]/b/y.py"]
    project({"[o]/amplint.toml": f"extend-exclude = ['{pattern}']\n"})
    assert files(root) == ["[o]/b/a/x.py", "[o]/b/y.py"]
    resolver = Resolver(Overrides({"per-file-ignores": {pattern: ["ALL"]}}, directory=str(root)))
    off = [
        path for path in ("a/x.py", "b/a/x.py", "b/y.py") if "AMP101" not in resolver.for_file(f"{root}/{path}").codes
    ]
    assert off == ["a/x.py"]


@pytest.mark.parametrize("inner", ["ignore = ['AMP1']", "exclude = ['none']", "broken ="])
def test_what_is_above_leaves_out_a_folder_with_its_own_configuration(project: Write, inner: str) -> None:
    root = project({"amplint.toml": "extend-exclude = ['a']\n", "a/amplint.toml": inner, "a/b/x.py": "", "y.py": ""})
    resolver = Resolver(Overrides())
    assert files(root) == ["y.py"]
    assert resolver.leaves_out(f"{root}/a/b/x.py", str(root))
    assert resolver.leaves_out(f"{root}/a", str(root))
    assert not resolver.leaves_out(f"{root}/a/b/x.py", f"{root}/a")
    assert not resolver.leaves_out(f"{root}/y.py", str(root))


def test_usual_and_own_excludes(project: Write) -> None:
    names = (
        "x.py",
        "._x.py",
        ".venv/lib/x.py",
        "a/node_modules/x.py",
        "build/x.py",
        "gen/x.py",
        "a/gen/x.py",
        "a/skip_me.py",
    )
    project(dict.fromkeys(names, ""))
    assert files(".") == ["a/gen/x.py", "a/skip_me.py", "build/x.py", "gen/x.py", "x.py"]
    project({"pyproject.toml": '[tool.amplint]\nextend-exclude = ["./gen", "skip_*.py"]\n'})
    assert files(".") == ["a/gen/x.py", "build/x.py", "x.py"]
    project({"a/amplint.toml": 'exclude = ["gen"]\n'})
    assert files(".") == ["a/node_modules/x.py", "a/skip_me.py", "build/x.py", "x.py"]


def test_a_virtual_environment_is_known_by_its_file(project: Write) -> None:
    root = project({"myenv/pyvenv.cfg": "", "myenv/bin/x.py": "", "a/env/pyvenv.cfg": "", "a/env/y.py": "", "z.py": ""})
    resolver = Resolver(Overrides())
    assert files(".") == ["z.py"]
    assert resolver.leaves_out(f"{root}/myenv/bin/x.py", str(root))
    assert not resolver.leaves_out(f"{root}/z.py", str(root))
    assert files("myenv", "a/env/y.py") == ["a/env/y.py", "myenv/bin/x.py"]  # they are named
    (root / "myenv/pyvenv.cfg").unlink()
    assert files(".") == ["myenv/bin/x.py", "z.py"]


def test_what_is_named_is_taken(project: Write) -> None:
    project(dict.fromkeys((".venv/a.py", "dist/b.py", "script", ".gitignore", "dist/c.txt"), ""))
    project({".gitignore": "*.py\ndist/\n", ".git/HEAD": ""})
    assert files(".") == []
    assert files("script", ".venv/a.py", "dist/c.txt") == [".venv/a.py", "dist/c.txt", "script"]
    assert files("dist") == ["dist/b.py"]


class TestForceExclude:
    SAID = "force-exclude = true\nextend-exclude = ['third_party/', '*_gen.py']\n"
    NAMES = ("a.py", "venv/x.py", "third_party/x.py", "third_party/deep/y.py", "a_gen.py", "sub/b.py")

    def test_what_is_named_is_left_out(self, project: Write, amplint: Run) -> None:
        root = project({"amplint.toml": self.SAID, **dict.fromkeys(self.NAMES, LEGACY)})
        assert files(".") == files(*self.NAMES) == files(*(root / each for each in self.NAMES)) == ["a.py", "sub/b.py"]
        assert files("third_party", "venv", "third_party/deep", "sub") == ["sub/b.py"]
        # The flag prevails, either way.
        ran = amplint("third_party/x.py", "--no-force-exclude", "--output-format=concise")
        assert ran.out.startswith("third_party/x.py:5:10: AMP101")
        project({"amplint.toml": self.SAID.replace("true", "false")})
        assert amplint("third_party/x.py").code == 1
        assert amplint("third_party/x.py", "venv", "--force-exclude") == (0, "All checks passed!\n", "")
        ran = amplint("third_party/x.py", "--force-exclude", "-v")
        assert ran.err == "amplint: third_party/x.py: not linted: it is excluded, and `force-exclude` is set\n"
        assert amplint("a.py", "third_party/x.py", "--force-exclude", "--fix").code == 0
        assert (root / "third_party/x.py").read_text() == LEGACY
        assert (root / "a.py").read_text() == MODERN
        # What isn't there is still a mistake.
        assert amplint("third_party/z.py", "--force-exclude").code == 2

    def test_from_everywhere(self, project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        root = project({"dist/amplint.toml": self.SAID, **{f"dist/{each}": "" for each in self.NAMES}})
        # That the project itself lies in a folder of that name doesn't matter.
        assert files(root / "dist/a.py", root / "dist/venv/x.py") == ["dist/a.py"]
        monkeypatch.chdir(root / "dist/third_party/deep")
        assert files("y.py", ".") == []
        assert files("../../a.py") == [f"{root}/dist/a.py"]

    def test_a_project_inside(self, project: Write) -> None:
        """What the repository's configuration excludes is excluded though it is a project, or has settings, itself."""
        names = ("a.py", "third_party/p/x.py", "third_party/q/x.py")
        project({".git/HEAD": "", "amplint.toml": self.SAID, **dict.fromkeys(names, "")})
        project({"third_party/p/setup.cfg": "", "third_party/q/amplint.toml": "force-exclude = true\n"})
        assert files(*names) == files(".") == ["a.py"]

    def test_standard_input(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        project({"amplint.toml": self.SAID})

        def ran(name: str, *arguments: str) -> Ran:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LEGACY.encode())))
            return amplint("--stdin-filename", name, *arguments)

        assert ran("third_party/x.py") == (0, "All checks passed!\n", "")
        assert ran("third_party/x.py", "--fix", "-q") == (0, LEGACY, "")
        assert ran("third_party/x.py", "--diff", "-q") == (0, "", "")
        assert ran("other/x.py").code == 1
        assert ran("third_party/x.py", "--no-force-exclude").code == 1

    def test_hosts(self, project: Write, amplint: Run) -> None:
        pytest.importorskip("flake8")
        project({"amplint.toml": self.SAID, **dict.fromkeys(self.NAMES, LEGACY)})
        command = [sys.executable, "-m", "flake8", "--isolated", "--select=AMP", *self.NAMES]
        out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        assert [line.partition(":")[0] for line in out.splitlines()] == ["a.py", "sub/b.py"]
        shown = amplint("config", "third_party/x.py").out
        assert "\nIt is excluded, even if it is named on the command line (`force-exclude`).\n" in shown
        assert "left out" not in amplint("config", "a.py").out
        assert amplint("verify", "third_party/x.py").out == "nothing to check: no Python files\n"

    def test_a_broken_configuration_is_still_told(self, project: Write, amplint: Run) -> None:
        project({"amplint.toml": "forse-exclude = true\n", "venv/a.py": ""})
        ran = amplint("venv/a.py", "--force-exclude")
        assert ran.code == 2
        assert "did you mean 'force-exclude'?" in ran.err


def test_missing_and_empty(project: Write) -> None:
    project({"a/x.txt": "", "b/x.py": ""})
    found = find("a", "nowhere", "b", "", "b/x.py/y")
    assert found.files == ["b/x.py"]
    assert found.empty == ["a"]
    assert found.errors == [
        "nowhere: no such file or directory",
        "an empty path",
        "b/x.py/y: no such file or directory",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_closed_directory_is_an_error(project: Write) -> None:
    root = project({"a/x.py": "", "b/x.py": ""})
    (root / "a").chmod(0)
    try:
        found = find(".")
    finally:
        (root / "a").chmod(0o755)
    assert found.files == ["b/x.py"]
    assert found.errors == ["a: Permission denied"]


def test_a_broken_configuration_leaves_the_walk_alone(project: Write) -> None:
    project({"a/amplint.toml": "selct = 1", "a/x.py": "", "a/venv/x.py": "", "b.py": ""})
    assert files(".") == ["a/x.py", "b.py"]


def test_gitignore_below_a_named_directory(project: Write) -> None:
    root = project(
        {".git/HEAD": "", ".gitignore": "/out/\n*.gen.py\n", "out/x.py": "", "out/y.gen.py": "", "src/a.py": ""}
    )
    project(
        {"src/z.gen.py": "", "src/deep/.gitignore": "!w.gen.py\nq.py\n", "src/deep/w.gen.py": "", "src/deep/q.py": ""}
    )
    assert files("src/deep") == ["src/deep/w.gen.py"]
    assert files("src") == ["src/a.py", "src/deep/w.gen.py"]
    # What ignores the named directory itself doesn't hold for what is in it.
    assert files("out") == ["out/x.py", "out/y.gen.py"]
    assert files(root) == files(".") == ["src/a.py", "src/deep/w.gen.py"]


def test_a_repository_in_a_repository_ignores_for_itself(project: Write) -> None:
    project({".git/HEAD": "", ".gitignore": "x.py\n", "x.py": "", "y.py": "", "inner/x.py": "", "inner/y.py": ""})
    assert files(".") == ["inner/y.py", "y.py"]
    project({"inner/.git/HEAD": "", "inner/.git/info/exclude": "y.py\n"})
    assert files(".") == ["inner/x.py", "y.py"]


def test_what_git_tracks_is_not_ignored(project: Write) -> None:
    root = project(
        {
            ".gitignore": "train.py\ndata/\n/out/\n",
            "train.py": "",
            "test/train.py": "",
            "data/sets.py": "",
            "data/deep/loader.py": "",
            "data/copy.py": "",
            "out/x.py": "",
            "my/out/data/y.py": "",
        }
    )
    subprocess.run(["git", "init", "-q", root], check=True)
    assert files(".") == []
    added = ["train.py", "data/sets.py", "data/deep/loader.py", "my/out/data/y.py"]
    subprocess.run(["git", "-C", root, "add", "-f", *added], check=True)
    assert files(".") == sorted(added)
    assert files("my") == ["my/out/data/y.py"]
    # An index of another version is no list of whole paths.
    subprocess.run(["git", "-C", root, "update-index", "--index-version", "4"], check=True)
    assert files(".") == []


def test_a_worktree_has_its_index_elsewhere(project: Write, tmp_path: Path) -> None:
    root = project({".gitignore": "train.py\n", "train.py": ""})
    git = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in ("init -q", "add -f train.py", "commit -qm x", "worktree add -q tree"):
        subprocess.run([*git, *command.split()], check=True, capture_output=True)
    (root / "tree" / ".gitignore").write_text("train.py\n")
    assert files("tree") == ["tree/train.py"]


def test_gitignore_holds_without_a_repository(project: Write) -> None:
    project({".gitignore": "x.py\n", "a/x.py": "", "a/y.py": ""})
    assert files(".") == ["a/y.py"]


def test_no_gitignore_no_pathspec(project: Write) -> None:
    project({"a/x.py": ""})
    code = (
        "import sys\n"
        "from amplint.config.settings import Overrides, Resolver\n"
        "from amplint.files.discovery import discover\n"
        "print(discover(['.'], Resolver(Overrides())).files, 'pathspec' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "['a/x.py'] False\n"


names = st.sampled_from(["a", "b", "c.py", "d.py"])
patterns = st.builds(
    lambda start, middle, end: start + "/".join(middle) + end,
    st.sampled_from(["", "", "!", "/", "!/", "**/", "!**/"]),
    st.lists(
        st.sampled_from(["a", "b", "c.py", "d.py", "*", "*.py", "?", "**", "[ab]", "[!a]", "\\a", "c.py "]),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["", "", "/", "/**", "/*", " "]),
)
ignore_files = st.lists(patterns, min_size=1, max_size=4).map("\n".join)


@settings(max_examples=30)
@example(root="a\n!**/", nested={}, added={"a/b/c.py"})
@example(root="c.py\n**/", nested={"a": "!*/"}, added=set())
@given(
    root=ignore_files,
    nested=st.dictionaries(st.sampled_from(["a", "b", "a/b"]), ignore_files, max_size=2),
    added=st.sets(st.sampled_from(["c.py", "a/d.py", "a/b/c.py", "b/a/c.py"])),
)
def test_git_agrees(
    tmp_path_factory: pytest.TempPathFactory, root: str, nested: dict[str, str], added: set[str]
) -> None:
    """Whatever the .gitignore files say, the files found are those that git would take."""
    top = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", top], check=True)
    for directory in ("", "a", "b", "a/b", "b/a", "a/b/a"):
        (top / directory).mkdir(exist_ok=True)
        for name in ("c.py", "d.py"):
            (top / directory / name).touch()
    (top / ".gitignore").write_text(root)
    for directory, text in nested.items():
        (top / directory / ".gitignore").write_text(text)
    if added:
        subprocess.run(["git", "-C", top, "add", "-f", *sorted(added)], check=True)
    listed = subprocess.run(
        ["git", "-C", top, "ls-files", "--others", "--cached", "--exclude-standard", "*.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert files(top) == sorted(f"{top}/{name}" for name in listed.stdout.splitlines())
