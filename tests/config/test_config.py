"""The keys of a configuration file: what each does, what is said of mistakes, and what `amplint config` tells."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from amplint import check, fix
from amplint.config import schema
from amplint.config.defaults import DEFAULT_EXCLUDE
from amplint.config.keys import KEYS
from amplint.config.selection import SettingsError, enabled_codes
from amplint.config.settings import Overrides, Resolver, Settings
from amplint.config.toml_lines import parse_toml
from amplint.engine.file import check_bytes, fix_bytes
from amplint.registry import all_rules
from tests.conftest import LEGACY, MODERN, UNSAFE, Ran, processor_time

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]

SCHEMA = Path(schema.__file__).with_name("schema.json")
CONCISE = ("--output-format=concise", "--quiet")
BARE = """\
import torch


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler()
    for x in batches:
        with torch.autocast(enabled=True):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
# A value of each key, and one that it doesn't take, with what is said of that.
VALUES: dict[str, tuple[str, str, str]] = {
    "select": ('["AMP4", "ALL"]', '["AMP4O1"]', "unknown rule 'AMP4O1'; the nearest is AMP401"),
    "extend-select": ('["AMP412"]', "[4]", "'extend-select' must be a list of strings"),
    "ignore": ('["AMP"]', '"AMP1"', "'ignore' must be a list of strings"),
    "per-file-ignores": (
        '{"tests/*" = ["AMP1"], "!a.py" = []}',
        '{"x" = ["AMP9"]}',
        "unknown rule 'AMP9'; the families are AMP0 (internal), AMP1 (deprecated), ",
    ),
    "fixable": (
        '["AMP1", "scaler"]',
        '["deprecated-autocasts"]',
        "unknown rule 'deprecated-autocasts'; did you mean deprecated-autocast (AMP101)?",
    ),
    "unfixable": ('["AMP1"]', "true", "'unfixable' must be a list of strings"),
    "unsafe-fixes": ("true", '"yes"', "'unsafe-fixes' must be true or false"),
    "exclude": ('["a", "b/c"]', '[""]', "'exclude' contains an empty string"),
    "suspicions": ("true", "1", "'suspicions' must be true or false"),
    "docs": ("true", "[]", "'docs' must be true or false"),
    "extend-exclude": ('["*.pyi"]', "{}", "'extend-exclude' must be a list of strings"),
    "force-exclude": ("true", "1", "'force-exclude' must be true or false"),
    "target-torch": ('">=2.0,<2.4"', "2.4", "'target-torch' must be a string such as \"2.4\""),
    "targets": ('{lightning = "2.1"}', '{lightening = "2"}', "unknown key 'targets.lightening'; did you mean"),
    "cache-dir": ('"var/kept"', '""', "'cache-dir' must be the name of a folder"),
    "baseline": ('"known.json"', "true", "'baseline' must be the name of a file"),
    "device": ('"xpu"', '"cuda:0"', "'device' must be one of 'cpu', 'cuda', "),
    "src": ('["lib", "../shared"]', '["lib", 1]', "'src' must be a list of strings"),
    "preview": ("true", "1", "'preview' must be true or false"),
    "fix": ("true", '"safe"', "'fix' must be true or false"),
    "show-fixes": ("true", "0", "'show-fixes' must be true or false"),
    "exit-on": (
        '"warning"',
        '"warnings"',
        "'exit-on' must be one of 'error', 'warning', 'note'; did you mean 'warning'?",
    ),
    "extend": ('"other/base.toml"', '""', "'extend' must be the path of a configuration file"),
    "required-version": ('">=0.1,<99"', '"new"', "'required-version' must be a version specifier such as"),
    "output-format": ('"json"', '"jsonl"', "'output-format' must be one of 'full', 'concise', "),
}


def resolve(path: Path, said: dict[str, Any] | None = None, **more: Any) -> Settings:
    return Resolver(Overrides(said or {}, **more)).for_file(str(path))


def codes(ran: Ran) -> list[tuple[str, str]]:
    return [(line.partition(":")[0], line.split(" ")[1]) for line in ran.out.splitlines()]


