"""The plugin in the real flake8, against our own report: started as a user does where that is the question."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from flake8.main.cli import main

from tests.conftest import LEGACY, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

ASTRAL = """\
import torch

print("世界 é 😀"); context = torch.cuda.amp.autocast()  # ü
def f():
\tprint("é"); return torch.cuda.amp.GradScaler(
        enabled=True,  # ß
    )
"""


def started(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    """What a flake8 of its own returns and prints."""
    command = [sys.executable, "-m", "flake8", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)
    return done.returncode, done.stdout, done.stderr


def here(*arguments: str) -> tuple[int, str, str]:
    """What flake8 returns and prints in this process, which it need not be loaded for again."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()  # flake8 writes bytes
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["--jobs=1", *arguments])
        out.flush()
    out.seek(0)
    return code, out.read(), err.getvalue()


def flake8(*arguments: str, run: Callable[..., tuple[int, str, str]] = here) -> list[str]:
    """The lines that flake8 prints, with nothing configured."""
    code, out, err = run("--isolated", "--select=AMP", *arguments)
    assert err == ""
    assert code == bool(out)
    return out.splitlines()


def as_flake8(ran: Ran) -> list[str]:
    """The lines of amplint's own, without what flake8 has no word for."""
    return re.sub(r"(: AMP\d+ )(?:\[\*\] )?(?:error|warning|note): ", r"\1", ran.out).splitlines()


@pytest.mark.parametrize(
    "content",
    [
        LEGACY,
        ASTRAL,
        ASTRAL.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + ASTRAL.encode(),
        b"# -*- coding: latin-1 -*-\n" + "é = 'ü'; import torch; torch.cuda.amp.autocast()\n".encode("latin-1"),
        LEGACY.rstrip("\n"),
        "x = 1\x0c\n\x0c\n" + LEGACY,
    ],
    ids=["plain", "astral", "crlf", "bom", "latin-1", "no newline at the end", "form feed"],
)
def test_same_findings_at_the_same_places(project: Write, amplint: Run, content: str | bytes) -> None:
    project({"x.py": content})
    ours = as_flake8(amplint("x.py", "--output-format=concise", "--quiet"))
    assert ours
    assert flake8("x.py") == ours


def test_a_flake8_of_its_own_says_the_same(project: Write) -> None:
    project({"x.py": ASTRAL, "y.py": LEGACY, "tests/z.py": LEGACY, "amplint.toml": "extend-select = ['AMP412']\n"})
    arguments = ("--per-file-ignores=y.py:AMP101", ".")
    assert flake8(*arguments, run=started) == flake8(*arguments)
    assert len(flake8(*arguments)) == 3


def test_standard_input(project: Write) -> None:
    project({})
    (line,) = flake8("--stdin-display-name", "shown.py", "-", run=partial(started, stdin=LEGACY))
    assert line.startswith("shown.py:5:10: AMP101 ")


