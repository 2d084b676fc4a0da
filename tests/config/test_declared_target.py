from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.base.paths import contents
from amplint.base.target import Target
from amplint.config.declared_target import declared, from_option
from amplint.config.requirements import declared_in, reading
from amplint.config.specifiers import bounds

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
WHEELS = "https://download.pytorch.org/whl"
CU113 = "requirements.txt: torch==1.12.1+cu113"


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
        ("requirements.txt", f"torch @ {WHEELS}/torch-1.12.1%2Bcu113-cp38-cp38-linux_x86_64.whl ; x\n", CU113),
        ("requirements.txt", f"{WHEELS}/torch-1.12.1+cu113-cp38-cp38-linux_x86_64.whl#sha256=0  # why\n", CU113),
        ("requirements.txt", "./wheels/torch-1.12.1+cu113-cp38-cp38-linux_x86_64.whl\n", CU113),
        ("requirements.txt", "wheels/torchvision-0.13.1-cp38-cp38-linux_x86_64.whl\n", ASSUMED),
        ("requirements.txt", f"--find-links {WHEELS}/torch_stable.html torch==1.12.1+cu113\n", CU113),
        ("requirements.txt", f"torch==1.12.1+cu113 -f {WHEELS}/torch_stable.html\n", CU113),
        ("requirements.txt", f"-f {WHEELS}/torch_stable.html\ntorch==1.12.1+cu113\n", CU113),
        (
            PYPROJECT,
            f'[project]\ndependencies = ["torch @ {WHEELS}/torch-2.0.1-cp38-x.whl"]',
            "pyproject.toml: torch==2.0.1",
        ),
        (
            PYPROJECT,
            f'[tool.poetry.dependencies]\ntorch = {{url = "{WHEELS}/torch-2.0.1-cp38-x.whl"}}',
            "pyproject.toml: torch==2.0.1",
        ),
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


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("pytorch", None),
        ("pytorch=1.12", "torch==1.12.*"),
        ("pytorch==1.7.1", "torch==1.7.1"),
        ("pytorch 1.7.1", "torch==1.7.1"),
        ("pytorch 1.12.*", "torch==1.12.*"),
        ("pytorch=1.12*", "torch==1.12.*"),
        ("pytorch=1.7.1=py3.8_cuda11.0", "torch==1.7.1"),
        ("pytorch 1.7.1 py3.8_cuda*", "torch==1.7.1"),
        ("pytorch=*=*cuda*", None),
        ("pytorch=1.12.1=*cuda*", "torch==1.12.1"),
        ("conda-forge::pytorch=1.12", "torch==1.12.*"),
        ("conda-forge/linux-64::pytorch-gpu=1.12", "torch==1.12.*"),
        ("'pytorch >=1.8, <2'  # why", "torch<2,>=1.8"),
        ('"pytorch>=1.8,<1.10|1.12.*"', "torch<1.10,>=1.8, torch==1.12.*"),
        ("pytorch[version='>=1.8,<2',build=*cuda*]", "torch<2,>=1.8"),
        ("pytorch-cuda=11.7", None),
        ("torchvision=0.13", None),
        ("pytorch-lightning=1.9", None),
    ],
)
@pytest.mark.parametrize(
    "name", ["environment.yml", "environment.yaml", "conda.yml", "conda.yaml", "env-gpu.yml", "requirements.yml"]
)
def test_declared_to_conda(project: Write, name: str, entry: str, said: str | None) -> None:
    text = f"name: x\nchannels:\n  - pytorch=0.4\ndependencies:\n  - python=3.8\n\n  - {entry}\nx:\n  - pytorch=0.3\n"
    root = project({name: text, ".git/HEAD": ""})
    assert declared(root).origin == (f"{name}: {said}" if said else ASSUMED)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (
            "dependencies:\n  - pip\n  - pip:\n    - torch==2.1.0 --hash=sha256:0\n    - x\n  - pytorch-x=1\n",
            "environment.yml: torch==2.1.0",
        ),
        ("dependencies:\n- pip:\n  - --find-links x\n  - torch==2.1.0\n- numpy\n", "environment.yml: torch==2.1.0"),
        ("dependencies:\n- pip:\n  - x\n- pytorch=2.1.0\n", "environment.yml: torch==2.1.0.*"),
        ("dependencies: [python=3.8, 'pytorch>=2.0,<2.2']\n", "environment.yml: torch<2.2,>=2.0"),
        ("dependencies:\n- pip: [x, 'torch==2.1.0']\n", "environment.yml: torch==2.1.0"),
        ("dependencies:\n- pip:\n  - -r deps.txt\n", "deps.txt: torch==1.13"),
        ("dependencies:\n- pip: torch\n", ASSUMED),
        ("# torch\n%: - [\n- pytorch=1\n", ASSUMED),
    ],
)
def test_environments_of_conda(project: Write, text: str, origin: str) -> None:
    root = project({"environment.yml": text, "deps.txt": "torch==1.13\n", ".git/HEAD": ""})
    assert declared(root).origin == origin


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "-r needs/base.txt\n"),
        ("requirements.txt", "--requirement=needs/base.txt  # why\n"),
        ("requirements.txt", "torch\n-c needs/base.txt\n"),
        ("requirements.txt", "-r other.txt\n-r https://torch/x.txt\n-r \0\n"),
        ("setup.cfg", "[options]\ninstall_requires = file: needs/base.txt\n"),
        (PYPROJECT, '[tool.setuptools.dynamic]\ndependencies = {file = ["needs/base.txt"]}\n'),
        (PYPROJECT, '[tool.setuptools.dynamic]\ndependencies = {file = "needs/base.txt"}\n'),
        ("setup.py", 'setup(install_requires=open("needs/base.txt").read().splitlines())'),
        ("setup.py", 'with open("needs/base.txt") as f:\n    R = f.read().splitlines()\nsetup(install_requires=R)'),
        ("setup.py", 'R = [x for x in open(os.path.join(HERE, "needs", "base.txt"))]\nsetup(install_requires=R)'),
    ],
)
def test_lists_that_are_included(project: Write, name: str, text: str) -> None:
    other = "-r requirements.txt\n-r needs/../needs/base.txt\n"  # a circle
    root = project({name: text, "needs/base.txt": "torch==1.12.1\n", "other.txt": other, ".git/HEAD": ""})
    assert declared(root).origin == "needs/base.txt: torch==1.12.1"
    assert str(root / "needs" / "base.txt") in reading(root)