class TestMistakes:
    def test_each_key_is_tried(self) -> None:
        assert VALUES.keys() == KEYS.keys()

    @pytest.mark.parametrize("key", VALUES)
    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    def test_each_key(self, project: Write, key: str, newline: str) -> None:
        right, wrong, message = VALUES[key]
        text = f"[tool.amplint]{newline}# x{newline}{key} = {right}{newline}"
        root = project({"pyproject.toml": text, "other/base.toml": ""})
        settings = resolve(root / "x.py")
        assert pickle.loads(pickle.dumps(settings)) == settings
        hash(settings)
        root = project({"pyproject.toml": f"[tool.amplint]{newline}# x{newline}{key} = {wrong}{newline}"})
        with pytest.raises(SettingsError) as caught:
            resolve(root / "x.py")
        assert str(caught.value).startswith(f"pyproject.toml:3: {message}")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('\nselct = ["AMP1"]\n', "amplint.toml:2: unknown key 'selct'; did you mean 'select'?"),
            (
                "Per_File_Ignores = {}\n",
                "amplint.toml:1: unknown key 'Per_File_Ignores'; did you mean 'per-file-ignores'?",
            ),
            ('ignore = [\n  "AMP1",\n  "AMP4O1"]\n', "amplint.toml:3: unknown rule 'AMP4O1'; the nearest is AMP401"),
            ('src = [\n  "a",\n\n  ""]\n', "amplint.toml:4: 'src' contains an empty string"),
            (
                '[per-file-ignores]\n"a" = ["AMP1"]\n"b" = [\n "AMP1", "E501"\n]\n',
                "amplint.toml:4: unknown rule 'E501'; codes start with AMP",
            ),
            ('[per-file-ignores]\n"a" = "AMP1"\n', "amplint.toml:2: 'per-file-ignores.a' must be a list of strings"),
            ("per-file-ignores = []\n", "amplint.toml:1: 'per-file-ignores' must be a table of patterns, each with"),
            ('[per-file-ignores]\n"!" = []\n', "amplint.toml:2: 'per-file-ignores' contains an empty pattern"),
            (
                '[targets]\nlightning = "2.1"\ntransformer = "4"\n',
                "amplint.toml:3: unknown key 'targets.transformer'; did you mean 'transformers'?",
            ),
            ("[targets]\nlightning = 2.1\n", "amplint.toml:2: 'targets.lightning' must be a string such as \"2.0\""),
            ('device = "cuda:0"\n', "amplint.toml:1: 'device' must be one of 'cpu', 'cuda', "),
            ('device = "Cuda"\n', "amplint.toml:1: 'device' must be one of 'cpu', 'cuda', "),
            ("device = 0\n", "amplint.toml:1: 'device' must be one of 'cpu', 'cuda', "),
            ('[tool.amplint]\nselect = ["AMP1"]\n', "amplint.toml:1: in an amplint.toml the keys go at the top level"),
            ("target-torch = ''\n", "amplint.toml:1: 'target-torch': '' is neither a release"),
        ],
    )
    def test_the_line_is_named(self, project: Write, text: str, message: str) -> None:
        root = project({"amplint.toml": text})
        with pytest.raises(SettingsError) as caught:
            resolve(root / "x.py")
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)
        assert ("did you mean 'cuda'?" in str(caught.value)) == ("uda" in text)

    def test_the_line_of_the_key_that_is_meant(self, project: Write) -> None:
        text = 'select = "x"\n[tool.other]\nselct = 1\n[tool]\namplint = {selct = 1}\n'
        root = project({"pyproject.toml": text})
        with pytest.raises(SettingsError, match=r"^pyproject.toml:5: unknown key 'selct'"):
            resolve(root / "x.py")

    def test_what_is_said_can_be_printed(self, project: Write, amplint: Run) -> None:
        project({"amplint.toml": '"a\\u001b[2J" = 1\n', "old.py": LEGACY})
        for arguments in ([], ["config"]):
            ran = amplint(*arguments)
            assert (ran.code, ran.out) == (2, "")
            assert ran.err == "amplint: error: amplint.toml:1: unknown key 'a\\x1b[2J'\n"


