"""Tests of rules by fixtures: programs that show what a rule finds, what its fix changes, and what it doesn't report.

The folder of fixtures has one folder per rule, named like the rule's module: `ABC101_its_name/`. It contains:

- `<variant>/bad.py` misbehaves. Its first line says how, and a comment marks each line that the rule reports. amplint
  must report no other line:

      # amplint-fixture: fix=safe shows=exception
      ...
      scaler.update()  # expect: ABC101

- `<variant>/fixed.py` is the fixed program, without the line `# amplint-fixture:` and the `# expect:` comments. With
  `fix=safe` it is the result of `--fix`, with `unsafe` the result of `--fix --unsafe-fixes`; with `hand` amplint offers
  no fix, and this is how a person would write it. The rule finds nothing in it.
- `silent/*.py` are correct programs in which amplint finds nothing.

If a variant needs several files, `bad/` and `fixed/` are folders, and `main.py` is run. A `requirements.txt` in a
rule's folder says which releases of torch the project admits. An `amplint.toml` there says which rules to `ignore`:
those whose findings would replace the rule's own. `shows` names the observable in which `amplint verify --run` finds
the bad half wrong and the fixed half right: exception, warning, gradient, update, learning, autocast-state, dtype,
skips or scale. `shows=none` means that the fixture is not executed; the section "Proof" of the rule's documentation has
to say why, with the words `shows=none`. `device=cuda` uses CUDA, simulated if it is missing; `device=cpu` uses the CPU
even if `--device` names another device. `confidence=likely` and `confidence=suspicion` say how sure the rule's findings
are; without it they are certain or likely. With `confidence=suspicion` the test enables suspicions.

With pytest, one class tests all of it:

    from amplint.testing import FixtureTests

    class TestRules(FixtureTests):
        folder = Path(__file__).parent / "fixtures"

The package with the rules has to be installed: `pip install -e .`. Without pytest, `find_variants` and `find_silent`
return objects with methods `check_...`, which raise AssertionError.
"""

from __future__ import annotations

import ast
import atexit
import difflib
import os
import re
from collections import Counter
from contextlib import ExitStack
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from amplint.base.findings import Applicability, Confidence
from amplint.base.paths import look_again
from amplint.config.settings import Settings
from amplint.config.toml_lines import parse_toml
from amplint.engine.file import check_bytes, fix_bytes
from amplint.engine.result import FixResult, Result
from amplint.registry import all_rules, known
from amplint.verify.fixtures.find import CPU, DEVICES, find_fixtures
from amplint.verify.fixtures.proof import CONFIRMED, NOT_EXECUTED, SHOWS

if TYPE_CHECKING:
    from amplint.base.findings import Finding
    from amplint.registry.rule import Rule
    from amplint.verify.fixtures.find import Fixture
    from amplint.verify.fixtures.run import Row, Runner

__all__ = ["FixtureTests", "Silent", "Variant", "expected_in", "find_silent", "find_variants"]

_MARKER = re.compile(r"# amplint-fixture:((?: \w+=[\w-]+)+)\n")
_EXPECT = re.compile(r"[ \t]*# expect: ([A-Z]{3}\d{3}(?:, [A-Z]{3}\d{3})*)[ \t]*$", re.MULTILINE)
_CODE = re.compile(r"[A-Z]{3}\d{3}(?=_)")
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

_Found = Counter[tuple[str, int, str]]  # file, line, code


