"""Configuration that starts from another file, that is for some releases, and that flags give key by key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint import __version__
from amplint.config.selection import SettingsError
from amplint.config.settings import Overrides, Resolver, Settings
from tests.conftest import LEGACY, Ran

Write = Callable[[dict[str, str | bytes]], Path]
Run = Callable[..., Ran]


def resolve(path: Path, said: dict[str, Any] | None = None, **more: Any) -> Settings:
    return Resolver(Overrides(said or {}, **more)).for_file(str(path))


class TestExtend:
    def test_what_it_says_comes_on_top(self, project: Write) -> None:
        root = project(
            {
                "base.toml": 'select = ["AMP1", "AMP2"]\nignore = ["AMP101"]\ndevice = "xpu"\nunsafe-fixes = true\n',
                "a/pyproject.toml": '[tool.amplint]\nextend = "../base.toml"\nignore = ["AMP102"]\ndevice = "cuda"\n',
            }
        )
        found = resolve(root / "a" / "x.py")
        assert {"AMP103", "AMP201"} <= found.codes
        assert not {"AMP101", "AMP102", "AMP301"} & found.codes  # `ignore` adds up, as with flags
        assert (found.device, found.unsafe_fixes) == ("cuda", True)
        # `select` begins anew.
        project({"a/pyproject.toml": '[tool.amplint]\nextend = "../base.toml"\nselect = ["AMP1"]\n'})
        assert {"AMP101", "AMP103"} <= resolve(root / "a" / "x.py").codes
        assert "AMP201" not in resolve(root / "a" / "x.py").codes

    def test_patterns_are_those_of_the_file_that_has_them(self, project: Write) -> None:
        text = '[per-file-ignores]\n"gen/*" = ["ALL"]\n'
        base = f'extend-exclude = ["sub/old"]\nsrc = ["lib"]\n{text}'
        root = project({"base/b.toml": base, "base/gen/y.py": "", "a/amplint.toml": 'extend = "../base/b.toml"\n'})
        found = resolve(root / "a" / "x.py")
        assert found.excludes(str(root / "base" / "sub" / "old"), "old")
        assert not found.excludes(str(root / "a" / "sub" / "old"), "old")
        assert found.src == (str(root / "base" / "lib"),)
        assert "AMP101" in resolve(root / "a" / "gen" / "x.py").codes
        project({"a/amplint.toml": f'extend = "../base/b.toml"\n{text}'})
        assert "AMP101" not in resolve(root / "a" / "gen" / "x.py").codes

    def test_a_chain(self, project: Write, amplint: Run) -> None:
        root = project(
            {
                "one.toml": 'extend = "two.toml"\nselect = ["scaler"]\n',
                "two.toml": 'extend = "three/pyproject.toml"\ndevice = "xpu"\nselect = ["AMP1"]\n',
                "three/pyproject.toml": '[tool.amplint]\ntarget-torch = "2.3"\ndevice = "cpu"\n',
                "amplint.toml": 'extend = "one.toml"\n',
            }
        )
        found = resolve(root / "x.py")
        assert (found.device, found.target_torch, "AMP401" in found.codes) == ("xpu", "2.3", True)
        text = amplint("config", "x.py").out
        chain = "".join(f", which extends {each}" for each in ("one.toml", "two.toml", "three/pyproject.toml"))
        assert text.startswith(f"x.py: amplint.toml{chain}\n")
        rows = {line.split()[0]: line.split()[1] for line in text.splitlines() if ":" in line}
        assert rows["device"] == "two.toml:2"
        assert rows["target-torch"] == "three/pyproject.toml:2"
        assert rows["select"] == "one.toml:2"
        found = json.loads(amplint("config", "x.py", "--output-format=json").out)
        names = ["one.toml", "two.toml", os.path.join("three", "pyproject.toml")]
        assert found["extends"] == [str(root / each) for each in names]

    def test_home_and_a_file_that_is_named(self, project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        root = project({"home/base.toml": 'device = "xpu"\n', "conf/any.toml": 'extend = "~/base.toml"\n'})
        monkeypatch.setenv("HOME", str(root / "home"))
        monkeypatch.setenv("USERPROFILE", str(root / "home"))
        assert resolve(root / "x.py", config="conf/any.toml").device == "xpu"

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            (
                {"a.toml": 'extend = "b.toml"\n', "b.toml": '\nextend = "a.toml"\n'},
                "b.toml:2: 'extend': the files extend each other: a.toml -> b.toml -> a.toml",
            ),
            ({"a.toml": 'extend = "a.toml"\n'}, "a.toml:1: 'extend': the files extend each other: a.toml -> a.toml"),
            ({"a.toml": '\nextend = "gone.toml"\n'}, "a.toml:2: 'extend': gone.toml: No such file or directory"),
            (
                {"a.toml": 'extend = "pyproject.toml"\n', "pyproject.toml": "[project]\n"},
                "a.toml:1: 'extend': pyproject.toml: has no table [tool.amplint]",
            ),
            ({"a.toml": 'extend = "b.toml"\n', "b.toml": "selct = 1\n"}, "b.toml:1: unknown key 'selct'"),
        ],
    )
    def test_what_can_not_be_extended(
        self, project: Write, amplint: Run, files: dict[str, str | bytes], message: str
    ) -> None:
        project({"x.py": LEGACY, **files})
        ran = amplint("--config=a.toml", "x.py")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"amplint: error: {message}")
        assert ran.err.count("\n") == 1

    def test_a_circle_through_links(self, project: Write, amplint: Run) -> None:
        root = project({"x.py": LEGACY, "amplint.toml": 'extend = "here/amplint.toml"\n'})
        (root / "here").symlink_to(root, target_is_directory=True)
        assert "the files extend each other: " in amplint("x.py").err


class TestRequiredVersion:
    @pytest.mark.parametrize("wanted", [__version__, f"=={__version__}", f">={__version__}", "<99", ">=0.0.1,<99"])
    def test_this_release(self, project: Write, wanted: str) -> None:
        root = project({"amplint.toml": f'required-version = "{wanted}"\n'})
        assert resolve(root / "x.py").codes

    @pytest.mark.parametrize("wanted", ["99", ">=99", f"<{__version__}", f"!={__version__}"])
    def test_another_release(self, project: Write, amplint: Run, wanted: str) -> None:
        # What it doesn't know may be known to the release that is wanted.
        project({"x.py": LEGACY, "amplint.toml": f'\nunheard-of = 1\nrequired-version = "{wanted}"\n'})
        said = f"amplint.toml:3: this configuration requires amplint {wanted}; this is {__version__}"
        assert amplint("x.py") == (2, "", f"amplint: error: {said}\n")
        flag = f'required-version = "{wanted}"'
        said = f"--config: this configuration requires amplint {wanted}; this is {__version__}"
        assert amplint("--isolated", "--config", flag, "x.py").err == f"amplint: error: {said}\n"

    def test_of_the_file_that_is_extended(self, project: Write, amplint: Run) -> None:
        project({"x.py": "", "amplint.toml": 'extend = "b.toml"\n', "b.toml": 'required-version = ">=99"\n'})
        assert amplint("x.py").err.startswith("amplint: error: b.toml:1: this configuration requires amplint >=99; ")


class TestKeysAsFlags:
    def test_values(self, project: Write, amplint: Run) -> None:
        root = project({"old.py": LEGACY, "amplint.toml": 'ignore = ["AMP101"]\ndevice = "xpu"\n'})
        assert amplint("old.py").code == 0
        assert amplint("--config", 'select = ["AMP101"]', "old.py").code == 1
        assert (
            amplint("--config", 'select=["AMP101"]', "--config", 'per-file-ignores={"o*"=["ALL"]}', "old.py").code == 0
        )
        assert amplint("--config", "fix=true", "--config", "select=['deprecated']", "old.py").code == 0
        assert "torch.amp.autocast" in (root / "old.py").read_text()

    def test_which_one_prevails(self, project: Write, amplint: Run) -> None:
        project({"conf.toml": 'device = "xpu"\nselect = ["AMP1"]\n[targets]\nlightning = "2.1"\n'})

        def settings(*flags: str) -> dict[str, list[Any]]:
            found: dict[str, list[Any]] = {}
            for row in json.loads(amplint("config", *flags, "--output-format=json").out)["settings"]:
                found.setdefault(row["key"], []).append((row["item"], row["value"], row["origin"]))
            return found

        flags = ("--config", "conf.toml", "--config", 'device = "cpu"', "--config", 'targets.accelerate = "1.2"')
        found = settings(*flags, "--config", 'targets = {transformers = "4.40"}', "--config", 'ignore = ["AMP102"]')
        assert found["device"] == [(None, "cpu", "--config")]
        assert found["select"] == [(None, ["AMP1"], "conf.toml:2")]
        assert found["ignore"] == [(None, ["AMP102"], "--config")]
        said = [(item, value) for item, value, origin in found["targets"] if origin == "--config"]
        assert said == [("accelerate", "1.2"), ("transformers", "4.40")]
        assert settings(*flags, "--device", "cuda")["device"] == [(None, "cuda", "--device")]
        assert settings(*flags, "--config", 'device = "mps"')["device"] == [(None, "mps", "--config")]

    def test_a_file_whose_name_looks_like_a_key(self, project: Write, amplint: Run) -> None:
        project({"a=b.toml": 'ignore = ["AMP101"]\n', "old.py": LEGACY})
        assert amplint("--config", "a=b.toml", "old.py").code == 0

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (
                ["select=AMP4"],
                "--config: 'select=AMP4' is neither a file nor TOML; a string needs quotes: 'select = \"AMP4\"'",
            ),
            (["select=[AMP4]"], "--config: 'select=[AMP4]' is neither a file nor TOML\n"),
            (['select="AMP4"'], "--config: 'select' must be a list of strings"),
            (["selct=[]"], "--config: unknown key 'selct'; did you mean 'select'?"),
            (['device="gpu"'], "--config: 'device' must be one of "),
            (['extend="a.toml"'], "--config: 'extend' works only in a file; `--config FILE` names one"),
            (["gone.toml"], "gone.toml: No such file or directory"),
            ([""], "--config needs the name of a file, or KEY=VALUE"),
            (["a.toml", "b.toml"], "--config names two files, a.toml and b.toml; `extend` in one can name the other"),
        ],
    )
    def test_mistakes(self, project: Write, amplint: Run, flags: list[str], message: str) -> None:
        project({"a.toml": "", "b.toml": ""})
        ran = amplint(*(f"--config={each}" for each in flags))
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.startswith(f"amplint: error: {message}")

    def test_with_isolated(self, project: Write, amplint: Run) -> None:
        project({"old.py": LEGACY, "amplint.toml": 'ignore = ["AMP101"]\n'})
        assert amplint("--isolated", "--config", 'select = ["AMP101"]', "old.py").code == 1
        ran = amplint("--isolated", "--config", "amplint.toml", "old.py")
        assert ran.err == "amplint: error: --config FILE can't be combined with --isolated\n"

    @pytest.mark.parametrize(
        ("device", "meant"), [("gpu", "cuda"), ("CUDA", "cuda"), ("cuda:0", "cuda"), ("nvidia", "cuda"), ("tpu", "xla")]
    )
    def test_other_names_of_devices(self, project: Write, amplint: Run, device: str, meant: str) -> None:
        project({})
        for flags in (["--device", device], ["--config", f'device = "{device}"']):
            assert amplint(*flags).err.endswith(f"; did you mean '{meant}'?\n")


def test_a_broken_base_is_no_other_files_matter(project: Write) -> None:
    root = project({"a/amplint.toml": 'extend = "gone.toml"\n', "amplint.toml": 'device = "cuda"\n'})
    resolver = Resolver(Overrides())
    with pytest.raises(SettingsError, match=r"gone\.toml"):
        resolver.for_file(str(root / "a" / "x.py"))
    assert resolver.for_file(str(root / "x.py")).device == "cuda"
    assert resolver.named == {str(root / "a" / "gone.toml")}