class TestWhichFileHolds:
    def test_the_nearest_alone(self, project: Write) -> None:
        root = project(
            {
                "pyproject.toml": '[tool.amplint]\nignore = ["AMP1"]\ndevice = "cuda"\n',
                "a/pyproject.toml": '[project]\nname = "a"\n',
                "a/b/amplint.toml": 'ignore = ["AMP2"]\n',
                "a/b/pyproject.toml": "[tool.amplint]\nselect = []\n",
            }
        )
        assert resolve(root / "a" / "x.py") == resolve(root / "x.py")
        inner = resolve(root / "a" / "b" / "c" / "x.py")
        assert {"AMP101", "AMP401"} <= inner.codes
        assert "AMP201" not in inner.codes
        assert inner.device is None

    def test_one_that_is_named(self, project: Write, amplint: Run) -> None:
        project(
            {
                "a/old.py": LEGACY,
                "a/amplint.toml": "unknown = 1\n",
                "conf/any.toml": 'ignore = ["AMP101"]\nextend-exclude = ["../a/x.py", "b/"]\n',
                "conf/b/x.py": LEGACY,
                "conf/pyproject.toml": "[tool.other]\n",
                "conf/here/pyproject.toml": "[tool.amplint]\nselect = ['AMP101']\n",
            }
        )
        assert amplint("a").code == 2
        assert amplint("a", "--config", "conf/any.toml").code == 0
        assert amplint("a", "conf", "--config=conf/any.toml", "--select=AMP101", *CONCISE).out.count("\n") == 1
        assert amplint("a", "--config=conf/here/pyproject.toml").code == 1
        for name, message in (
            ("conf/pyproject.toml", "conf/pyproject.toml: has no table [tool.amplint]"),
            ("gone.toml", "gone.toml: No such file or directory"),
            ("conf", "conf: Is a directory"),
            ("", "--config needs the name of a file, or KEY=VALUE"),
        ):
            assert amplint("a", "--config", name) == (2, "", f"amplint: error: {message}\n")
        ran = amplint("a", "--config=conf/any.toml", "--isolated")
        assert ran.err == "amplint: error: --config FILE can't be combined with --isolated\n"

    def test_a_file_deep_below(self, project: Write) -> None:
        root = project({"pyproject.toml": "[tool.amplint]\nignore = ['AMP1']\n"})
        assert "AMP101" not in resolve(root / "/".join(["d"] * 1900) / "x.py").codes

    @pytest.mark.parametrize("name", ["amplint.toml", "pyproject.toml"])
    def test_what_is_no_file(self, project: Write, amplint: Run, name: str) -> None:
        root = project({"old.py": LEGACY, "deep/old.py": LEGACY})
        (root / "deep" / name).mkdir()
        assert codes(amplint("deep", *CONCISE)) == [("deep/old.py", "AMP101")]
        (root / "deep" / name).rmdir()
        (root / "deep" / name).symlink_to("nowhere")
        assert codes(amplint("deep", *CONCISE)) == [("deep/old.py", "AMP101")]
        (root / "deep" / name).unlink()
        (root / "deep" / name).symlink_to(name)
        ran = amplint(*CONCISE)
        assert (ran.code, ran.err) == (2, f"amplint: error: deep/{name}: Too many levels of symbolic links\n")
        assert codes(ran) == [("old.py", "AMP101")]
        (root / "deep" / name).unlink()
        os.mkfifo(root / "deep" / name)
        ran = amplint(*CONCISE)
        assert (ran.code, ran.err) == (2, f"amplint: error: deep/{name}: is a pipe or a device, not a file\n")
        ran = amplint("old.py", "--config", f"deep/{name}")
        assert (ran.code, ran.out) == (2, "")
        assert amplint("config", "deep/old.py").err == ran.err

    def test_a_key_of_a_million_parts(self, project: Write, amplint: Run) -> None:
        project({"amplint.toml": "a." * 500_000 + "a = 1\n", "old.py": LEGACY})
        with processor_time(at_most=60):
            ran = amplint()
        assert ran.err == "amplint: error: amplint.toml: not valid TOML: a key has more than a hundred parts\n"