class Variant(NamedTuple):
    """One variant of a rule: a program, or a folder of one, before and after the fix."""

    code: str
    name: str
    bad: Path
    fixed: Path

    @property
    def marker(self) -> dict[str, str]:
        """What the first line of the bad half says: fix, shows, maybe device."""
        first = min(self.bad.glob("*.py")) if self.bad.is_dir() else self.bad
        found = _MARKER.match(first.read_text("utf-8"))
        _require(found is not None, f"{first}: the first line is not a marker `# amplint-fixture: fix=... shows=...`")
        assert found is not None
        return dict(each.split("=") for each in found[1].split())

    @property
    def settings(self) -> Settings:
        """The settings with which it is linted."""
        asked = self.marker.get("confidence") == Confidence.SUSPICION.value
        return settings_for(self.code, self.bad)._replace(suspicions=asked)

    def files(self) -> list[tuple[Path, Path]]:
        """Its files, before and after."""
        if not self.bad.is_dir():
            return [(self.bad, self.fixed)]
        return [(each, self.fixed / each.name) for each in sorted(self.bad.glob("*.py"))]

    def check_marker(self) -> None:
        """Check that the marker has the known keys and values.

        Raises:
            AssertionError: the marker is wrong.
        """
        marker = self.marker
        unknown = marker.keys() - {"fix", "shows", "device", "confidence"}
        _require(not unknown, f"{self.bad}: unknown key in the marker: {', '.join(sorted(unknown))}")
        for key, values in (
            ("fix", ("safe", "unsafe", "hand")),
            ("shows", SHOWS),
            ("device", (CPU, *DEVICES)),
            ("confidence", [each.value for each in Confidence]),
        ):
            value = marker.get(key)
            if value is None and key in ("device", "confidence"):
                continue
            _require(value in values, f"{self.bad}: {key}={value} is not one of {', '.join(sorted(values))}")
        declared = _rule(self.code).fixes
        if marker["fix"] != "hand" and declared is not None:
            is_declared = Applicability(marker["fix"]) in declared
            _require(is_declared, f"{self.bad}: fix={marker['fix']}, but `fixes` of {self.code} doesn't have that")
        if marker["shows"] == "none":
            proof = _rule(self.code).sections()["Proof"]
            _require("shows=none" in proof, f"{self.code}: the documentation must say why a fixture has shows=none")

    def check_found(self) -> None:
        """Check that amplint reports exactly the lines of the bad half that are marked.

        Raises:
            AssertionError: it doesn't.
        """
        expected = sum((expected_in(path) for path, _ in self.files()), _Found())
        found = sum((_found_in_bad(path, self.settings) for path, _ in self.files()), _Found())
        _same(found, expected)
        _require(any(code == self.code for *_, code in expected), f"{self.bad}: no line expects {self.code}")
        if (said := self.marker.get("confidence")) is not None:
            sure = {
                each.confidence.value
                for path, _ in self.files()
                for each in _made(path, self.settings).before.findings
                if each.code == self.code
            }
            _require(sure == {said}, f"{self.bad}: confidence={said}, but the findings are {', '.join(sorted(sure))}")

    def check_fixed(self) -> None:
        """Check that the fixer turns the bad half into the fixed half, in which the rule and the fixer find nothing.

        Raises:
            AssertionError: it doesn't.
        """
        kind = self.marker["fix"]
        safe: list[bool] = []  # whether the safe fixes are enough, by file
        settings = self.settings
        for bad, fixed in self.files():
            before, after = plain(bad.read_text("utf-8")).encode(), fixed.read_text("utf-8").encode()
            _require(
                b"# expect" not in after and b"amplint-fixture" not in after,
                f"{fixed}: remove the line `# amplint-fixture: ...` and the comments `# expect: ...`: "
                "only bad.py has them",
            )
            again = fixed_bytes(after, str(fixed), settings, True)
            if kind == "hand":
                found = [
                    each
                    for each in fixed_bytes(before, str(bad), settings, False).before.findings
                    if each.code == self.code
                ]
                offered = [each for each in found if each.fix and each.fix.edits and not each.withheld]
                _require(not offered, f"{bad}: fix=hand, but amplint offers a fix")
            else:
                _same_text(fixed_bytes(before, str(bad), settings, kind == "unsafe").data, after, fixed)
                _same_text(again.data, after, fixed)
                if self.bad.is_dir():  # beside the other files as they were, too
                    _same_text(fixed_bytes(after, str(bad), settings, True).data, after, fixed)
                safe.append(kind == "safe" or fixed_bytes(before, str(bad), settings, False).data == after)
            left = sorted(row for _, row, code in _counted(again.before) if code == self.code)
            _require(not left, f"{fixed}: amplint still reports {self.code} on line {', '.join(map(str, left))}")
        _require(kind != "unsafe" or not all(safe), f"{self.bad}: fix=unsafe, but the safe fixes are enough")

    def check_run(self) -> None:
        """Check that the bad half misbehaves as its marker says, and the fixed half doesn't, under the real torch.amp.

        The first call starts a process that runs all fixtures, one by one, and ends with the current process.

        Raises:
            AssertionError: they don't.
            amplint.verify.fixtures.run.CannotRun: torch is missing.
        """
        row = self.run()
        expected = NOT_EXECUTED if row.fixture.shows == "none" else CONFIRMED
        if row.verdict != expected:
            said = f"{row.verdict}: {row.reason}\nbefore: {row.before}\nafter: {row.after}"
            _require(False, f"{self.bad}: shows={row.fixture.shows}: {said}\n{_instead(row.fixture)}")

    def run(self) -> Row:
        """The result of `amplint verify --run`. The variant is executed only once, even if you call this again.

        Raises:
            amplint.verify.fixtures.run.CannotRun: torch is missing.
        """
        return _executed(self.bad)

    def __str__(self) -> str:
        return f"{self.code}-{self.name}"