def test_what_several_lists_say_is_said_of_all(project: Write) -> None:
    target = declared(project({"requirements.txt": "torch>=1.8\n-c c.txt\n", "c.txt": "torch<2\n", ".git/HEAD": ""}))
    assert target == Target((0, 0, 0), None, "requirements.txt: torch>=1.8; c.txt: torch<2")


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
        ("requirements.txt", "pytorch-lightning\nlightning-bolts\n", "lightning", "requirements.txt: lightning-bolts"),
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


def test_a_list_is_read_once_however_often_it_is_included(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project({"requirements.txt": "-r more.txt\n" * 50, "more.txt": "torch>=2.5\n"})
    paths: list[str] = []

    def counted(path: str, most: int) -> bytes:
        paths.append(path)
        return contents(path, most)

    monkeypatch.setattr("amplint.config.requirement_lists.contents", counted)
    assert declared_in(root) is not None
    assert paths.count(str(root / "more.txt")) == 1


def test_unreadable_file_declares_nothing(project: Write) -> None:
    root = project({"requirements.txt/x": ""})
    assert declared_in(root) is None


@given(st.text(alphabet="^~=<>!*|,. 0123456789x\n-", max_size=12))
def test_no_poetry_version_raises(tmp_path_factory: pytest.TempPathFactory, version: str) -> None:
    directory = tmp_path_factory.mktemp("poetry")
    (directory / "pyproject.toml").write_text(f"[tool.poetry.dependencies]\ntorch = {version!r}\n".replace("\\n", ""))
    found = declared_in(directory)
    assert found is None or isinstance(found, Target)
