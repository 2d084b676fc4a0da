"""What is linted and what lies beside it is data: it is not run, not waited for, and doesn't speak to the terminal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplint.base.findings import Applicability, Finding, Fix, Severity
from amplint.engine.result import Result
from amplint.registry import all_rules
from amplint.report import Report, render
from amplint.sources.source import Source
from tests import ROOT
from tests.conftest import LEGACY, MODERN, Ran, processor_time

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

FOUND = "AMP101 [*] warning: `torch.cuda.amp.autocast`"
CONCISE = "--output-format=concise"


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """What is waited for, or tried in all ways there are, is an error and no test that hangs."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def run(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python as a user would, with amplint installed elsewhere."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *(["-m", "amplint"] if code == "-m" else ["-c", code]), *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600)


class TestWhatIsShown:
    NAME = "a\n::error::b\x1b[2J\u202e\r.py"
    SHOWN = r"a\n::error::b\x1b[2J\u202e\r.py"

    @pytest.mark.parametrize("output", ["full", "concise", "github"])
    @pytest.mark.parametrize("name", [NAME, os.fsdecode(b"\xff.py")])
    def test_names(self, project: Write, amplint: Run, output: str, name: str) -> None:
        project({name: LEGACY})
        ran = amplint(f"--output-format={output}", "-q")
        assert all(line.isprintable() for line in ran.out.split("\n"))
        assert not any(line.startswith("::error::") for line in ran.out.split("\n"))
        if output != "github":
            shown = self.SHOWN if name == self.NAME else r"\udcff.py"
            assert f"{shown}:5:10" in ran.out

    def test_names_in_json_are_what_they_are(self, project: Write, amplint: Run) -> None:
        root = project({self.NAME: LEGACY})
        ran = amplint("--output-format=json")
        assert ran.out.isascii()
        assert json.loads(ran.out)[0]["filename"] == f"{root}/{self.NAME}"

    def test_a_name_is_no_command(self, project: Write, amplint: Run) -> None:
        project({"::error::x.py": LEGACY})
        assert amplint(CONCISE, "-q").out.startswith(f"./::error::x.py:5:10: {FOUND}")

    def test_errors_and_warnings(self, project: Write, amplint: Run) -> None:
        project({f"{self.NAME}/x.txt": ""})
        assert amplint(self.NAME).err == f"amplint: warning: no Python files in {self.SHOWN}\n"
        assert amplint(f"x{self.NAME}").err == f"amplint: error: x{self.SHOWN}: no such file or directory\n"
        assert amplint("--\x1b[2J").err == "amplint: error: unknown option --\\x1b[2J; `amplint --help` lists all\n"

    def test_messages(self) -> None:
        fix = Fix(Applicability.DISPLAY, "help\x1b[2J")
        finding = Finding(0, 1, "AMP401", "x", Severity.ERROR, "a\x1b[2J\n::error::b\u2028", fix, "with\x07held")
        report = Report((Result("x.py", Source("x.py", "x"), (finding,)),))
        for output in ("full", "concise", "github"):
            lines = render(output, report).removesuffix("\n").split("\n")
            assert all(line.isprintable() for line in lines)
            assert not any(line.startswith("::error::b") for line in lines)
        assert r"help: by hand: help\x1b[2J" in render("full", report)
        assert r"with\x07held" in render("full", report)

    def test_lines_of_code(self, project: Write, amplint: Run) -> None:
        project({"a.py": LEGACY.replace("():", "():  # \x1b[2J\u202e\u2029\x9b\r").encode()})
        ran = amplint("a.py")
        assert "with torch.cuda.amp.autocast():  # \ufffd[2J\ufffd\ufffd\ufffd\n" in ran.out

    def test_paths_that_start_with_a_dash(self, project: Write, amplint: Run) -> None:
        root = project({"--fix": LEGACY, "-q.py": LEGACY})
        ran = amplint(CONCISE, "--", "--fix", "-q.py")
        assert [line.partition(":")[0] for line in ran.out.splitlines()[:2]] == ["--fix", "-q.py"]
        assert amplint("--fix", "--", "-q.py").code == 0
        assert ((root / "--fix").read_text(), (root / "-q.py").read_text()) == (LEGACY, MODERN)