def test_a_plain_flake8_reports_it_too(project: Write) -> None:
    project({"x.py": LEGACY})
    done = subprocess.run(
        [sys.executable, "-m", "flake8", "--isolated", "x.py"], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("x.py:5:10: AMP101 ")
    version = subprocess.run([sys.executable, "-m", "flake8", "--version"], capture_output=True, text=True, check=True)
    assert "amplint: 0.1.0" in version.stdout


CALL = "r = torch.cuda.amp.autocast()"


def test_noqa_and_ignores_are_flake8s(project: Write) -> None:
    lines = f"{CALL}  # noqa\n{CALL}  # noqa: AMP101\n{CALL}  # noqa: E501\n"
    project({"a.py": f"import torch\n{lines}", "b.py": LEGACY, "c.py": f"# flake8: noqa\n{LEGACY}"})
    assert [line.split(" ")[0] for line in flake8("--per-file-ignores=b.py:AMP101", ".")] == ["./a.py:4:5:"]
    assert [line.split(" ")[1] for line in flake8("--disable-noqa", "a.py")] == ["AMP101"] * 3


def test_our_own_comments_hold_in_flake8(project: Write) -> None:
    project(
        {
            "own.py": f"import torch\n{CALL}  # amplint: ignore[AMP101] it must stay\n{CALL}\n",
            "off.py": f"# amplint: ignore-file\nimport torch\n{CALL}\n",
            "some.py": f"# amplint: ignore-file[AMP101]\nimport torch\n{CALL}\n",
        }
    )
    for arguments in ([], ["--disable-noqa"]):
        assert [line.split(" ")[0] for line in flake8(*arguments, ".")] == ["./own.py:3:5:"]


def test_suppressions_that_do_nothing_are_found_as_by_the_command(project: Write, amplint: Run) -> None:
    project(
        {
            "a.py": f"import torch\n{CALL}  # noqa: AMP101\nx = 1  # noqa: AMP101\n",
            "b.py": f"import torch\ny = 1  # amplint: ignore[AMP102]\n{CALL}  # noqa: AMP101,AMP401\n",
            "c.py": "z = 1  # noqa\nz = 2  # noqa: E501\n",
        }
    )
    ours = as_flake8(amplint("--output-format=concise", "--quiet"))
    assert [line.split(" ")[:2] for line in ours] == [
        ["a.py:3:8:", "AMP002"],
        ["b.py:2:8:", "AMP002"],
        ["b.py:3:32:", "AMP002"],
    ]
    assert flake8("a.py", "b.py", "c.py") == ours


def test_syntax_errors_are_left_to_flake8(project: Write) -> None:
    call = "torch.cuda.amp.autocast"
    project({"x.py": f"import torch\n{call}(\n", "y.py": f"# coding: none\nimport torch\n{call}()\n"})
    assert flake8("x.py", "y.py") == []
    lines = flake8("--extend-select=E9", "x.py", "y.py")
    assert {(line.partition(":")[0], line.split(" ")[1]) for line in lines} >= {("x.py", "E999")}


def test_target_is_the_projects(project: Write) -> None:
    project({"x.py": LEGACY, "pyproject.toml": "[tool.amplint]\ntarget-torch = '<2.4'\nselect = ['AMP4']\n"})
    assert flake8("x.py") == []
    project({"pyproject.toml": "[tool.amplint]\ntarget-torch = '2.4'\n"})
    assert len(flake8("x.py")) == 1


def test_both_configurations_have_to_agree(project: Write) -> None:
    both = f"{LEGACY}scaler = torch.cuda.amp.GradScaler()\n"
    project({"a.py": both, "tests/b.py": both})

    def found(configuration: str, *arguments: str) -> list[tuple[str, str]]:
        project({"pyproject.toml": f"[tool.amplint]\n{configuration}\n"})
        return [(line.partition(":")[0], line.split(" ")[1]) for line in flake8(*arguments, "a.py", "tests/b.py")]

    here = [("a.py", "AMP101"), ("a.py", "AMP102")]
    there = [("tests/b.py", "AMP101"), ("tests/b.py", "AMP102")]
    assert found("") == here + there
    assert found("ignore = ['AMP101']") == [here[1], there[1]]
    assert found("select = ['AMP101']", "--extend-ignore=AMP102") == [here[0], there[0]]
    assert found("select = ['AMP101']", "--extend-ignore=AMP101") == []
    assert found("per-file-ignores = {tests = ['AMP101']}") == [*here, there[1]]
    ours = "per-file-ignores = {'tests/*' = ['AMP101']}"
    assert found(ours, "--per-file-ignores=a.py:AMP101 tests/b.py:AMP102") == [here[1]]
    # The word ALL, for flake8's prefixes; here it takes in what is off by default.
    assert found("select = ['ALL']") == here + there


def test_what_the_configured_baseline_holds_is_not_reported(project: Write, amplint: Run) -> None:
    root = project({"amplint.toml": 'baseline = "amp.json"\n', "old.py": LEGACY, "new.py": "x = 1\n"})
    (said,) = flake8("old.py")
    assert "AMP000" in said
    assert "amp.json: no such file" in said
    assert amplint("--write-baseline").code == 0
    assert flake8("old.py", "new.py") == []
    (root / "new.py").write_text(LEGACY)
    assert [each.partition(":")[0] for each in flake8("old.py", "new.py")] == ["new.py"]


def test_configuration_that_is_named(project: Write) -> None:
    project(
        {
            "x.py": LEGACY,
            "pyproject.toml": "[tool.amplint]\nignore = ['AMP1']\n",
            "named/amp.toml": "ignore = ['AMP4']\n",
            "setup.cfg": "[flake8]\nselect = AMP\namplint-config = named/amp.toml\n",
        }
    )
    assert flake8("x.py") == []
    (line,) = flake8("--amplint-config=named/amp.toml", "x.py")
    assert "AMP101" in line
    (line,) = flake8("--amplint-config=gone.toml", "x.py")
    assert line == "x.py:1:1: AMP000 gone.toml: No such file or directory"
    done = subprocess.run(
        [sys.executable, "-m", "flake8", "--jobs=2", "x.py", "x.py"], capture_output=True, text=True, check=False
    )
    assert "AMP101" in done.stdout
    assert done.stderr == ""


def test_the_device_and_the_folders_of_a_project(project: Write) -> None:
    step = "def step(scaler, optimizer, model, loss):\n    scaler.scale(loss).backward()\n    clip(model)\n"
    project(
        {
            "lib/parts.py": "import torch\n\n\ndef clip(model):\n"
            "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
            "x.py": f"import torch\nfrom parts import clip\n\n\n{step}    scaler.step(optimizer)\n"
            "    scaler.update()\n",
            "pyproject.toml": "[tool.amplint]\n",
        }
    )
    assert flake8("x.py") == []
    project({"pyproject.toml": "[tool.amplint]\nsrc = ['lib']\n"})
    (line,) = flake8("x.py")
    assert line.startswith("x.py:7:5: AMP401 this runs line 5 of lib/parts.py, where ")


def test_broken_configuration_is_said(project: Write) -> None:
    project({"x.py": LEGACY, "pyproject.toml": "[tool.amplint]\nselct = ['AMP4']\n"})
    assert flake8("x.py") == ["x.py:1:1: AMP000 pyproject.toml:2: unknown key 'selct'; did you mean 'select'?"]


OPT_IN = """\
import torch


def train(model, optimizer, sched, batches):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        with torch.autocast("cuda"):
            loss = model(x.half()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        sched.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ""),
        (["--select=AMP"], ""),
        (["--select=A,E9"], ""),
        (["--ignore=E501"], ""),
        (["--extend-ignore=E501", "--extend-select=AMP"], ""),
        (["--select=AMP412"], "AMP412"),
        (["--select=AMP,AMP412"], "AMP412"),
        (["--select=AMP2", "--extend-select=AMP4"], "AMP209 AMP412"),
        (["--extend-select=AMP209"], "AMP209"),
        (["--ignore=E501", "--extend-select=AMP209"], "AMP209"),
        (["--ignore=AMP4", "--extend-select=AMP2,AMP412"], "AMP209 AMP412"),
        (["--ignore=AMP412", "--extend-select=AMP4"], ""),
    ],
)
@pytest.mark.parametrize("where", ["arguments", "configuration"])
def test_rules_that_are_off_by_default(project: Write, arguments: list[str], expected: str, where: str) -> None:
    project({"x.py": OPT_IN})
    if where == "configuration":
        project({".flake8": "[flake8]\n" + "".join(f"{each.removeprefix('--')}\n" for each in arguments)})
        arguments = []
    assert opted_in(*arguments) == expected


@pytest.mark.parametrize(
    ("configuration", "arguments", "expected"),
    [
        ("extend-select = ['AMP412']", [], "AMP412"),
        ("extend-select = ['AMP412']", ["--select=AMP"], "AMP412"),
        ("extend-select = ['AMP412']", ["--ignore=E501"], "AMP412"),
        ("extend-select = ['AMP412']", ["--ignore=AMP4"], ""),
        ("select = ['ALL']", ["--select=AMP"], "AMP209 AMP412"),
        ("select = ['AMP4']", ["--extend-select=AMP209"], "AMP412"),
        ("ignore = ['AMP412']", ["--select=AMP412,AMP209"], "AMP209"),
    ],
)
def test_rules_that_amplints_configuration_selects(
    project: Write, configuration: str, arguments: list[str], expected: str
) -> None:
    project({"x.py": OPT_IN, "amplint.toml": configuration})
    assert opted_in(*arguments) == expected


def opted_in(*arguments: str) -> str:
    """The codes of ours that a flake8 with this folder's configuration reports."""
    _, out, err = here(*arguments, "x.py")
    assert err == ""
    return " ".join(sorted(code for line in out.splitlines() if (code := line.split(" ")[1])[:3] == "AMP"))


def test_a_file_without_amp_is_not_parsed(project: Write) -> None:
    project({"x.py": "import torch\n"})
    code = (
        "import ast, sys; from amplint.integrations.flake8 import Plugin\n"
        "assert list(Plugin(ast.parse(''), 'x.py', ['import torch\\n']).run()) == []\n"
        "print('libcst' in sys.modules, 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "False False\n"