class TestPerFileIgnores:
    FILES = ("a.py", "tests/a.py", "tests/deep/b.py", "src/tests/a.py", "src/x_test.py", "tests.py")

    @pytest.mark.parametrize(
        ("pattern", "named"),
        [
            ("a.py", "a.py tests/a.py src/tests/a.py"),
            ("./a.py", "a.py"),
            ("tests", "tests/a.py tests/deep/b.py src/tests/a.py"),
            ("tests/", "tests/a.py tests/deep/b.py src/tests/a.py"),
            ("tests/*", "tests/a.py tests/deep/b.py"),
            ("tests/**", "tests/a.py tests/deep/b.py"),
            ("./tests", "tests/a.py tests/deep/b.py"),
            ("**/deep/*.py", "tests/deep/b.py"),
            ("*/tests/*", "src/tests/a.py"),
            ("*_test.py", "src/x_test.py"),
            ("test*", "tests/a.py tests/deep/b.py src/tests/a.py tests.py"),
            ("[ab].py", "a.py tests/a.py tests/deep/b.py src/tests/a.py"),
            ("!tests", "a.py src/x_test.py tests.py"),
            ("!src/*", "a.py tests/a.py tests/deep/b.py tests.py"),
            ("nothing", ""),
        ],
    )
    def test_patterns(self, project: Write, amplint: Run, pattern: str, named: str) -> None:
        configuration = f"[tool.amplint.per-file-ignores]\n'{pattern}' = ['AMP101']\n"
        root = project({f"tests/proj/{name}": LEGACY for name in self.FILES})
        project({"tests/proj/pyproject.toml": configuration})
        expected = {*self.FILES} - {*named.split()}
        found = {name for name in self.FILES if "AMP101" in resolve(root / "tests/proj" / name).codes}
        assert found == expected
        # What is above the configuration is no part of the project; a flag's patterns start where one is.
        ran = amplint("tests/proj", *CONCISE)
        assert {file.removeprefix("tests/proj/") for file, _ in codes(ran)} == expected
        os.chdir(root / "tests" / "proj")
        ran = amplint("--isolated", "--per-file-ignores", f"{pattern}:AMP101", *CONCISE)
        assert {file for file, _ in codes(ran)} == expected

    def test_it_takes_away_from_what_is_selected(self, project: Write, amplint: Run) -> None:
        project({"a.py": LEGACY, "b.py": LEGACY, "amplint.toml": "per-file-ignores = {'a.py' = ['AMP1']}\n"})
        assert codes(amplint("--select=AMP101", *CONCISE)) == [("b.py", "AMP101")]
        # What a flag says stands in the place of the file's.
        assert codes(amplint("--per-file-ignores", "b.py:AMP4,AMP101", *CONCISE)) == [("a.py", "AMP101")]
        assert codes(amplint("--per-file-ignores", "a.py:AMP1,b.py:AMP1", *CONCISE)) == []
        assert codes(amplint("--per-file-ignores=a.py:AMP1", "--per-file-ignores=b.py:ALL", *CONCISE)) == []
        assert codes(amplint("-", "--stdin-filename=a.py", *CONCISE)) == []

    def test_several_patterns_add_up(self, project: Write) -> None:
        root = project({"amplint.toml": "[per-file-ignores]\n'*.py' = ['AMP101']\n'a/*' = ['AMP102', 'AMP000']\n"})
        assert not {"AMP101", "AMP102"} & resolve(root / "a/x.py").codes
        assert resolve(root / "x.py").codes >= {"AMP102", "AMP000"}
        assert "AMP000" in resolve(root / "a/x.py").codes

    @pytest.mark.parametrize("given", ["AMP101", "a.py", "a.py:", ":AMP1", "a.py:AMP4O1"])
    def test_mistakes_in_the_flag(self, project: Write, amplint: Run, given: str) -> None:
        project({"a.py": LEGACY})
        ran = amplint("--per-file-ignores", given)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.startswith(
            "amplint: error: unknown rule 'AMP4O1'" if "O" in given else "amplint: error: --per-file"
        )

    def test_a_comment_for_what_is_ignored_is_not_judged(self, project: Write, amplint: Run) -> None:
        text = MODERN + "x = 1  # noqa: AMP101\n"
        project({"a.py": text, "amplint.toml": "per-file-ignores = {'a.py' = ['AMP101']}\n"})
        assert amplint("--select=ALL").code == 0
        assert amplint("--select=ALL", "--isolated").code == 1

    def test_more_ways_than_can_be_tried(self, project: Write, amplint: Run) -> None:
        pattern = "*a" * 40 + "b"
        project(
            {"amplint.toml": f"[per-file-ignores]\n'{pattern}' = []\n'x/{pattern}' = []\n", f"{'a' * 200}.py": LEGACY}
        )
        assert "AMP101" in amplint(*CONCISE).out


class TestFixes:
    def test_unfixable(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY, "unsafe.py": UNSAFE, "amplint.toml": "unfixable = ['AMP101']\n"})
        ran = amplint("old.py")
        assert (ran.code, "[*]" in ran.out) == (1, False)
        assert "help: no fix: AMP101 is excluded from fixes by `fixable` or `unfixable`" in ran.out
        assert amplint("--fix", "--unsafe-fixes").code == 1
        assert (root / "old.py").read_text() == LEGACY
        assert "GradScaler(device.type)" in (root / "unsafe.py").read_text()
        assert amplint("--fix", "--unfixable=AMP4", "old.py").code == 1  # layers add up
        assert amplint("--fix", "--fixable=AMP1", "old.py").code == 0

    def test_of_two_the_more_specific_prevails(self, project: Write) -> None:
        root = project({"amplint.toml": "fixable = ['AMP401', 'AMP1']\nunfixable = ['AMP4', 'AMP101']\n"})
        left = resolve(root / "x.py").unfixable
        assert left == {*all_rules()} - {"AMP401", *(code for code in all_rules() if code[:4] == "AMP1")} | {"AMP101"}
        assert resolve(root / "x.py", {"fixable": ["ALL"]}).unfixable == frozenset()
        assert resolve(root / "x.py", {"unfixable": ["AMP401"]}).unfixable == left | {"AMP401"}

    def test_a_fix_that_is_anothers_as_well(self) -> None:
        text = "from torch.cuda.amp import GradScaler, autocast\n\nscaler = GradScaler()\nwith autocast():\n    pass\n"
        settings = Settings(enabled_codes([]), isolated=True, unfixable=frozenset({"AMP102"}))
        found = check(text, settings=settings)
        assert [(each.code, each.fix, each.withheld) for each in found] == [
            (code, None, "AMP102 is excluded from fixes by `fixable` or `unfixable`") for code in ("AMP102", "AMP101")
        ]
        assert fix(text, settings=settings) == text

    def test_advice_stays(self) -> None:
        settings = Settings(frozenset(all_rules()), isolated=True)
        text = "from apex import amp\n\nmodel, optimizer = amp.initialize(model, optimizer, opt_level='O1')\n"
        before = [each.fix for each in check(text, settings=settings) if each.fix and not each.fix.edits]
        settings = settings._replace(unfixable=settings.codes)
        assert [each.fix for each in check(text, settings=settings) if each.fix] == before
        assert before

    def test_unsafe_fixes_by_folder(self, project: Write, amplint: Run) -> None:
        root = project({"a/x.py": UNSAFE, "b/x.py": UNSAFE, "a/amplint.toml": "unsafe-fixes = true\n"})
        ran = amplint(*CONCISE)
        assert [line.split(" ")[1:3] for line in ran.out.splitlines()] == [
            ["AMP201", "[*]"],
            ["AMP201", "error:"],
        ]
        assert "1 fixable with `--fix`, 1 more with `--unsafe-fixes`" in amplint().out
        assert "[*]" not in amplint("--no-unsafe-fixes", *CONCISE).out
        assert amplint("--fix", "--no-unsafe-fixes").code == 1
        assert (root / "a/x.py").read_text() == UNSAFE
        assert amplint("--fix").code == 1
        assert "GradScaler(device.type)" in (root / "a/x.py").read_text()
        assert (root / "b/x.py").read_text() == UNSAFE
        settings = resolve(root / "a/x.py")
        assert fix_bytes(UNSAFE.encode(), "x.py", settings).data != UNSAFE.encode()
        assert fix_bytes(UNSAFE.encode(), "x.py", settings, unsafe=False).data == UNSAFE.encode()

    def test_exit_non_zero_on_fix(self, project: Write, amplint: Run) -> None:
        project({"old.py": LEGACY})
        flag = "--exit-non-zero-on-fix"
        assert amplint(flag, "--fix") == (1, "Found 1 warning (1 fixed, 0 remaining).\n", "")
        assert amplint(flag, "--fix").code == 0
        project({"old.py": LEGACY})
        assert amplint(flag, "--fix", "--exit-zero").code == 0