class TestWhatIsNoFile:
    def test_a_pipe_that_is_named(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY})
        os.mkfifo(root / "a.py")
        ran = amplint("a.py", "old.py", CONCISE, "-q")
        assert (ran.code, ran.err) == (2, "amplint: error: a.py: is a pipe or a device, not a file\n")
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")

    def test_a_pipe_from_a_process_is_no_clean_file(self, project: Write, amplint: Run) -> None:
        """As in `amplint <(git show HEAD:a.py)`."""
        project({})
        source, sink = os.pipe()
        os.write(sink, LEGACY.encode())
        os.close(sink)
        assert amplint(f"/dev/fd/{source}").code == 2
        os.close(source)

    def test_a_device(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY})
        (root / "zero.py").symlink_to("/dev/zero")
        assert amplint("zero.py").err == "amplint: error: zero.py: is a pipe or a device, not a file\n"
        assert amplint(".", CONCISE).out.startswith(f"old.py:5:10: {FOUND}")

    def test_in_a_tree(self, project: Write, amplint: Run) -> None:
        root = project({"a.py/b.py": LEGACY, "deep/x": ""})
        os.mkfifo(root / "fifo.py")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(root / "s.py"))
        (root / "loop.py").symlink_to("loop.py")
        (root / "gone.py").symlink_to("nowhere.py")
        (root / "deep" / "up").symlink_to("..")
        with zipfile.ZipFile(root / "z.py", "w") as archive:
            archive.writestr("../../x.py", LEGACY)
        ran = amplint(CONCISE, "-q", "--fix")
        listening.close()
        assert (ran.code, ran.err) == (1, "")
        assert ran.out.startswith("z.py:1:1: AMP001 error: source code cannot contain null bytes")
        assert (root / "a.py" / "b.py").read_text() == MODERN

    @pytest.mark.parametrize("name", ["requirements.txt", "setup.py", ".gitignore", "helpers.py", ".git/info/exclude"])
    def test_beside_what_is_linted(self, project: Write, amplint: Run, name: str) -> None:
        root = project({"old.py": f"from helpers import NativeScaler\n{LEGACY}", ".git/info/x": ""})
        os.mkfifo(root / name)
        assert amplint(CONCISE, "-q", ".").out.startswith(f"old.py:6:10: {FOUND}")

    def test_configuration(self, project: Write, amplint: Run) -> None:
        root = project({"a/old.py": LEGACY, "b.py": LEGACY})
        os.mkfifo(root / "a/pyproject.toml")
        ran = amplint(CONCISE, "-q")
        assert (ran.code, ran.err) == (2, "amplint: error: a/pyproject.toml: is a pipe or a device, not a file\n")
        assert ran.out.startswith(f"b.py:5:10: {FOUND}")

    def test_deep_directories(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY})
        here = os.open(root, os.O_RDONLY)
        try:
            for _ in range(2500):  # longer than any path may be
                os.mkdir("d")
                os.chdir("d")
        finally:
            os.fchdir(here)
            os.close(here)
        ran = amplint(CONCISE, "-q")
        assert ran.code == 2
        assert ran.err.endswith("File name too long\n")
        assert ran.err.count("\n") == 1
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")
        subprocess.run(["rm", "-rf", root / "d"], check=True)


