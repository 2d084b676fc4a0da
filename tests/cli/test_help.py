"""What the commands say of themselves."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.cli.arguments import COMMANDS
from amplint.cli.commands import _COMMANDS
from amplint.cli.completion import PARSERS
from amplint.registry import all_rules, families
from tests.conftest import Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]


def test_each_command_is_listed(project: Write, amplint: Run) -> None:
    project({})
    text = amplint("--help").out
    assert set(COMMANDS) == {*_COMMANDS, "run"} == set(PARSERS)
    for name, what in COMMANDS.items():
        assert f"\n  {name:<12}{what}\n" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_description_and_examples(project: Write, amplint: Run, name: str) -> None:
    project({})
    ran = amplint(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    parser = PARSERS[name]()
    assert parser.description
    assert parser.description.partition("\n")[0] in ran.out
    assert parser.examples
    assert ran.out.endswith("\n\nExamples:\n" + "".join(f"  {each}\n" for each in parser.examples))
    assert max(map(len, ran.out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("name", "example"), [(name, each) for name, make in PARSERS.items() for each in make().examples]
)
def test_each_example_is_one(name: str, example: str) -> None:
    words = shlex.split(
        example.rpartition("| ")[2].partition(" >")[0] if " > " in example else example.rpartition("| ")[2]
    )
    if words[0] == "eval":
        words = words[1].strip("$()").split()
    assert words.pop(0) == "amplint"
    if name != "check":
        assert words.pop(0) == name
    if name == "run":  # what follows the script is the script's
        words = [] if "-m" not in words else words[: words.index("-m")]
    PARSERS[name]().parse_intermixed_args(words)


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_is_a_command(project: Write, amplint: Run, name: str | None) -> None:
    project({})
    named = [] if name is None else [name]
    ran = amplint("help", *named)
    assert ran == amplint(*named, "--help")
    assert ran.code == 0


class TestMistakes:
    @pytest.mark.parametrize("name", ["doctor", "chekc", "nothing"])
    def test_a_path_that_is_there_is_no_mistake(self, project: Write, amplint: Run, name: str) -> None:
        project({f"{name}/a.py": ""})
        assert amplint(name).code == 0
        assert amplint(name, "--help").out.startswith("usage: amplint [check]")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["chekc"], "chekc: no such command, file or directory; did you mean `amplint check`?"),
            (["--quiet", "rule"], "rule: no such file or directory; a command comes first: `amplint rule ...`"),
            (["doctor"], "doctor: no such command, file or directory; did you mean `amplint run`?"),
            (["chekc", "--help"], "chekc: no such command, file or directory; did you mean `amplint check`?"),
            (["nothing"], "nothing: no such command, file or directory; `amplint --help` lists the commands"),
            (["nothing", "--help"], "nothing: no such command, file or directory; `amplint --help` lists the commands"),
            (["nothing", "--fix"], "nothing: no such file or directory"),
            (
                ["baseline", "--help"],
                "baseline: no such command, file or directory; did you mean `amplint --baseline FILE --write-",
            ),
            (["--ignroe=AMP4"], "unknown option --ignroe; did you mean --ignore?"),
            (["--xyzzy"], "unknown option --xyzzy; `amplint --help` lists all"),
            (["config", "--selct", "AMP4"], "unknown option --selct; did you mean --select?"),
            (["config", "--xyzzy"], "unknown option --xyzzy; `amplint config --help` lists all"),
            (["rule", "--all", "AMP401"], "give only one of: rules, --all, --glossary"),
            (["completion", "csh"], "argument SHELL: invalid choice: 'csh'"),
            (["--device", "gpu", "."], "argument --device: 'gpu' is none of cpu, cuda, hpu, "),
            (
                ["verify", "--device", "gpu", "x.py"],
                "argument --device: 'gpu' is none of cpu, cuda, xpu, mps; did you mean 'cuda'?",
            ),
        ],
    )
    def test_one_line(self, project: Write, amplint: Run, arguments: list[str], said: str) -> None:
        project({})
        ran = amplint(*arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.startswith(f"amplint: error: {said}")

    def test_a_file_that_is_named_like_a_command(self, project: Write, amplint: Run) -> None:
        project({"verify/x.py": "", "chekc/x.py": ""})
        assert amplint("--quiet", "verify").code == amplint("chekc").code == 0


class TestRules:
    def test_the_list(self, project: Write, amplint: Run) -> None:
        project({})
        ran = amplint("rule")
        assert (ran.code, ran.err) == (0, "")
        lines = ran.out.splitlines()
        assert "GradScaler (scaler, AMP4)" in lines
        rows = [line.split(maxsplit=2) for line in lines if line.startswith("  AMP")]
        assert [(row[0], row[1]) for row in rows] == [(code, rule.name) for code, rule in all_rules().items()]
        found = {row[0]: row[2].split("  ") for row in rows}
        assert [each.strip() for each in found["AMP401"] if each] == ["error", "safe, unsafe", "on"]
        assert [each.strip() for each in found["AMP209"] if each] == ["note", "-", "off"]

    def test_as_json(self, project: Write, amplint: Run) -> None:
        project({})
        rows = json.loads(amplint("rule", "--output-format=json").out)
        assert [row["code"] for row in rows] == list(all_rules())
        (row,) = (each for each in rows if each["code"] == "AMP412")
        rule = all_rules()["AMP412"]
        assert row == {
            "schema_version": 1,
            "code": "AMP412",
            "name": "scheduler-ignores-skip",
            "family": "scaler",
            "severity": "note",
            "default": False,
            "stage": "stable",
            "fixes": ["unsafe"],
            "formerly": [],
            "summary": rule.summary,
            "plugin": None,
        }

    def test_families(self, project: Write, amplint: Run) -> None:
        project({})
        for name, start in families().items():
            assert amplint("rule", name).out == amplint("rule", start).out