class Silent(NamedTuple):
    """A correct program."""

    code: str
    path: Path

    def check_silent(self) -> None:
        """Check that amplint finds nothing in the program.

        Raises:
            AssertionError: amplint finds something.
        """
        _same(_found(self.path, self.code), _Found())

    def __str__(self) -> str:
        return f"{self.code}-{self.path.stem}"


class FixtureTests:
    """Tests, for pytest, of all fixtures in a `folder`."""

    folder: ClassVar[str | os.PathLike[str]]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Let pytest run the tests below for each variant, silent program and rule."""
        asked = metafunc.fixturenames
        if "variant" in asked:  # all that is asked of one is asked in a row, while what it came to is still there
            metafunc.parametrize("variant", find_variants(self.folder), ids=str, scope="class")
        elif "silent" in asked:
            metafunc.parametrize("silent", find_silent(self.folder), ids=str)
        elif "rule" in asked:
            rules = _rules(self.folder)
            metafunc.parametrize("rule", rules, ids=[each.code for each in rules])

    def test_each_rule_has_a_folder(self) -> None:
        """Each rule that finds something has a folder, with variants and silent programs."""
        folders = {each.name[:6]: each.name for each in _folders(self.folder)}
        rules = {rule.code: f"{rule.code}_{rule.name.replace('-', '_')}" for rule in _rules(self.folder) if rule.run}
        wrong = f"the folders are {sorted(folders.values())}, but the rules are {sorted(rules.values())}"
        _require(folders == rules, wrong)
        with_variants = {each.code for each in find_variants(self.folder)}
        with_silent = {each.code for each in find_silent(self.folder)}
        _require(with_variants == set(rules), f"rules without a variant: {sorted(set(rules) - with_variants)}")
        _require(with_silent == set(rules), f"rules without a silent program: {sorted(set(rules) - with_silent)}")

    def test_marker(self, variant: Variant) -> None:
        """See `Variant.check_marker`."""
        variant.check_marker()

    def test_bad_is_found(self, variant: Variant) -> None:
        """See `Variant.check_found`."""
        variant.check_found()

    def test_fixed_is_what_the_fixer_makes(self, variant: Variant) -> None:
        """See `Variant.check_fixed`."""
        variant.check_fixed()

    def test_bad_misbehaves_as_its_marker_says_and_fixed_does_not(self, variant: Variant) -> None:
        """See `Variant.check_run`."""
        import pytest  # noqa: PLC0415 - the rest of the module does without

        pytest.importorskip("torch")
        variant.check_run()

    def test_silent(self, silent: Silent) -> None:
        """See `Silent.check_silent`."""
        silent.check_silent()

    def test_documentation(self, rule: Rule) -> None:
        """The documentation has a sentence, then all sections, and its examples are Python."""
        _require(rule.summary.endswith("."), f"{rule.code}: the documentation doesn't start with a sentence")
        for heading, text in rule.sections().items():
            _require(bool(text), f"{rule.code}: the section {heading!r} is empty")
            for block in _BLOCK.findall(text) if heading in ("Example", "Use instead") else ():
                ast.parse(block)


def find_variants(folder: str | os.PathLike[str]) -> list[Variant]:
    """All variants in a folder of rules' folders.

    The checks remember what they read of other files on the disk until you call this again.
    """
    look_again()
    found = []
    for rule in _folders(folder):
        for each in sorted(rule.iterdir()):
            if each.name != "silent" and each.is_dir() and not each.name.startswith(("_", ".")):
                ending = ".py" if (each / "bad.py").exists() else ""
                found.append(Variant(rule.name[:6], each.name, each / f"bad{ending}", each / f"fixed{ending}"))
    return found


def find_silent(folder: str | os.PathLike[str]) -> list[Silent]:
    """All silent programs in a folder of rules' folders."""
    return [Silent(rule.name[:6], each) for rule in _folders(folder) for each in sorted(rule.glob("silent/*.py"))]


