"""The scripts for shells, in the shells that are installed."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.cli.arguments import COMMANDS
from amplint.cli.completion import commands
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

AMP60 = ["AMP601", "AMP602", "AMP603", "AMP604"]
# The words of a line, of which the last is to be completed, and some of what is offered for it.
OFFERED: list[tuple[list[str], list[str]]] = [
    (["amplint", "ru"], ["rule", "run"]),
    (["amplint", "--output-fo"], ["--output-format"]),
    (["amplint", "--output-format", "js"], ["json", "json-lines"]),
    (["amplint", "--select", "AMP60"], AMP60),
    (["amplint", "--select", "AMP401,AMP60"], [f"AMP401,{each}" for each in AMP60]),
    (["amplint", "check", "--ignore", "clip-w"], ["clip-without-unscale"]),
    (["amplint", "--no-fi"], ["--no-fix"]),
    (["amplint", "rule", "clip-"], ["clip-after-step", "clip-of-used-generator", "clip-without-unscale"]),
    (["amplint", "verify", "--expl"], ["--explain"]),
    (["amplint", "verify", "--device", "cu"], ["cuda"]),
    (["amplint", "config", "--sch"], ["--schema"]),
    (["amplint", "run", "--caref"], ["--careful"]),
    (["amplint", "completion", "z"], ["zsh"]),
    (["amplint", "--baseline", "tra"], ["train.py"]),
    (["amplint", "tra"], ["train.py"]),
    (["amplint", "run", "tra"], ["train.py"]),
]
BASH = """\
eval "$(cat amplint.bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_amplint
# Where the function is silent, bash completes names of files.
if (( ${#COMPREPLY[@]} == 0 )); then COMPREPLY=( $(compgen -f -- "${COMP_WORDS[COMP_CWORD]}") ); fi
printf '%s\\n' "${COMPREPLY[@]}"
"""


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def scripts(project: Write, amplint: Run) -> Path:
    """A folder with the script for each shell."""
    root = project({"train.py": "", "other.txt": ""})
    for shell in ("bash", "fish", "zsh"):
        ran = amplint("completion", shell)
        assert (ran.code, ran.err) == (0, "")
        (root / f"amplint.{shell}").write_text(ran.out)
    return root


@pytest.mark.parametrize("shell", [pytest.param(each, marks=needs(each)) for each in ("bash", "fish", "zsh")])
def test_the_shell_can_read_it(scripts: Path, shell: str) -> None:
    subprocess.run([shell, "-n", f"amplint.{shell}"], cwd=scripts, check=True)


@needs("bash")
@pytest.mark.parametrize(("words", "offered"), OFFERED)
def test_bash(scripts: Path, words: list[str], offered: list[str]) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", *words], cwd=scripts, capture_output=True, text=True, check=True
    )
    assert (sorted(done.stdout.split()), done.stderr) == (offered, "")


@needs("bash")
def test_bash_takes_an_equals_sign_for_a_word(scripts: Path) -> None:
    for words, offered in (["--output-format", "=", "sar"], ["sarif"]), (["--device", "="], ["cpu", "cuda"]):
        done = subprocess.run(
            ["bash", "--norc", "-c", BASH, "bash", "amplint", *words],
            cwd=scripts,
            capture_output=True,
            text=True,
            check=True,
        )
        assert sorted(done.stdout.split())[:2] == offered


@needs("fish")
@pytest.mark.parametrize(("words", "offered"), OFFERED)
def test_fish(scripts: Path, words: list[str], offered: list[str]) -> None:
    code = f"source amplint.fish; complete -C '{' '.join(words)}'"
    done = subprocess.run(["fish", "--no-config", "-c", code], cwd=scripts, capture_output=True, text=True, check=True)
    assert sorted(line.partition("\t")[0] for line in done.stdout.splitlines()) == offered


@needs("zsh")
def test_zsh(scripts: Path) -> None:
    """What Tab makes of a line in a terminal, where only one thing can be meant."""
    import pty

    process, terminal = pty.fork()
    if process == 0:
        os.chdir(scripts)
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb"})

    def read(until: str = "") -> str:
        text = ""
        while select.select([terminal], [], [], 30 if until and until not in text else 1)[0]:
            text += os.read(terminal, 1 << 16).decode("utf-8", "replace")
        return text

    try:
        start = "PS1='> '; autoload -U compinit; compinit -u -d dump; source amplint.zsh; echo rea''dy\n"
        os.write(terminal, start.encode())
        assert "ready" in read("ready")
        for words, offered in OFFERED:
            if len(offered) == 1:
                line = " ".join(words)
                os.write(terminal, f"{line}\t".encode())
                completed = read(offered[0])
                assert completed.rstrip().rstrip("=") == f"{line.rpartition(' ')[0]} {offered[0]}", line
                os.write(terminal, b"\x15")
                read()
    finally:
        os.write(terminal, b"\x15exit\n")
        os.waitpid(process, 0)
        os.close(terminal)


def test_each_option_is_offered() -> None:
    known = {command.name: command for command in commands()}
    assert list(known) == list(COMMANDS)
    options = {name: each for command in known.values() for each in command.options for name in each.names}
    assert {"--help", "-h", "--select", "--no-fix", "-o", "--schema", "--guide", "--timeout", "--stop"} <= set(options)
    assert all(each.help for each in options.values())
