"""What is fixed, what is said about it, and what the exit code follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from tests import ROOT
from tests.conftest import LEGACY, MODERN, UNSAFE, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

SCALER = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\nother = torch.cuda.amp.GradScaler()\n"
LISTED = """\
3 warnings:
- a.py:
    1 \N{MULTIPLICATION SIGN} AMP101 (deprecated-autocast)
- b/c.py:
    2 \N{MULTIPLICATION SIGN} AMP102 (deprecated-grad-scaler)

"""


class TestFixInTheConfiguration:
    def test_it_is_as_the_flag(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY, "amplint.toml": "fix = true\n"})
        assert amplint("--no-fix").code == 1
        assert (root / "old.py").read_text() == LEGACY
        assert amplint("--diff").code == 1
        assert (root / "old.py").read_text() == LEGACY
        assert amplint() == (0, "Found 1 warning (1 fixed, 0 remaining).\n", "")
        assert (root / "old.py").read_text() == MODERN

    def test_it_is_that_of_the_current_folder(self, project: Write, amplint: Run) -> None:
        root = project({"sub/old.py": LEGACY, "sub/amplint.toml": "fix = true\n"})
        assert amplint().code == 1
        assert (root / "sub/old.py").read_text() == LEGACY

    def test_comments_go_before_it(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY, "amplint.toml": "fix = true\n"})
        assert amplint("--add-noqa").out == "Silenced 1 warning by 1 comment in 1 file.\n"
        assert "# noqa: AMP101" in (root / "old.py").read_text()

    def test_verify_needs_it(self, project: Write, amplint: Run) -> None:
        project({"new.py": MODERN})
        assert amplint("--verify").err.startswith("amplint: error: --verify needs --fix, ")
        assert amplint("--verify", "--config", "fix = true").code == 0
        assert amplint("--verify", "--config", "fix = true", "--no-fix").code == 2


class TestShowFixes:
    FILES: ClassVar[dict[str, str | bytes]] = {"a.py": LEGACY, "b/c.py": SCALER, "new.py": MODERN}

    def test_people(self, project: Write, amplint: Run) -> None:
        project(self.FILES)
        ran = amplint("--fix", "--show-fixes")
        assert ran == (0, f"Fixed {LISTED}Found 3 warnings (3 fixed, 0 remaining).\n", "")
        assert amplint("--fix", "--show-fixes") == (0, "All checks passed!\n", "")

    def test_in_the_configuration(self, project: Write, amplint: Run) -> None:
        project({**self.FILES, "amplint.toml": "fix = true\nshow-fixes = true\n"})
        assert "Fixed" not in amplint("--no-show-fixes", "a.py").out
        assert "AMP102 (deprecated-grad-scaler)" in amplint().out

    def test_the_diff(self, project: Write, amplint: Run) -> None:
        project(self.FILES)
        assert amplint("--diff", "--show-fixes").err == f"Would fix {LISTED}Would fix 3 warnings.\n"

    def test_programs(self, project: Write, amplint: Run) -> None:
        project(self.FILES)
        assert amplint("--fix", "--show-fixes", "--output-format=json") == (0, "[]\n", f"Fixed {LISTED}")

    def test_quiet(self, project: Write, amplint: Run) -> None:
        project(self.FILES)
        assert amplint("--fix", "--show-fixes", "--quiet") == (0, "", "")


class TestSeverities:
    FILES: ClassVar[dict[str, str | bytes]] = {"a.py": LEGACY, "b.py": UNSAFE}

    def test_they_are_words(self, project: Write, amplint: Run) -> None:
        project(self.FILES)
        lines = amplint("--output-format=concise").out.splitlines()
        assert lines[0].startswith("a.py:5:10: AMP101 [*] warning: `torch")
        assert lines[1].startswith("b.py:5:14: AMP201 error: `GradScaler`")
        assert lines[2] == "Found 1 error, 1 warning."

    @pytest.mark.parametrize(
        ("flags", "codes"),
        [([], (1, 1)), (["--exit-on=note"], (1, 1)), (["--exit-on=warning"], (1, 1)), (["--exit-on=error"], (0, 1))],
    )
    def test_the_exit_code(self, project: Write, amplint: Run, flags: list[str], codes: tuple[int, int]) -> None:
        project(self.FILES)
        assert (amplint(*flags, "a.py").code, amplint(*flags, "b.py").code) == codes

    def test_notes(self, project: Write, amplint: Run) -> None:
        note = ROOT / "fixtures" / "AMP412_scheduler_ignores_skip" / "before_the_update" / "bad.py"
        project({"a.py": note.read_text("utf-8")})
        flags = ("a.py", "--select=AMP412")
        assert "Found 1 note." in amplint(*flags).out
        assert [amplint(*flags, f"--exit-on={each}").code for each in ("error", "warning", "note")] == [0, 0, 1]

    def test_in_the_configuration(self, project: Write, amplint: Run) -> None:
        project({**self.FILES, "amplint.toml": 'exit-on = "error"\n'})
        assert (amplint("a.py").code, amplint("--exit-on=warning", "a.py").code) == (0, 1)

    def test_what_failed_is_no_finding(self, project: Write, amplint: Run) -> None:
        project({"a.py": LEGACY})
        assert amplint("--exit-on=error", "gone.py", "a.py").code == 2
        project({"a.py": "torch.cuda.amp.autocast(\n"})
        assert amplint("--exit-on=error", "a.py").code == 1