def plain(text: str) -> str:
    """A fixture's text without what only its test reads."""
    return _EXPECT.sub("", _MARKER.sub("", text, count=1))


def settings_for(code: str, path: Path) -> Settings:
    """The rules that are on by default, and one, but for those that an amplint.toml in a rule's folder ignores.

    A requirements.txt there declares the torch.
    """
    _rule(code)
    declares = any((each / "requirements.txt").exists() for each in path.parents if each.name.startswith(f"{code}_"))
    default = {each.code for each in all_rules().values() if each.default}
    ignored = {
        other
        for each in path.parents
        if each.name.startswith(f"{code}_") and (each / "amplint.toml").exists()
        for other in parse_toml((each / "amplint.toml").read_text("utf-8")).get("ignore", ())
    }
    return Settings(frozenset(default - ignored | {code}), isolated=not declares)


@lru_cache(maxsize=16)  # a test asks the same of a program more than once
def fixed_bytes(data: bytes, path: str, settings: Settings, unsafe: bool) -> FixResult:
    """What is found in a fixture's text, and what the fixer makes of it."""
    if unsafe:
        safe = fixed_bytes(data, path, settings, False)
        if not any(finding.is_fixable(unsafe=True) for finding in _not_safe(safe)):
            return safe  # there is nothing that `unsafe` adds
        return fix_bytes(data, path, settings, unsafe=True, before=safe.before)
    return fix_bytes(data, path, settings, unsafe=False)


def _not_safe(made: FixResult) -> list[Finding]:
    """What was found before and after that has no safe fix."""
    return [each for each in (*made.before.findings, *made.result.findings) if not each.is_fixable(unsafe=False)]


@cache
def _executed(bad: Path) -> Row:
    from amplint.verify.fixtures.run import need_torch, row_of  # noqa: PLC0415 - most tests run nothing

    (fixture,) = find_fixtures([str(bad)])
    if fixture.shows != "none":
        need_torch()
    return row_of(fixture, kept_runner())


