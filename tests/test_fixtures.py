"""Every fixture, through lint, fix and torch.

`fixtures/AMP101_deprecated_autocast/<variant>/` holds `bad.py` and `fixed.py` (or `bad/` and `fixed/` with several
files). `bad.py` starts with a marker,

    # amplint-fixture: fix=safe shows=warning device=cuda

and says on each line what is found there: `# expect: AMP101` or `# expect: AMP101, AMP102`. Nothing else may be found.
`fix` is what makes `fixed.py` of it: `safe`, `unsafe` (with unsafe fixes too), or `hand`, where amplint offers none and
`fixed.py` is how a person would write it; all fixed files are clean of the rule. `fixed.py` is compared with what the
fixer writes after the marker line and the `# expect:` comments were taken out. `shows` is the observable in
which `amplint verify` finds the bad half wrong and the fixed half right (amplint/verify/proof.py), `none` if it is not
executed; `device=cuda` asks for CUDA, simulated where it is missing, and `device=cpu` for the CPU whatever `--device`
says. `silent/*.py` are correct programs: nothing is found in them, and they train as their reference does. Where a rule
asks for the releases of torch that a project admits, a `requirements.txt` in its folder says which.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from amplint import check, fix
from amplint.engine import check_bytes
from amplint.rules import all_rules
from amplint.settings import Settings
from amplint.verify.fixtures import CPU, DEVICES, find_fixtures
from amplint.verify.proof import CONFIRMED, NOT_EXECUTED, SHOWS, Observed
from amplint.verify.run import MEMORY, TIMEOUT, Row, Runner, verify

FIXTURES = Path(__file__).parents[1] / "fixtures"
_MARKER = re.compile(r"# amplint-fixture:((?: \w+=[\w-]+)+)\n")
_EXPECT = re.compile(r"[ \t]*# expect: (AMP\d{3}(?:, AMP\d{3})*)[ \t]*$", re.MULTILINE)


class Variant(NamedTuple):
    """One variant of a rule: its files by name, before and after."""

    code: str
    name: str
    bad: Path
    fixed: Path

    @property
    def marker(self) -> dict[str, str]:
        first = next(iter(sorted(self.bad.glob("*.py")))) if self.bad.is_dir() else self.bad
        found = _MARKER.match(first.read_text())
        assert found, f"{first} has no marker line"
        return dict(each.split("=") for each in found.group(1).split())

    def files(self) -> list[tuple[Path, Path]]:
        if not self.bad.is_dir():
            return [(self.bad, self.fixed)]
        return [(each, self.fixed / each.name) for each in sorted(self.bad.glob("*.py"))]


def _folders() -> list[Path]:
    return sorted(each for each in FIXTURES.iterdir() if each.is_dir() and not each.name.startswith((".", "_")))


def _variants() -> list[Variant]:
    found = []
    for folder in _folders():
        for each in sorted(folder.iterdir()):
            if each.name != "silent" and each.is_dir() and not each.name.startswith(("_", ".")):
                single = (each / "bad.py").exists()
                found.append(
                    Variant(
                        folder.name[:6],
                        each.name,
                        each / ("bad.py" if single else "bad"),
                        each / ("fixed.py" if single else "fixed"),
                    )
                )
    return found


VARIANTS = _variants()
SILENT = sorted(FIXTURES.glob("*/silent/*.py"))
SILENT_IDS = [f"{each.parents[1].name[:6]}-{each.stem}" for each in SILENT]
IDS = [f"{each.code}-{each.name}" for each in VARIANTS]


def plain(text: str) -> str:
    """A fixture's text without what only this test reads."""
    return _EXPECT.sub("", _MARKER.sub("", text, count=1))


def default_codes() -> set[str]:
    return {rule.code for rule in all_rules().values() if rule.default}


def settings_for(code: str) -> Settings:
    """The default rules, and the one that the fixture is for. A requirements.txt in its folder declares the torch."""
    declares = any(FIXTURES.glob(f"{code}_*/requirements.txt"))
    return Settings(frozenset(default_codes() | {code}), isolated=not declares)


def found_in(path: Path, code: str) -> Counter[tuple[int, str]]:
    result = check_bytes(path.read_bytes(), str(path), settings_for(code))
    assert result.source is not None or not result.findings
    return Counter((result.source.row(each.start), each.code) for each in result.findings if result.source)


def expected_in(path: Path) -> Counter[tuple[int, str]]:
    text = path.read_text()
    return Counter(
        (text.count("\n", 0, found.end()) + 1, code)
        for found in _EXPECT.finditer(text)
        for code in found[1].split(", ")
    )


def test_a_folder_for_each_rule_that_finds_something() -> None:
    rules = {rule.code: rule for rule in all_rules().values() if rule.run}
    folders = {each.name[:6]: each.name for each in _folders()}
    assert folders == {code: f"{code}_{rule.name.replace('-', '_')}" for code, rule in rules.items()}