class TestExcludes:
    FILES = ("a/x.py", "b/x.py", "c/y.py", "build/z.py", "venv/v.py")

    def left(self, amplint: Run, *arguments: str) -> set[str]:
        return {file for file, _ in codes(amplint(*CONCISE, *arguments))}

    def test_flags_and_files(self, project: Write, amplint: Run) -> None:
        project(dict.fromkeys(self.FILES, LEGACY))
        assert self.left(amplint) == {"a/x.py", "b/x.py", "c/y.py", "build/z.py"}
        assert self.left(amplint, "--exclude", "a,./b/") == {"c/y.py", "build/z.py", "venv/v.py"}
        assert self.left(amplint, "--extend-exclude=y.py", "--extend-exclude=build") == {"a/x.py", "b/x.py"}
        project({"amplint.toml": "exclude = ['a']\nextend-exclude = ['c/y.py']\n"})
        assert self.left(amplint) == {"b/x.py", "build/z.py", "venv/v.py"}
        assert self.left(amplint, "--exclude=b") == {"a/x.py", "build/z.py", "venv/v.py"}
        assert self.left(amplint, "--extend-exclude=b") == {"build/z.py", "venv/v.py"}
        assert self.left(amplint, "a/x.py", "--exclude=a") == {"a/x.py"}
        assert amplint("--exclude", "").err == "amplint: error: --exclude needs at least one pattern\n"

    def test_a_flags_paths_start_where_one_is(self, project: Write, amplint: Run) -> None:
        root = project(dict.fromkeys(self.FILES, LEGACY) | {"amplint.toml": "extend-exclude = ['b/x.py']\n"})
        os.chdir(root / "build")
        assert self.left(amplint, "..", "--extend-exclude=../a/x.py,./z.py") == {f"{root}/c/y.py"}


class TestDevice:
    def test_only_where_the_file_shows_none(self) -> None:
        def fixed(text: str, device: str | None, unsafe: bool = False) -> str:
            return fix(text, settings=Settings(enabled_codes([]), isolated=True, device=device), unsafe=unsafe)

        assert fixed(BARE, None) == BARE
        cuda = BARE.replace("GradScaler()", 'GradScaler("cuda")').replace("autocast(e", 'autocast("cuda", e')
        assert fixed(BARE, "cuda") == cuda
        assert fixed(BARE, "xpu") == BARE  # unsafe: this file may be another device's
        assert fixed(BARE, "xpu", True) == cuda.replace("cuda", "xpu")
        for shows, text in (
            ("a literal", BARE.replace("autocast(e", 'autocast("mps", e')),
            ("a place", BARE.replace("model(x)", 'model(x.to("mps"))')),
            ("a choice", BARE.replace("model(x)", "model(x.to(pick()))")),
        ):
            assert fixed(text, "cuda", True) == fixed(text, None, True), shows

    def test_as_a_setting(self, project: Write, amplint: Run) -> None:
        root = project({"a.py": BARE, "amplint.toml": 'device = "cuda"\n'})
        assert amplint("--diff", "--device=xpu", "--unsafe-fixes", "-q").out.count('"xpu"') == 2
        assert amplint("--fix", "-q").code == 0
        assert (root / "a.py").read_text().count('"cuda"') == 2
        ran = amplint("--device=cuda:0")
        assert (ran.code, ran.err.count("\n")) == (2, 1)

    def test_where_verify_runs_it(self, project: Write, amplint: Run) -> None:
        pytest.importorskip("torch")
        project({"a.py": BARE.replace("enabled=True", "device"), "amplint.toml": 'device = "xpu"\n'})
        assert "a.py:4 train: " in (out := amplint("verify", "a.py").out)
        assert "(xpu, simulated)" in out
        assert "(cuda, simulated)" in amplint("verify", "--isolated", "a.py").out
        assert "(cpu)" in amplint("verify", "--device=cpu", "a.py").out