def _instead(fixture: Fixture) -> str:
    """What the marker of a fixture may say, after runs for each observable, or what to do if none shows the misuse."""
    from amplint.verify.fixtures.run import row_of  # noqa: PLC0415 - most tests run nothing

    others = (fixture._replace(shows=each) for each in sorted(SHOWS - {"none", fixture.shows}))
    rows = [row for other in others if (row := row_of(other, kept_runner())).verdict == CONFIRMED]
    told = [f"shows={row.fixture.shows} is right instead (before: {row.before}; after: {row.after})" for row in rows]
    return "\n".join(told) or "No other `shows=` is right either: make the misuse larger, or take shows=none."


@cache
def kept_runner() -> Runner:
    """What runs the programs of fixtures: one process for all of them, which ends with this one."""
    from amplint.verify.fixtures.run import Runner  # noqa: PLC0415 - most tests run nothing

    kept = ExitStack()
    atexit.register(kept.close)
    folder = kept.enter_context(TemporaryDirectory(prefix="amplint-", ignore_cleanup_errors=True))
    return kept.enter_context(Runner(folder))


def _folders(folder: str | os.PathLike[str]) -> list[Path]:
    found = sorted(each for each in Path(folder).iterdir() if each.is_dir() and not each.name.startswith((".", "_")))
    strange = [each.name for each in found if not _CODE.match(each.name)]
    _require(not strange, f"{folder}: not named after a rule, such as ABC101_its_name: {', '.join(strange)}")
    _require(bool(found), f"{folder}: contains no fixtures of a rule")
    return found


def _rules(folder: str | os.PathLike[str]) -> list[Rule]:
    """All rules with the prefixes that the folders of some have."""
    prefixes = {each.name[:3] for each in _folders(folder)}
    return [rule for code, rule in all_rules().items() if code[:3] in prefixes]


def _rule(code: str) -> Rule:
    errors = "".join(f"; {each}" for each in known().errors)
    _require(code in all_rules(), f"there is no rule {code}: is the package that has it installed?{errors}")
    return all_rules()[code]


def expected_in(path: Path) -> _Found:
    """What a fixture expects amplint to report in it: the file's name, line and code."""
    text = path.read_text("utf-8")
    return Counter(
        (path.name, text.count("\n", 0, found.end()) + 1, code)
        for found in _EXPECT.finditer(text)
        for code in found[1].split(", ")
    )


def _found(path: Path, code: str) -> _Found:
    return _counted(check_bytes(path.read_bytes(), str(path), settings_for(code, path)))


def _made(path: Path, settings: Settings) -> FixResult:
    """What is found in a bad half, and what the safe fixes make of it."""
    return fixed_bytes(plain(path.read_text("utf-8")).encode(), str(path), settings, False)


def _found_in_bad(path: Path, settings: Settings) -> _Found:
    """What is found in a bad half, by its own lines: the marker is one of them, and is not linted."""
    marked = int(_MARKER.match(path.read_text("utf-8")) is not None)
    found = _counted(_made(path, settings).before)
    return Counter({(name, row + marked, each): n for (name, row, each), n in found.items()})


def _counted(result: Result) -> _Found:
    source, name = result.source, Path(result.filename).name
    return Counter((name, source.row(each.start), each.code) for each in result.findings if source is not None)


def _same(found: _Found, expected: _Found) -> None:
    __tracebackhide__ = True
    extra, missing = sorted((found - expected).elements()), sorted((expected - found).elements())
    lines = [f"reported, but not expected: {name}:{row} {code}" for name, row, code in extra]
    lines += [f"expected, but not reported: {name}:{row} {code}" for name, row, code in missing]
    _require(not lines, "\n".join(lines))


def _same_text(found: bytes, expected: bytes, path: Path) -> None:
    __tracebackhide__ = True
    if found != expected:
        before, after = expected.decode().splitlines(), found.decode().splitlines()
        lines = difflib.unified_diff(before, after, str(path), "what the fixer makes", lineterm="")
        raise AssertionError("\n".join(lines) or f"{path}: the fixer writes other line endings")


def _require(holds: bool, message: str) -> None:
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(message)