@pytest.mark.parametrize("folder", _folders(), ids=lambda folder: folder.name[:6])
def test_a_folder_has_variants_and_silent_files(folder: Path) -> None:
    assert any(each.code == folder.name[:6] for each in VARIANTS)
    assert list((folder / "silent").glob("*.py"))


@pytest.mark.parametrize("variant", VARIANTS, ids=IDS)
def test_marker(variant: Variant) -> None:
    marker = variant.marker
    assert marker.keys() <= {"fix", "shows", "device"}
    assert marker["fix"] in ("safe", "unsafe", "hand")
    assert marker["shows"] in SHOWS
    assert marker.get("device") in (None, CPU, *DEVICES)
    if marker["shows"] == "none":
        assert "shows=none" in all_rules()[variant.code].sections()["Proof"], "the documentation has to say why"


@pytest.mark.parametrize("variant", VARIANTS, ids=IDS)
def test_bad_is_found(variant: Variant) -> None:
    expected = Counter({(path.name, *each): n for path, _ in variant.files() for each, n in expected_in(path).items()})
    found = Counter(
        {(path.name, *each): n for path, _ in variant.files() for each, n in found_in(path, variant.code).items()}
    )
    assert found == expected
    assert any(code == variant.code for _, _, code in expected)


@pytest.mark.parametrize("variant", VARIANTS, ids=IDS)
def test_fixed_is_what_the_fixer_makes(variant: Variant) -> None:
    kind = variant.marker["fix"]
    safe: list[bool] = []  # whether the safe fixes are enough, by file
    for bad, fixed in variant.files():
        before, after = plain(bad.read_text()), fixed.read_text()
        settings = settings_for(variant.code)
        if kind == "hand":
            own = [each for each in check(before, str(bad), settings) if each.code == variant.code]
            assert all(each.withheld or each.fix is None or not each.fix.edits for each in own)
        else:
            assert fix(before, str(bad), settings, unsafe=kind == "unsafe") == after
            assert fix(after, str(bad), settings, unsafe=True) == after
            safe.append(fix(before, str(bad), settings) == after)
        assert not any(code == variant.code for _, code in found_in(fixed, variant.code))
        assert "# expect" not in after
        assert "amplint-fixture" not in after
    assert kind != "unsafe" or not all(safe)


@pytest.mark.parametrize("path", SILENT, ids=SILENT_IDS)
def test_silent(path: Path) -> None:
    assert not found_in(path, path.parents[1].name[:6])


# --- execution ------------------------------------------------------------------------------------------------------


@cache
def executed() -> dict[str, Row]:
    """What `amplint verify` says of each fixture. One run for all."""
    return {f"{row.fixture.rule}-{row.fixture.name}": row for row in verify([FIXTURES])}


@pytest.mark.parametrize("key", IDS)
def test_bad_misbehaves_as_its_marker_says_and_fixed_does_not(key: str) -> None:
    pytest.importorskip("torch")
    row = executed()[key]
    said = f"{row.reason}\nbefore: {row.before}\nafter: {row.after}"
    assert row.verdict == (NOT_EXECUTED if row.fixture.shows == "none" else CONFIRMED), said


# They leave out a step whose gradients overflowed by a test of their own, where the reference has no overflow.
LEAVE_OUT = {
    "AMP402-compared_with_infinity",
    "AMP402-finite_norm_asked_for",
    "AMP402-found_inf_asked_for",
    "AMP404-bad_loss_continues",
}


@cache
def trained() -> dict[str, Observed]:
    """Each silent program beside its reference."""
    job = {"shows": "update", "device": None, "timeout": TIMEOUT, "memory": MEMORY}
    with TemporaryDirectory() as folder, Runner(folder) as runner:
        return {key: runner.run({**job, "path": str(path)}) for key, path in zip(SILENT_IDS, SILENT, strict=True)}


@pytest.mark.parametrize("key", SILENT_IDS)
def test_what_is_silent_is_right(key: str) -> None:
    pytest.importorskip("torch")
    seen = trained()[key]
    if "No module named" in seen.detail:
        pytest.skip("it imports a library that is not here")
    assert seen.end == "finished", seen.detail
    assert not seen.reused
    if key not in LEAVE_OUT:
        assert not seen.update.beyond(seen.tolerance), seen.update


def test_verify_finds_what_is_here() -> None:
    found = find_fixtures([str(FIXTURES)])
    assert [f"{each.rule}-{each.name}" for each in found] == IDS
    for each, variant in zip(found, VARIANTS, strict=True):
        assert (each.shows, each.device) == (variant.marker["shows"], variant.marker.get("device"))


@pytest.mark.parametrize("code", [rule.code for rule in all_rules().values()])
def test_documentation(code: str) -> None:
    rule = all_rules()[code]
    sections = rule.sections()
    assert all(sections.values())
    assert rule.summary.endswith(".")
    for name in ("Example", "Use instead") if code != "AMP001" else ("Use instead",):
        for block in re.findall(r"```python\n(.*?)```", sections[name], re.DOTALL):
            ast.parse(block)