class TestSrc:
    FILES = {  # noqa: RUF012
        "pyproject.toml": "[project]\n",
        "scripts/train.py": "import torch\nfrom parts.clips import clip\n\n\n"
        "def step(scaler, optimizer, model, loss):\n"
        "    scaler.scale(loss).backward()\n    clip(model)\n    scaler.step(optimizer)\n    scaler.update()\n",
        "python/parts/__init__.py": "",
        "python/parts/clips.py": "import torch\n\n\ndef clip(model):\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
    }
    FOUND = "scripts/train.py:7:5: AMP401 error: this runs line 5 of ../python/parts/clips.py, where "

    def test_folders(self, project: Write, amplint: Run) -> None:
        root = project(dict(self.FILES))
        assert amplint("scripts", *CONCISE).out == ""
        for value, found in (("['python']", True), ("['.', 'python/']", True), ("['src']", False), ("[]", False)):
            project({"amplint.toml": f"src = {value}\n"})
            assert amplint("scripts", *CONCISE).out.startswith(self.FOUND) == found, value
        project({"amplint.toml": "src = ['python']\n", "scripts/amplint.toml": "src = ['../python']\n"})
        assert amplint("scripts", *CONCISE).out.startswith(self.FOUND)
        (root / "amplint.toml").unlink()
        (root / "scripts/amplint.toml").unlink()
        (root / "python").rename(root / "src")  # where it is looked for by default
        assert "AMP401" in amplint("scripts", *CONCISE).out

    def test_files_of_two_projects_in_one_run(self, project: Write, amplint: Run) -> None:
        files: dict[str, str | bytes] = {}
        for folder in ("one", "two", "three"):
            files |= {f"{folder}/{name}": text for name, text in self.FILES.items()}
        project({**files, "one/amplint.toml": "src = ['python']\n", "three/amplint.toml": "src = ['python']\n"})
        project({"two/amplint.toml": "src = ['elsewhere']\n"})
        found = [line.partition(":")[0] for line in amplint(*CONCISE).out.splitlines()]
        assert found == ["one/scripts/train.py", "three/scripts/train.py"]

    def test_a_link_leads_no_further(self, project: Write, amplint: Run) -> None:
        files = {name.replace("python/", "away/"): text for name, text in self.FILES.items()}
        root = project({**files, "amplint.toml": "src = ['python']\n", "python/x": "", ".git/HEAD": ""})
        (root / "python" / "parts").symlink_to("../away/parts")
        assert amplint("scripts", *CONCISE).out == ""

    def test_verify_finds_them_too(self, project: Write, amplint: Run) -> None:
        pytest.importorskip("torch")
        project({**self.FILES, "amplint.toml": "src = ['python']\n"})
        assert "misbehaves" in amplint("verify", "scripts").out
        assert "misbehaves" not in amplint("verify", "scripts", "--isolated").out


class TestOutputFormat:
    def test_it_is_the_one_of_where_one_is(self, project: Write, amplint: Run) -> None:
        root = project({"a/old.py": LEGACY, "a/amplint.toml": "output-format = 'json'\n", "old.py": LEGACY})
        assert amplint("a").out.startswith("AMP101")
        os.chdir(root / "a")
        assert json.loads(amplint().out)[0]["code"] == "AMP101"
        assert amplint("--output-format=concise").out.startswith("old.py:5:10: AMP101")
        os.chdir(root)
        assert json.loads(amplint("old.py", "--config=a/amplint.toml").out)[0]["code"] == "AMP101"
        project({"amplint.toml": "output-format = 'github'\n"})
        ran = amplint("--statistics")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("amplint: error: --statistics needs --output-format full, concise")

    def test_where_the_configuration_is_broken(self, project: Write, amplint: Run) -> None:
        root = project({"amplint.toml": "x = 1\n", "old.py": LEGACY})
        assert amplint() == (2, "", "amplint: error: amplint.toml:1: unknown key 'x'\n")
        (root / "ok").mkdir()
        project({"ok/amplint.toml": "", "ok/old.py": LEGACY})
        ran = amplint("ok")
        assert (ran.code, ran.err) == (2, "amplint: error: amplint.toml:1: unknown key 'x'\n")
        assert "ok/old.py:5:10" in ran.out


