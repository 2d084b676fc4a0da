from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.bounds import bounds
from amplint.requirements import declared_in
from amplint.target import Target, declared, from_option

Write = Callable[[dict[str, str | bytes]], Path]
ASSUMED = "nothing declared: 2.4 assumed"


def test_a_release_is_a_lower_bound() -> None:
    target = from_option("2.3", "--target-torch")
    assert [target.guarantees(release) for release in ("1.10", "2.2", "2.3", "2.3.1", "2.4")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert target.reaches("2.30")


def test_releases_compare_as_numbers() -> None:
    assert from_option("1.10", "").guarantees("1.9")
    assert not from_option("1.9", "").guarantees("1.10")
    assert from_option("2", "").guarantees("2.0.0")


@pytest.mark.parametrize(
    ("specifier", "low", "high"),
    [
        (">=2.0", (2, 0, 0), None),
        (">=2.0,<2.4", (2, 0, 0), (2, 3, 2)),
        ("~=2.1", (2, 1, 0), (2, 30, 2)),
        ("~=2.1.0", (2, 1, 0), (2, 1, 2)),
        ("==2.2.*", (2, 2, 0), (2, 2, 2)),
        ("==2.1.1", (2, 1, 1), (2, 1, 1)),
        ("==2.1.9", (2, 1, 9), (2, 1, 9)),
        ("==2.1.0+cu118", (2, 1, 0), (2, 1, 0)),
        (">=1.0", (1, 0, 0), None),
        (">=0.4", (0, 4, 0), None),
        (">2.3", (2, 3, 1), None),
        (">=2.4.0.dev20240501", (2, 4, 0), None),
        (">=1.13,!=2.0.0", (1, 13, 0), None),
        ("<2.4", (0, 0, 0), (2, 3, 2)),
        ("<=2.3.1", (0, 0, 0), (2, 3, 1)),
        # No lower bound is declared: the usual one is assumed.
        ("<3", (2, 4, 0), (2, 30, 2)),
        ("!=2.0.1", (2, 4, 0), None),
        (">=0", (2, 4, 0), None),
        ("===2.2.0", (2, 2, 0), (2, 2, 0)),
    ],
)
def test_bounds(specifier: str, low: tuple[int, ...], high: tuple[int, ...] | None) -> None:
    assert bounds(specifier) == (low, high)


def test_a_range_below_a_release_does_not_reach_it() -> None:
    old = from_option("<2.4", "")
    assert not old.reaches("2.4")
    assert old.reaches("2.3")
    assert not old.guarantees("1.10")


def test_bounds_of_nothing() -> None:
    assert bounds(">=2,<1") is None
    with pytest.raises(ValueError, match="specifier"):
        bounds("2.4 or so")


PYPROJECT = "pyproject.toml"


@pytest.mark.parametrize(
    ("name", "text", "origin"),
    [
        (PYPROJECT, '[project]\ndependencies = ["numpy>=1", "torch>=2.0"]', "pyproject.toml: torch>=2.0"),
        (
            PYPROJECT,
            "[project]\ndependencies = [\"Torch[opt] >= 2.1 ; python_version>'3'\"]",
            "pyproject.toml: torch>=2.1",
        ),
        (PYPROJECT, '[project]\ndependencies = ["torch"]', ASSUMED),
        (PYPROJECT, '[project]\ndependencies = ["torchvision>=0.5", "torch-geometric>=2.0"]', ASSUMED),
        (PYPROJECT, '[project.optional-dependencies]\ntrain = ["torch~=2.1"]', "pyproject.toml: torch~=2.1"),
        # An extra adds to what the package needs in any case.
        (
            PYPROJECT,
            '[project]\ndependencies=["torch>=2.2"]\n[project.optional-dependencies]\na = ["torch==2.0"]',
            "pyproject.toml: torch>=2.2",
        ),
        (
            PYPROJECT,
            '[dependency-groups]\ndev = ["torch>=2.3", {include-group = "x"}]\nx = []',
            "pyproject.toml: torch>=2.3",
        ),
        (PYPROJECT, '[tool.poetry.dependencies]\ntorch = "^2.0"', "pyproject.toml: torch<3,>=2.0"),
        (PYPROJECT, '[tool.poetry.dependencies]\ntorch = "~2.1"', "pyproject.toml: torch<2.2,>=2.1"),
        (PYPROJECT, '[tool.poetry.dependencies]\ntorch = ">=2.0, <2.4"', "pyproject.toml: torch<2.4,>=2.0"),
        (PYPROJECT, '[tool.poetry.dependencies]\ntorch = "2.1.*"', "pyproject.toml: torch==2.1.*"),
        (PYPROJECT, '[tool.poetry.dependencies]\ntorch = "*"', ASSUMED),
        (
            PYPROJECT,
            '[tool.poetry.dependencies]\ntorch = {version = "^1.13 || ^2.0", optional = true}',
            "pyproject.toml: torch<2,>=1.13, torch<3,>=2.0",
        ),
        (
            PYPROJECT,
            '[tool.poetry.dependencies]\ntorch = [{version="2.1.0", python="<3.9"}, {url = "x"}]',
            "pyproject.toml: torch==2.1.0",
        ),
        (PYPROJECT, '[tool.poetry.group.gpu.dependencies]\ntorch = "^2.2"', "pyproject.toml: torch<3,>=2.2"),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.13  # why\n", "setup.cfg: torch>=1.13"),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.13\n", "setup.cfg: torch>=1.13"),
        ("setup.cfg", "[options.extras_require]\nall =\n    torch>=1.13\n", "setup.cfg: torch>=1.13"),
        ("setup.py", 'from setuptools import setup\nsetup(install_requires=["torch>=2.0"])', "setup.py: torch>=2.0"),
        (
            "setup.py",
            'import setuptools\nNEEDED: list = ["numpy"]\nMORE = NEEDED + ["torch>=2.1"]\n'
            'setuptools.setup(name="x", install_requires=[*MORE, f"x"])',
            "setup.py: torch>=2.1",
        ),
        ("setup.py", 'x = x + ["torch>=2.1"]\nsetup(install_requires=x)', "setup.py: torch>=2.1"),
        ("setup.py", 'setup(install_requires=open("torch").read())', ASSUMED),
        ("requirements.txt", "# torch>=1\nnumpy\ntorch>=2.0  # why\n", "requirements.txt: torch>=2.0"),
        (
            "requirements.txt",
            "-r torch.txt\n--index-url https://torch\ntorch==2.1.0 --hash=sha256:0\n",
            "requirements.txt: torch==2.1.0",
        ),
        ("requirements.txt", "torch>=2.0 ; \\\n  sys_platform != 'win32'\r\n", "requirements.txt: torch>=2.0"),
        ("requirements.txt", "torch @ https://example.org/torch.whl\n", ASSUMED),
        ("requirements-dev.txt", "torch>=2.0\n", "requirements-dev.txt: torch>=2.0"),
        ("requirements/base.txt", "torch>=2.0\n", "requirements/base.txt: torch>=2.0"),
        # Nothing that is odd is more than nothing.
        (PYPROJECT, "[project\ntorch", ASSUMED),
        (PYPROJECT, 'project = "torch"\ntool = 1\n', ASSUMED),
        (PYPROJECT, '[project]\ndependencies = "torch>=2.0"', ASSUMED),
        (PYPROJECT, '[project]\ndependencies = [1, "torch>=x", "torch>=3,<2", "=torch"]', ASSUMED),
        (PYPROJECT, '[tool.poetry.dependencies]\ntorch = "^"', ASSUMED),
        (PYPROJECT, b"# torch \xff", ASSUMED),
        ("setup.cfg", "torch", ASSUMED),
        ("setup.cfg", "[options]\ninstall_requires = %(torch)s", ASSUMED),
        ("setup.py", "torch = (", ASSUMED),
        ("setup.py", "torch = '\\d'\n" + "(" * 3000 + ")" * 3000, ASSUMED),
        ("requirements.txt", "torch >= \n${TORCH}\n", ASSUMED),
    ],
)
def test_declared(project: Write, name: str, text: str | bytes, origin: str, recwarn: pytest.WarningsRecorder) -> None:
    root = project({name: text, ".git/HEAD": ""})
    assert declared(root).origin == origin
    assert not recwarn.list


def test_markers_leave_all_alternatives_open(project: Write) -> None:
    text = 'torch>=2.4; python_version>="3.9"\ntorch>=1.13,<2.0; python_version<"3.9"\n'
    target = declared(project({"requirements.txt": text}))
    assert (target.lowest, target.highest) == ((1, 13, 0), None)


def test_the_nearest_file_that_names_torch_decides(project: Write) -> None:
    root = project(
        {
            "requirements.txt": "torch>=1.0.1\n",
            "repository/.git/HEAD": "",
            "repository/setup.cfg": "[options]\ninstall_requires = torch>=2.1\n",
            "repository/pyproject.toml": "[project]\ndependencies = ['torch']\n",
            "repository/package/pyproject.toml": "[project]\ndependencies = ['numpy>=1']\n",
            "repository/other/requirements.txt": "torch>=2.3\n",
            "empty/.git/HEAD": "",
        }
    )
    assert declared(root / "repository" / "package" / "src").origin == "setup.cfg: torch>=2.1"
    assert declared(root / "repository" / "other").origin == "requirements.txt: torch>=2.3"
    # A repository's root ends the search.
    assert declared(root / "empty" / "src").origin == ASSUMED


@pytest.mark.parametrize(
    ("name", "text", "package", "origin"),
    [
        (PYPROJECT, '[project]\ndependencies = ["lightning>=2.1"]', "lightning", "pyproject.toml: lightning>=2.1"),
        ("requirements.txt", "pytorch_lightning==1.9.5\n", "lightning", "requirements.txt: pytorch-lightning==1.9.5"),
        ("requirements.txt", "lightning-utilities>=0.1\n", "lightning", "nothing declared: 2.0 assumed"),
        (
            PYPROJECT,
            '[tool.poetry.dependencies]\ntorch = "^2.2"\ntransformers = "^4.30"\n',
            "transformers",
            "pyproject.toml: transformers<5,>=4.30",
        ),
        (
            "setup.cfg",
            "[options]\ninstall_requires =\n    torch>=1.13\n",
            "transformers",
            "nothing declared: 5.0 assumed",
        ),
    ],
)
def test_what_is_declared_of_a_framework(project: Write, name: str, text: str, package: str, origin: str) -> None:
    assert declared(project({name: text, ".git/HEAD": ""}), package).origin == origin


def test_frameworks_have_releases_of_their_own() -> None:
    assert bounds("<2.0", "lightning") == ((0, 0, 0), (1, 9, 2))
    assert bounds("<6", "transformers") == ((5, 0, 0), (5, 60, 2))
    assert bounds(">=0.12", "accelerate") == ((0, 12, 0), None)
    assert not from_option("<5", "", "transformers").reaches("5.0")


def test_unreadable_file_declares_nothing(project: Write) -> None:
    root = project({"requirements.txt/x": ""})
    assert declared_in(root) is None


@given(st.text(alphabet="^~=<>!*|,. 0123456789x\n-", max_size=12))
def test_no_poetry_version_raises(tmp_path_factory: pytest.TempPathFactory, version: str) -> None:
    directory = tmp_path_factory.mktemp("poetry")
    (directory / "pyproject.toml").write_text(f"[tool.poetry.dependencies]\ntorch = {version!r}\n".replace("\\n", ""))
    found = declared_in(directory)
    assert found is None or isinstance(found, Target)