class TestWhatIsTooMuch:
    def test_a_program(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY})
        with (root / "big.py").open("wb") as file:
            file.truncate(1 << 40)
        ran = amplint(CONCISE, "-q")
        assert (ran.code, ran.err) == (
            2,
            "amplint: error: big.py: not linted: too large, 1,048,576 MiB; the limit is 64 MiB\n",
        )
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")

    def test_configuration(self, project: Write, amplint: Run) -> None:
        project({"a/pyproject.toml": "#" * (1 << 20) + "\n", "a/a.py": LEGACY, "old.py": LEGACY})
        ran = amplint(CONCISE, "-q")
        assert (ran.code, ran.err) == (2, "amplint: error: a/pyproject.toml: has more than 1 MiB\n")
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")

    @pytest.mark.parametrize(
        "text",
        [b"[tool.amplint]\nignore = ['\xff']\n", b"[tool.amplint]\nx = " + b"[" * 100_000, b"amplint = '\0'\n"],
        ids=["encoding", "nesting", "null"],
    )
    def test_broken_configuration_is_one_line(self, project: Write, amplint: Run, text: bytes) -> None:
        project({"pyproject.toml": text, "old.py": LEGACY})
        ran = amplint()
        assert ran.code == 2
        assert ran.err.startswith("amplint: error: pyproject.toml: not valid TOML: ")
        assert ran.err.count("\n") == 1

    @pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "[!b]*" * 40 + "b", "**/a/" * 40 + "b", "?*" * 60 + "b"])
    def test_ignored_in_more_ways_than_can_be_tried(self, project: Write, amplint: Run, pattern: str) -> None:
        deep = "a/" * 60
        project({".git/HEAD": "", ".gitignore": pattern, f"{'a' * 200}.py": MODERN, f"{deep}old.py": LEGACY})
        with processor_time(at_most=60):
            ran = amplint(CONCISE)
        assert f"old.py:5:10: {FOUND}" in ran.out

    def test_excluded_in_more_ways_than_can_be_tried(self, project: Write, amplint: Run) -> None:
        pattern = "*a" * 40 + "b"
        project(
            {"pyproject.toml": f"[tool.amplint]\nexclude = ['{pattern}', 'x/{pattern}']\n", f"{'a' * 200}.py": LEGACY}
        )
        assert FOUND in amplint(CONCISE).out

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            (
                "setup.py",
                "a0 = []\n" + "".join(f"a{n + 1} = a{n} + a{n}\n" for n in range(60)) + "torch(install_requires=a60)",
            ),
            ("setup.py", f"setup(install_requires={' + '.join(['[]'] * 20_000)})  # torch"),
            ("setup.py", f"x{'.torch' * 100_000}()"),
            ("setup.py", f"torch = {'(' * 100_000}"),
            ("setup.cfg", f"[options]\ninstall_requires = torch\na{' ' * 900_000}b\n"),
            ("pyproject.toml", f"[tool.poetry.dependencies]\ntorch = '>=1{' ' * 900_000}1'\n"),
            ("requirements.txt", f"torch{' ' * 900_000}x\ntorch[{'a,' * 400_000}\n"),
            ("requirements.txt", "-r requirements.txt\n" * 40_000),
            ("environment.yml", f"dependencies:\n- pytorch{' ' * 900_000}x\n- pytorch[{'a,' * 10_000}\n"),
            ("environment.yml", f"dependencies: [{'pytorch ,' * 100_000}]\n"),
        ],
        ids=["twice", "sum", "chain", "nested", "section", "poetry", "list", "circle", "environment", "row"],
    )
    def test_requirements(self, project: Write, amplint: Run, name: str, text: str) -> None:
        project({name: text.replace("torch(install", "setup(install") + "\n# torch", "old.py": LEGACY})
        with processor_time(at_most=60):
            ran = amplint("old.py", CONCISE, "-q")
        assert (ran.code, ran.err) == (1, "")
        assert ran.out.startswith(f"old.py:5:10: {FOUND}")