class TestSchema:
    def test_it_is_a_schema(self) -> None:
        jsonschema.Draft7Validator.check_schema(schema.schema())

    @pytest.mark.parametrize("key", VALUES)
    def test_it_says_what_we_say(self, key: str) -> None:
        validator = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text("utf-8")))
        right, wrong, _ = VALUES[key]
        validator.validate(parse_toml(f"{key} = {right}\n"))
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(parse_toml(f"{key} = {wrong}\n"))
        validator.validate({"select": ["AMP", "HSE101", "HSE"]})  # a plugin's

    @pytest.mark.parametrize(
        "text",
        [
            "selct = []",
            "[tool.amplint]",
            "targets.torch = '2.4'",
            "select = ['amp401']",
            "select = ['AMP']\nignore = ['E501']",
        ],
    )
    def test_other_mistakes(self, text: str) -> None:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(parse_toml(text), json.loads(SCHEMA.read_text("utf-8")))

    def test_defaults_are_what_holds(self, project: Write) -> None:
        root = project({})
        said = {key.name: key.default for key in KEYS.values() if key.default is not None}
        jsonschema.validate(said, schema.schema())
        bare, stated = resolve(root / "x.py"), resolve(root / "x.py", said)
        assert stated == bare
        assert {each["description"] for each in schema.schema()["properties"].values()} == {
            key.doc for key in KEYS.values()
        }


class TestCommand:
    def test_where_each_value_comes_from(self, project: Write, amplint: Run) -> None:
        root = project(
            {
                "pyproject.toml": '[project]\ndependencies = ["torch>=2.1,<2.6"]\n\n[tool.amplint]\n'
                'ignore = ["AMP105"]\nextend-select = [\n  "AMP412",\n]\ndevice = "cuda"\n'
                '[tool.amplint.per-file-ignores]\n"src/*" = ["AMP2"]\n"tests" = ["AMP1"]\n'
                '[tool.amplint.targets]\nlightning = "2.1"\n',
                "src/x.py": "",
            }
        )
        ran = amplint("config", "src/x.py", "--ignore=AMP3", "--output-format=json", "--no-unsafe-fixes")
        assert (ran.code, ran.err) == (0, "")
        told = json.loads(ran.out)
        assert (told["file"], told["configuration"]) == (f"{root}/src/x.py", f"{root}/pyproject.toml")
        settings = resolve(root / "src/x.py", {"ignore": ["AMP3"]})
        assert (told["project"], told["project_origin"]) == (str(root), "contains pyproject.toml")
        assert told["rules"] == sorted(settings.codes)
        assert (told["unfixable"], told["excluded"]) == ([], False)
        rows = [(each["key"], each["item"], each["value"], each["origin"], each["holds"]) for each in told["settings"]]
        assert rows == [
            ("select", None, None, "default", True),
            ("extend-select", None, ["AMP412"], "pyproject.toml:6", True),
            ("ignore", None, ["AMP105"], "pyproject.toml:5", True),
            ("ignore", None, ["AMP3"], "--ignore", True),
            ("per-file-ignores", "src/*", ["AMP2"], "pyproject.toml:11", True),
            ("per-file-ignores", "tests", ["AMP1"], "pyproject.toml:12", False),
            ("fixable", None, ["ALL"], "default", True),
            ("unfixable", None, [], "default", True),
            ("preview", None, False, "default", True),
            ("fix", None, False, "default", True),
            ("show-fixes", None, False, "default", True),
            ("unsafe-fixes", None, False, "--no-unsafe-fixes", True),
            ("suspicions", None, False, "default", True),
            ("docs", None, False, "default", True),
            ("exclude", None, list(DEFAULT_EXCLUDE), "default", True),
            ("extend-exclude", None, [], "default", True),
            ("force-exclude", None, False, "default", True),
            ("target-torch", None, ">=2.1.0,<=2.5.2", "pyproject.toml: torch<2.6,>=2.1", True),
            ("targets", "lightning", "2.1", "pyproject.toml:14", True),
            ("targets", "transformers", ">=5.0.0", "nothing declared: 5.0 assumed", True),
            ("targets", "accelerate", ">=1.0.0", "nothing declared: 1.0 assumed", True),
            ("device", None, "cuda", "pyproject.toml:9", True),
            ("src", None, [".", "src"], "default", True),
            ("cache-dir", None, None, "default", True),
            ("baseline", None, None, "default", True),
            ("output-format", None, "full", "default", True),
            ("exit-on", None, "note", "default", True),
            ("extend", None, None, "default", True),
            ("required-version", None, None, "default", True),
        ]
        text = amplint("config", "src/x.py", "--ignore=AMP3", "--no-unsafe-fixes").out
        assert text.startswith("src/x.py: pyproject.toml\n")
        for _, item, _, origin, holds in rows:
            assert origin + " (not this file)" * (not holds) in text
            assert item is None or json.dumps(item) in text
        assert f"{len(settings.codes)} of {len(all_rules())}" in text

    def test_what_prevails(self, project: Write, amplint: Run) -> None:
        project({"amplint.toml": "select = ['AMP1']\nignore = ['AMP101']\nexclude = ['a']\nunfixable = ['AMP1']\n"})

        def rows(*arguments: str) -> dict[str, list[tuple[object, str]]]:
            found: dict[str, list[tuple[object, str]]] = {}
            for each in json.loads(amplint("config", "--output-format=json", *arguments).out)["settings"]:
                found.setdefault(each["key"], []).append((each["value"], each["origin"]))
            return found

        assert rows()["ignore"] == [(["AMP101"], "amplint.toml:2")]
        flags = rows("--select=AMP4", "--exclude=b", "--fixable=ALL", "--unfixable=AMP2", "--per-file-ignores=a:AMP1")
        assert flags["select"] == [(["AMP4"], "--select")]
        assert flags["ignore"] == [([], "default")]
        assert flags["exclude"] == [(["b"], "--exclude")]
        assert flags["unfixable"] == [(["AMP2"], "--unfixable")]
        assert flags["per-file-ignores"] == [(["AMP1"], "--per-file-ignores")]
        assert rows("--isolated")["select"] == [(None, "default")]

    def test_directories_and_what_is_left_out(self, project: Write, amplint: Run) -> None:
        project({"a/amplint.toml": "exclude = ['x.py']\n", "a/x.py": "", "venv/y.py": ""})
        marked = "Its project: a (contains amplint.toml).\n"
        assert amplint("config", "a").out.startswith(f"a: a/amplint.toml\n{marked}select ")
        left_out = "It is excluded, unless it is named on the command line.\n"
        assert amplint("config", "a/x.py").out.startswith(f"a/x.py: a/amplint.toml\n{marked}{left_out}")
        none = amplint("config", "venv/y.py").out.splitlines()
        assert none[0] == "venv/y.py: no configuration file"
        assert none[1].startswith("Its project: . (the working directory; no pyproject.toml, ")
        assert none[2] == left_out.strip()
        project({"amplint.toml": "extend-exclude = ['a']\n", "a/z.py": ""})
        assert amplint("config", "a/z.py").out.startswith(f"a/z.py: a/amplint.toml\n{marked}{left_out}")
        assert amplint("config", "gone/z.py").code == 0

    def test_what_would_act_on_the_terminal(self, project: Write, amplint: Run) -> None:
        name = "a\n\x1b[2J\u202e"
        text = "per-file-ignores = {'ü\u202e' = ['AMP1']}\nextend-exclude = ['\u202e', 'é']\n"
        project({f"{name}/amplint.toml": text, f"{name}/x.py": ""})
        out = amplint("config", f"{name}/x.py").out
        assert all(line.isprintable() for line in out.split("\n"))
        assert out.startswith(r"a\n\x1b[2J\u202e/x.py: a\n\x1b[2J\u202e/amplint.toml")
        assert r'per-file-ignores."ü\u202e"' in out
        assert r'["\u202e", "é"]' in out

    def test_schema(self, project: Write, amplint: Run) -> None:
        project({"amplint.toml": "broken"})
        assert amplint("config", "--schema") == (0, SCHEMA.read_text("utf-8"), "")

    def test_mistakes(self, project: Write, amplint: Run) -> None:
        project({"amplint.toml": "\nselct = 1\n"})
        message = "amplint: error: amplint.toml:2: unknown key 'selct'; did you mean 'select'?\n"
        assert amplint("config", "x.py") == (2, "", message)
        assert amplint("config", "--isolated", "--select=AMP9").code == 2
        assert amplint("config", "a", "b").err == "amplint: error: unknown argument 'b'\n"

    def test_it_imports_no_torch_and_no_libcst(self, project: Write) -> None:
        project({"amplint.toml": "device = 'cuda'\n"})
        code = "import sys; from amplint.cli import main; main(['config']); print({'torch', 'libcst'} & {*sys.modules})"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert out.endswith("\nset()\n")


def test_a_host_asks_for_a_file(project: Write) -> None:
    root = project({"a/amplint.toml": "per-file-ignores = {'x.py' = ['AMP101']}\n"})
    resolver = Resolver(Overrides())
    for name, found in (("a/x.py", []), ("a/y.py", ["AMP101"]), ("x.py", ["AMP101"])):
        path = str(root / name)
        result = check_bytes(LEGACY.encode(), path, resolver.for_file(path))
        assert [each.code for each in result.findings] == found