class TestWhatLiesThereIsNotImported:
    NAMES = ("amplint_x", "ast", "argparse", "json", "libcst", "multiprocessing", "pathspec", "sitecustomize", "torch")

    @pytest.fixture
    def there(self, tmp_path: Path) -> Path:
        for name in self.NAMES:
            (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
        for number in range(20):
            (tmp_path / f"old{number}.py").write_text(LEGACY)
        (tmp_path / ".gitignore").write_text("x\n")
        return tmp_path

    def test_by_python_m(self, there: Path) -> None:
        ran = run("-m", "--fix", "--jobs=2", cwd=there)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert (there / "old19.py").read_text() == MODERN
        assert not (there / "ran").exists()

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_by_other_processes(self, there: Path, method: str) -> None:
        (there / "main.py").write_text(
            f"import multiprocessing as m, sys\nfrom amplint.cli import main\nif __name__ == '__main__':\n"
            f"    m.set_start_method({method!r})\n    sys.exit(main(['--fix', '--jobs=2', '.']))\n"
        )
        start = (
            f"import sys, runpy; sys.path.remove(''); runpy.run_path({str(there / 'main.py')!r}, run_name='__main__')"
        )
        ran = run(start, cwd=there)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert (there / "old19.py").read_text() == MODERN
        assert not (there / "ran").exists()

    def test_by_verify(self, there: Path) -> None:
        pytest.importorskip("torch")
        (there / "step.py").write_text(
            "import torch\n\ndef train(model, optimizer, loader):\n    for x in loader:\n"
            '        with torch.autocast("cpu"):\n            loss = model(x).sum()\n'
            "        loss.backward()\n        optimizer.step()\n"
        )
        ran = run("-m", "verify", "step.py", cwd=there)
        assert "step.py:3 train: " in ran.stdout
        assert "did not start" not in ran.stderr
        assert not (there / "ran").exists()


class TestOneFailureIsOneFailure:
    @pytest.fixture(
        params=[ValueError("no"), RecursionError("deep"), MemoryError()], ids=lambda each: type(each).__name__
    )
    def failing(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Exception:
        """A rule that raises: AMP102."""

        def fail(_: object) -> None:
            raise request.param

        monkeypatch.setattr(all_rules()["AMP102"], "run", fail)
        return request.param  # type: ignore[no-any-return]

    TEXT = f"from torch.cuda.amp import GradScaler\n{LEGACY}scaler = GradScaler()\n"

    @pytest.mark.parametrize("flags", [[], ["--exit-zero"], ["--fix"]])
    def test_a_rule(self, project: Write, amplint: Run, failing: Exception, flags: list[str]) -> None:
        root = project({"a.py": self.TEXT, "old.py": LEGACY})
        ran = amplint(CONCISE, "-q", *flags)
        assert ran.code == 2
        lines = ran.out.splitlines()
        assert lines[0].startswith(f"a.py:1:1: AMP000 error: AMP102 failed with {type(failing).__name__}")
        assert lines[0].endswith("with the code that causes it: https://github.com/amplint/amplint/issues)")
        if flags == ["--fix"]:
            assert "torch.cuda.amp.autocast" not in (root / "a.py").read_text()
            assert (root / "old.py").read_text() == MODERN
        else:
            assert lines[1].startswith(f"a.py:6:10: {FOUND}")
            assert lines[2].startswith(f"old.py:5:10: {FOUND}")

    def test_a_rule_in_json_and_in_a_diff(self, project: Write, amplint: Run, failing: Exception) -> None:
        project({"a.py": self.TEXT})
        ran = amplint("--output-format=json")
        assert ran.code == 2
        assert [each["code"] for each in json.loads(ran.out)] == ["AMP000", "AMP101"]
        ran = amplint("--diff", "-q")
        assert (ran.code, ran.err.startswith("amplint: error: AMP102 failed with")) == (2, True)
        assert "+    with torch.amp.autocast" in ran.out

    def test_a_file_in_flake8(self, project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        from amplint.integrations.flake8 import Plugin

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("no\nway")

        project({"a.py": LEGACY})
        monkeypatch.setattr("amplint.integrations.flake8.check_bytes", fail)
        ((row, column, message, _),) = Plugin(compile("", "", "exec", 1024), "a.py", [LEGACY]).run()  # type: ignore[arg-type]
        assert (row, column) == (1, 0)
        assert message.startswith("AMP000 internal error: RuntimeError: no (")

    def test_a_file_in_verify(self, project: Write, amplint: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("torch")
        from amplint.verify.steps.verify import Verifier

        check = Verifier.check

        def fail(self: Verifier, path: str, *rest: object, **more: object) -> object:
            if path == "a.py":
                raise RuntimeError("no")
            return check(self, path, *rest, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(Verifier, "check", fail)
        project({"a.py": LEGACY, "b/b.py": LEGACY, "b/amplint.toml": "x = 1", "c.py": LEGACY})
        ran = amplint("verify", ".")
        assert ran.code == 2
        failed, configuration = ran.err.splitlines()
        assert configuration == "amplint: error: b/amplint.toml:1: unknown key 'x'"
        assert failed.startswith("amplint: error: a.py: internal error: RuntimeError: no (test_security.py:")


@pytest.mark.parametrize(("closed", "code"), [("<&-", 2), (">&-", 1), ("2>&-", 1), ("<&- >&- 2>&-", 2)])
def test_closed_streams(project: Write, closed: str, code: int) -> None:
    project({"old.py": LEGACY})
    path = "-" if "<" in closed else "old.py"
    command = f"{sys.executable} -c 'import sys; from amplint.cli import main; sys.exit(main())' {path} {closed}"
    ran = subprocess.run(
        command, shell=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == code
    assert ran.stderr == ("amplint: error: standard input is closed\n" if closed == "<&-" else "")
    assert (FOUND in ran.stdout) == (closed == "2>&-")
